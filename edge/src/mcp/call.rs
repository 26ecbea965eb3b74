//! `tools/call`: from a message to the dispatcher, and from its result to an answer.

use axum::response::Response;
use cuddy_protocol::{CommandError, ErrorCode};
use http::header::ACCEPT;
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value};
use std::sync::Arc;
use tokio::sync::mpsc;

use super::message::is_id;
use super::reply::{self, Rpc, rpc};
use super::stream::{self, Streaming};
use super::{Mcp, Permit};
use crate::bearer::{Unauthorized, reasons};
use crate::caller::Caller;
use crate::doors::unauthorized;
use crate::handler::Progress;
use crate::in_flight::{Registered, Why};

/// Steps of progress that may wait to be sent; more are dropped, the next one tells more.
const PROGRESS_QUEUE: usize = 16;

/// The parameters of a call, checked.
struct Params {
    name: String,
    arguments: Value,
    progress_token: Option<Value>,
}

impl Params {
    fn parse(mut params: Map<String, Value>) -> Result<Self, Rpc> {
        let Some(Value::String(name)) = params.remove("name") else {
            return Err(Rpc::invalid_params("name is no text"));
        };
        let arguments = match params.remove("arguments") {
            None | Some(Value::Null) => Value::Object(Map::new()),
            Some(arguments @ Value::Object(_)) => arguments,
            Some(_) => return Err(Rpc::invalid_params("arguments is no object")),
        };
        let progress_token = match params.remove("_meta") {
            None | Some(Value::Null) => None,
            Some(Value::Object(mut meta)) => meta.remove("progressToken").filter(|token| !token.is_null()),
            Some(_) => return Err(Rpc::invalid_params("_meta is no object")),
        };
        if progress_token.as_ref().is_some_and(|token| !is_id(token)) {
            return Err(Rpc::invalid_params("progressToken is neither a text nor an integer"));
        }
        Ok(Self { name, arguments, progress_token })
    }
}

impl Mcp {
    pub(super) async fn call(
        &self,
        caller: Caller,
        headers: &HeaderMap,
        id: Value,
        params: Map<String, Value>,
        permit: Permit,
    ) -> Response {
        let params = match Params::parse(params) {
            Ok(params) => params,
            Err(error) => return rpc(StatusCode::OK, error.body(&id), permit),
        };
        let Ok(registered) = self.in_flight.begin(&caller, &id) else {
            // Not 200: a client would take this for the answer to the call of this id that still runs.
            let error = Rpc::new(-32600, "Invalid Request: a call with this id is running");
            return rpc(StatusCode::BAD_REQUEST, error.body(&id), permit);
        };
        // Looked at once the call can be taken back: a key that goes from here on takes it along.
        if !self.still_trusts(&caller) {
            return unauthorized(&Unauthorized::because(reasons::KEY));
        }
        let known = self.dispatcher.find(&params.name, &caller).is_some();
        let stream_token = params.progress_token.filter(|_| known && accepts_stream(headers));
        let cancel = registered.token();
        let dispatcher = Arc::clone(&self.dispatcher);
        let run = |progress: Progress| async move {
            dispatcher.call(&params.name, params.arguments, caller, progress, cancel).await
        };
        if let Some(token) = stream_token {
            let (sender, steps) = mpsc::channel(PROGRESS_QUEUE);
            let call = Box::pin(run(Progress::to(sender)));
            let streaming = Streaming::new(call, steps, token, id, registered, permit);
            return stream::answer(streaming, self.limits.keep_alive);
        }
        let result = run(Progress::none()).await;
        let body = match result {
            Err(error) if !known => Rpc::from_error(-32602, &error).body(&id),
            result => match answer(&id, result, &registered) {
                Some(body) => body,
                None => return reply::empty(StatusCode::ACCEPTED),
            },
        };
        rpc(StatusCode::OK, body, permit)
    }
}

/// Returns the message that answers a call; none where its caller took it back and waits for nothing.
pub(super) fn answer(
    id: &Value,
    result: Result<Value, CommandError>,
    registered: &Registered,
) -> Option<Vec<u8>> {
    let result = match result {
        Ok(value) => reply::tool_result(&value),
        Err(mut error) => {
            if error.error_code == ErrorCode::Cancelled {
                let why = match registered.why() {
                    Some(Why::Caller) => return None,
                    Some(Why::Session) => Some("the session has ended, and this call with it"),
                    Some(Why::Key) => Some("the key that let this call in is no longer trusted"),
                    None => None,
                };
                if let Some(why) = why {
                    why.clone_into(&mut error.message);
                }
            }
            reply::tool_error(&error)
        }
    };
    Some(reply::result(id, &result))
}

/// Says whether a client names streams among what it accepts.
fn accepts_stream(headers: &HeaderMap) -> bool {
    headers.get_all(ACCEPT).iter().filter_map(|v| v.to_str().ok()).flat_map(|v| v.split(',')).any(|range| {
        let kind = range.split(';').next().unwrap_or("").trim();
        kind.eq_ignore_ascii_case("text/event-stream")
    })
}
