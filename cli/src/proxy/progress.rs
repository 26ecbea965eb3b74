//! Progress of one call, in the client's own terms: its token, and numbers that only rise, whether the step comes from
//! the environment or from the way there.

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::writer::Writer;

/// Where progress of one call goes; nowhere if the client asked for none.
#[derive(Debug)]
pub(super) struct Progress {
    token: Option<Value>,
    writer: Writer,
    numbers: Mutex<Numbers>,
}

#[derive(Debug, Default)]
struct Numbers {
    /// What was told last.
    last: f64,
    /// What the way there took; the environment's own numbers come on top.
    base: f64,
}

impl Progress {
    /// Returns the progress of a call with the client's token.
    pub(super) fn new(token: Option<Value>, writer: Writer) -> Self {
        Self { token, writer, numbers: Mutex::default() }
    }

    /// Tells of a step on the way to the environment.
    pub(super) fn on_the_way(&self, words: &str) {
        let Some(token) = &self.token else { return };
        let progress = {
            let mut numbers = self.numbers.lock();
            numbers.last += 1.0;
            numbers.base = numbers.last;
            numbers.last
        };
        let params = json!({ "progressToken": token, "progress": number(progress), "message": words });
        self.writer.send_if_room(notification(&params));
    }

    /// Relays a step of the environment. Its numbers are put on top of what was told before; one that does not rise is
    /// left out, as the protocol asks.
    pub(super) fn relay(&self, message: &Value) {
        let (Some(token), Some(params)) = (&self.token, message.get("params").and_then(Value::as_object))
        else {
            return;
        };
        let Some(own) = params.get("progress").and_then(Value::as_f64).filter(|p| p.is_finite()) else {
            return;
        };
        let base = {
            let mut numbers = self.numbers.lock();
            let progress = numbers.base + own;
            if progress <= numbers.last {
                return;
            }
            numbers.last = progress;
            numbers.base
        };
        let mut relayed = json!({ "progressToken": token, "progress": number(base + own) });
        if let Some(total) = params.get("total").and_then(Value::as_f64) {
            relayed["total"] = number(base + total);
        }
        if let Some(words) = params.get("message").filter(|m| m.is_string()) {
            relayed["message"] = words.clone();
        }
        self.writer.send_if_room(notification(&relayed));
    }
}

fn notification(params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params })
}

/// Whole numbers are written as such: `3`, not `3.0`.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 1e15 { json!(value as i64) } else { json!(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn numbers_only_rise_whoever_tells_them() {
        let (mut reader, output) = tokio::io::duplex(64 * 1024);
        let (writer, task) = Writer::start(output);
        let progress = Progress::new(Some(json!("t")), writer);
        let step = |n: f64| json!({ "params": { "progressToken": "ours", "progress": n, "total": 10, "message": "m" } });
        progress.on_the_way("starting");
        progress.relay(&step(1.0));
        progress.relay(&step(1.0));
        progress.relay(&step(0.5));
        progress.relay(&step(2.5));
        progress.relay(&json!({ "params": { "progress": "no number" } }));
        drop(progress);
        task.await.unwrap();
        let mut text = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut reader, &mut text).await.unwrap();
        let steps: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let numbers: Vec<f64> = steps.iter().filter_map(|s| s["params"]["progress"].as_f64()).collect();
        assert_eq!(numbers, [1.0, 2.0, 3.5]);
        assert!(steps.iter().all(|s| s["params"]["progressToken"] == "t"));
        assert_eq!(steps[1]["params"]["total"], 11);
    }
}
