//! An answer as a stream of server-sent events: progress, then the result, then nothing.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use cuddy_protocol::CommandError;
use futures::future::BoxFuture;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::Permit;
use super::call;
use crate::handler::ProgressStep;
use crate::in_flight::Registered;

/// A running call whose answer is streamed. Dropping it takes the call back.
pub(super) struct Streaming {
    call: Option<BoxFuture<'static, Result<Value, CommandError>>>,
    steps: mpsc::Receiver<ProgressStep>,
    more_steps: bool,
    last: Option<f64>,
    token: Value,
    id: Value,
    registered: Registered,
    _permit: Permit,
}

impl Streaming {
    pub(super) fn new(
        call: BoxFuture<'static, Result<Value, CommandError>>,
        steps: mpsc::Receiver<ProgressStep>,
        token: Value,
        id: Value,
        registered: Registered,
        permit: Permit,
    ) -> Self {
        Self { call: Some(call), steps, more_steps: true, last: None, token, id, registered, _permit: permit }
    }

    /// Returns the next piece; none at the end.
    async fn next(&mut self, keep_alive: &mut Interval) -> Option<Bytes> {
        loop {
            let call = self.call.as_mut()?;
            tokio::select! {
                biased;
                step = self.steps.recv(), if self.more_steps => match step {
                    Some(step) => {
                        if let Some(event) = self.progress(&step) {
                            return Some(event.into());
                        }
                    }
                    None => self.more_steps = false,
                },
                result = call => {
                    self.call = None;
                    return self.end(result);
                }
                _ = keep_alive.tick() => return Some(Bytes::from_static(b": the call runs\n\n")),
            }
        }
    }

    /// Returns what is left: steps that were reported before the end, and the answer.
    fn end(&mut self, result: Result<Value, CommandError>) -> Option<Bytes> {
        let mut rest = Vec::new();
        while let Ok(step) = self.steps.try_recv() {
            rest.extend(self.progress(&step).into_iter().flatten());
        }
        if let Some(answer) = call::answer(&self.id, result, &self.registered) {
            rest.extend(event(&answer));
        }
        (!rest.is_empty()).then(|| rest.into())
    }

    /// Returns the event of a step; none for one that does not go forward.
    fn progress(&mut self, step: &ProgressStep) -> Option<Vec<u8>> {
        let forward = step.progress.is_finite() && self.last.is_none_or(|last| step.progress > last);
        if !forward {
            return None;
        }
        self.last = Some(step.progress);
        let mut params = json!({ "progressToken": self.token, "progress": step.progress });
        if let Some(total) = step.total.filter(|t| t.is_finite()) {
            params["total"] = json!(total);
        }
        if let Some(message) = &step.message {
            params["message"] = json!(message);
        }
        let message = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params });
        Some(event(message.to_string().as_bytes()))
    }
}

/// Returns a message as an event; JSON without line breaks needs one line.
fn event(message: &[u8]) -> Vec<u8> {
    let mut event = Vec::with_capacity(message.len() + 24);
    event.extend_from_slice(b"event: message\ndata: ");
    event.extend_from_slice(message);
    event.extend_from_slice(b"\n\n");
    event
}

/// Returns the answer that streams a call.
pub(super) fn answer(streaming: Streaming, keep_alive: Duration) -> Response {
    let mut ticks = tokio::time::interval_at(Instant::now() + keep_alive, keep_alive);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let pieces = futures::stream::unfold((streaming, ticks), |(mut streaming, mut ticks)| async move {
        let piece = streaming.next(&mut ticks).await?;
        Some((Ok::<_, Infallible>(piece), (streaming, ticks)))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
