//! One `tools/call`, from the client's request to its answer.
//!
//! What cannot have run is sent again: no connection, a refusal before any effect. What may have run is sent again only if
//! the command merely reads. Everything else ends as an error that says what is known.

use std::sync::Arc;
use std::time::Duration;

use cuddy_commands::{Effect, TABLE};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::message;
use super::progress::Progress;
use super::session::Upstream;
use crate::error::{CliError, Kind};
use crate::mcp_client::{self, Answer, Refusal};
use crate::output;
use crate::reach::{Reach, Route, Sent, Wake};

/// The first pause before another try, and the longest.
const PAUSE: Duration = Duration::from_millis(250);
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// How long a way is looked for that keeps failing before anything is sent.
const WAY_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a command that merely reads is asked again after its answer was lost.
const MAX_READS: u32 = 3;
/// How long telling the environment that a call is taken back may take.
const TAKE_BACK_TIMEOUT: Duration = Duration::from_secs(2);

/// A call.
pub(super) struct Call {
    upstream: Arc<Upstream>,
    id: Value,
    params: Map<String, Value>,
    progress: Progress,
    /// The id under which the environment knows the call, and the way it went.
    sent: Mutex<Option<(String, Arc<Route>)>>,
}

/// What to do after a try.
enum Next {
    Answer(Value),
    Again { pause: Option<Duration>, words: String },
}

/// What a call has gone through.
struct Tries {
    since: Instant,
    way_lost_since: Option<Instant>,
    reads: u32,
    pause: Duration,
}

impl Call {
    pub(super) const fn new(
        upstream: Arc<Upstream>,
        id: Value,
        params: Map<String, Value>,
        progress: Progress,
    ) -> Self {
        Self { upstream, id, params, progress, sent: Mutex::new(None) }
    }

    /// Returns the answer for the client; none for a call that it took back.
    pub(super) async fn run(&self, taken_back: &CancellationToken) -> Option<Value> {
        let mut answer = std::pin::pin!(self.answer());
        tokio::select! {
            biased;
            () = taken_back.cancelled() => {
                // Said by name while the connection still stands; then the connection is closed, which says it too.
                self.take_back().await;
                None
            }
            answer = &mut answer => Some(answer),
        }
    }

    async fn answer(&self) -> Value {
        let reach = match self.upstream.reach().await {
            Ok(reach) => reach,
            Err(error) => return self.failure(&error),
        };
        let mut tries = Tries { since: Instant::now(), way_lost_since: None, reads: 0, pause: PAUSE };
        loop {
            match self.attempt(reach, &mut tries).await {
                Next::Answer(answer) => return answer,
                Next::Again { pause, words } => {
                    self.progress.on_the_way(&words);
                    diagnose(&words);
                    tokio::time::sleep(pause.unwrap_or(tries.pause)).await;
                    tries.pause = (tries.pause * 2).min(MAX_PAUSE);
                }
            }
        }
    }

    async fn attempt(&self, reach: &Reach, tries: &mut Tries) -> Next {
        let notice = |words: &str| {
            self.progress.on_the_way(words);
            diagnose(words);
        };
        let route = match reach.route(Wake::Yes, &notice).await {
            Ok(route) => route,
            Err(error) => return Next::Answer(self.failure(&error)),
        };
        let id = uuid::Uuid::new_v4().to_string();
        let message = self.message(&id);
        *self.sent.lock() = Some((id.clone(), Arc::clone(&route)));
        let sent = reach.send(&route, &message, &mut |step| self.progress.relay(&step)).await;
        *self.sent.lock() = None;
        match sent {
            Sent::Answered(Answer::Message(answer)) => self.answered(reach, &route, &id, answer, tries),
            Sent::Answered(Answer::Accepted) => {
                let error = CliError::failed("the environment says that this call was taken back");
                Next::Answer(self.failure(&error))
            }
            Sent::Answered(Answer::Refused(refusal)) => self.refused(reach, &route, &refusal, tries),
            Sent::Unsent(error) => {
                reach.forget(&route);
                let since = *tries.way_lost_since.get_or_insert_with(Instant::now);
                if error.kind != Kind::Unreachable || since.elapsed() > WAY_TIMEOUT {
                    return Next::Answer(self.failure(&error));
                }
                Next::Again { pause: None, words: format!("{}; trying again", error.chain()) }
            }
            Sent::Lost(error) => {
                reach.forget(&route);
                tries.reads += 1;
                if self.merely_reads() && tries.reads < MAX_READS && error.kind == Kind::ChannelLost {
                    return Next::Again { pause: None, words: format!("{}; asking again", error.chain()) };
                }
                Next::Answer(self.lost(&error))
            }
        }
    }

    fn answered(
        &self,
        reach: &Reach,
        route: &Arc<Route>,
        id: &str,
        mut answer: Value,
        tries: &Tries,
    ) -> Next {
        if answer.get("id").and_then(Value::as_str) != Some(id) {
            let error = CliError::failed("the environment answered another request than this one");
            return Next::Answer(self.failure(&error));
        }
        // A command may be refused before its effect after the door let it in.
        if let Ok(tool) = mcp_client::tool_answer(&answer)
            && let Some(code) = tool.error_code().filter(|_| tool.is_error)
            && matches!(code.as_str(), "BUSY" | "STARTING" | "STOPPING" | "STOPPED")
        {
            let refusal =
                Refusal { status: 503, retry_after: None, code: Some(code), message: tool.failure() };
            if let again @ Next::Again { .. } = self.refused(reach, route, &refusal, tries) {
                return again;
            }
        }
        answer["id"] = self.id.clone();
        Next::Answer(answer)
    }

    fn refused(&self, reach: &Reach, route: &Arc<Route>, refusal: &Refusal, tries: &Tries) -> Next {
        if refusal.is_down() || matches!(refusal.status, 401 | 403 | 404) {
            // The next call looks for the way anew: the environment may have been replaced.
            reach.forget(route);
        }
        let pause = refusal.retry_after.unwrap_or(tries.pause);
        if !refusal.is_passing() || tries.since.elapsed() + pause > self.upstream.patience {
            return Next::Answer(self.failure(&CliError::from(refusal)));
        }
        Next::Again { pause: Some(pause), words: format!("{}; trying again", refusal.message) }
    }

    /// Returns the request for the environment: the client's parameters with a token of our own. A token is always sent:
    /// its answer comes as a stream, whose signs of life keep the connections between here and there open.
    fn message(&self, id: &str) -> Value {
        let mut params = self.params.clone();
        let meta = params.entry("_meta").or_insert_with(|| json!({}));
        if let Value::Object(meta) = meta {
            meta.insert("progressToken".to_owned(), json!(id));
        }
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
    }

    fn merely_reads(&self) -> bool {
        let name = self.params.get("name").and_then(Value::as_str).unwrap_or_default();
        cuddy_commands::find(TABLE, name).is_some_and(|d| d.effect == Effect::Read && d.idempotent)
    }

    async fn take_back(&self) {
        let Some((id, route)) = self.sent.lock().clone() else { return };
        let Ok(reach) = self.upstream.reach().await else { return };
        let params = json!({ "requestId": id, "reason": "taken back by the client" });
        let message = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
        let mut ignore = |_| {};
        let telling = reach.send(&route, &message, &mut ignore);
        let told = tokio::time::timeout(TAKE_BACK_TIMEOUT, telling).await;
        if !matches!(told, Ok(Sent::Answered(Answer::Accepted))) {
            tracing::info!(?told, "a call could not be taken back by name; its connection is closed");
        }
    }

    fn failure(&self, error: &CliError) -> Value {
        let words = recovery(error);
        diagnose(&words);
        let code = match error.kind {
            Kind::Unreachable => "UNAVAILABLE",
            Kind::Refused => "FORBIDDEN",
            _ => "INTERNAL",
        };
        let data = json!({ "errorCode": code, "retryable": error.kind == Kind::Unreachable });
        message::error(&self.id, -32603, &words, Some(data))
    }

    fn lost(&self, error: &CliError) -> Value {
        let words = format!(
            "{}: the call may have run, so it was not repeated; look at what it was to change before calling again",
            error.chain()
        );
        diagnose(&words);
        let data = json!({ "errorCode": "OUTCOME_UNKNOWN", "retryable": false });
        message::error(&self.id, -32603, &words, Some(data))
    }
}

/// Returns an error with what to do about it, as one text.
pub(super) fn recovery(error: &CliError) -> String {
    let mut words = output::clean(&error.chain());
    for hint in &error.hints {
        words.push_str("; ");
        words.push_str(hint);
    }
    words
}

/// Says something to whoever looks after the proxy.
pub(super) fn diagnose(words: &str) {
    output::note(&format!("mcp proxy: {words}"));
}
