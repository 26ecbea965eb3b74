//! One request and its answer, with the patience of a person at a terminal: what cannot have run is sent again, with
//! words about why it takes so long; what may have run is not.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::error::{CliError, Kind};
use crate::mcp_client::Answer;
use crate::output;
use crate::reach::{Reach, Route, Sent, Wake};

/// How long a busy environment is asked again.
const BUSY_TIMEOUT: Duration = Duration::from_mins(1);
/// The pause before the next try when the server names none.
const DEFAULT_PAUSE: Duration = Duration::from_millis(500);
/// How often a way that failed before anything was sent is looked for anew.
const MAX_NEW_WAYS: u32 = 3;

/// Sends a request and returns the answer's message: a result, or an error of the protocol.
pub(crate) async fn request(
    reach: &Reach,
    method: &str,
    params: Value,
    wake: Wake,
) -> Result<Value, CliError> {
    let id = uuid::Uuid::new_v4().to_string();
    let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    let notice = |text: &str| output::note(text);
    let deadline = Instant::now() + BUSY_TIMEOUT;
    let mut new_ways = 0;
    loop {
        let route = reach.route(wake, &notice).await?;
        let problem = match reach.send(&route, &message, &mut progress).await {
            Sent::Answered(Answer::Message(answer)) => {
                if answer.get("id").and_then(Value::as_str) == Some(&id) {
                    return Ok(answer);
                }
                return Err(CliError::failed("the answer belongs to another request"));
            }
            Sent::Answered(Answer::Accepted) => {
                return Err(CliError::failed("the request was taken for a notification"));
            }
            Sent::Answered(Answer::Refused(refusal)) if refusal.is_passing() => {
                if refusal.is_down() {
                    reach.forget(&route);
                }
                let pause = refusal.retry_after.unwrap_or(DEFAULT_PAUSE);
                let error = CliError::from(&refusal);
                if Instant::now() + pause > deadline {
                    return Err(error);
                }
                output::note(&format!("{}; trying again", refusal.message));
                tokio::time::sleep(pause).await;
                continue;
            }
            Sent::Answered(Answer::Refused(refusal)) => return Err(CliError::from(&refusal)),
            Sent::Unsent(error) => error,
            Sent::Lost(error) => return Err(lost(error)),
        };
        reach.forget(&route);
        new_ways += 1;
        if new_ways >= MAX_NEW_WAYS || problem.kind == Kind::Usage {
            return Err(problem);
        }
    }
}

/// Sends one request through a port of this machine, once.
pub(crate) async fn through_port(
    reach: &Reach,
    port: u16,
    method: &str,
    params: Value,
) -> Result<Value, CliError> {
    let id = uuid::Uuid::new_v4().to_string();
    let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    match reach.send(&Arc::new(Route::local(port)), &message, &mut |_| {}).await {
        Sent::Answered(Answer::Message(answer)) => Ok(answer),
        Sent::Answered(Answer::Accepted) => Err(CliError::failed("the request was taken for a notification")),
        Sent::Answered(Answer::Refused(refusal)) => Err(CliError::from(&refusal)),
        Sent::Unsent(error) | Sent::Lost(error) => Err(error),
    }
}

/// Returns the result of an answer, or the protocol's error.
pub(crate) fn result(message: &Value) -> Result<&Value, CliError> {
    match message.get("result") {
        Some(result) => Ok(result),
        None => Err(crate::mcp_client::protocol_error(message.get("error").unwrap_or(&Value::Null))),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that notifications are handed over in")]
fn progress(message: Value) {
    let step = message.pointer("/params/message").and_then(Value::as_str);
    if let (Some("notifications/progress"), Some(step)) =
        (message.get("method").and_then(Value::as_str), step)
    {
        output::note(step);
    }
}

fn lost(error: CliError) -> CliError {
    error
        .hint("the call may have run; it was not repeated")
        .hint("`cuddy mcp call --tool exec_job_status` shows the jobs that run")
}
