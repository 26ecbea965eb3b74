//! The MCP door, legacy era (2024-11-05 to 2025-11-25): one message per POST, answered as JSON or as a stream.

mod call;
mod message;
mod reply;
mod stream;
mod tools;

pub use tools::tool;

use std::sync::Arc;

use axum::Extension;
use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use cuddy_protocol::{CommandError, ErrorCode};
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Map, Value, json};

use crate::bearer::{Trust, TrustedSet};
use crate::caller::Caller;
use crate::dispatch::Dispatcher;
use crate::doors::ServerInfo;
use crate::in_flight::{CallName, InFlight};
use crate::limits::{Limits, SubjectPermit, SubjectPermits};
use crate::sessions::{SessionPermit, SessionRefusal, Sessions};
use message::Message;
use reply::{Rpc, rpc};
use tools::ToolLists;

pub(crate) use reply::protocol_error;

/// The protocol's versions that are spoken, oldest first.
const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
/// The newest of them: the answer to a client that asks for another.
const NEWEST: &str = "2025-11-25";
/// The header that names a session.
const SESSION: &str = "mcp-session-id";
/// The header that names the version.
const VERSION: &str = "mcp-protocol-version";

/// The door's state.
pub(crate) struct Mcp {
    dispatcher: Arc<Dispatcher>,
    limits: Limits,
    server_info: Value,
    sessions: Arc<Sessions>,
    permits: Arc<SubjectPermits>,
    in_flight: Arc<InFlight>,
    tools: ToolLists,
    /// The keys in force, where there are any.
    trust: Option<Arc<Trust>>,
}

/// What a request holds until its answer is done.
#[derive(Debug)]
pub(crate) enum Permit {
    Session(#[expect(dead_code, reason = "held, not read")] SessionPermit),
    Subject(#[expect(dead_code, reason = "held, not read")] SubjectPermit),
}

impl Mcp {
    pub(crate) fn new(
        dispatcher: Arc<Dispatcher>,
        info: &ServerInfo,
        limits: Limits,
        trust: Option<Arc<Trust>>,
    ) -> Arc<Self> {
        let metrics = dispatcher.metrics().clone();
        Arc::new(Self {
            dispatcher,
            limits,
            server_info: json!({ "name": info.name, "version": info.version }),
            sessions: Sessions::new(limits, metrics),
            permits: SubjectPermits::new(&limits),
            in_flight: Arc::default(),
            tools: ToolLists::default(),
            trust,
        })
    }

    /// Ends the sessions and calls of keys that are no longer trusted.
    pub(crate) fn revoke(&self, trusted: &TrustedSet) {
        self.sessions.revoke(trusted);
        self.in_flight.revoke(trusted);
    }

    /// Says whether a caller's key is trusted still: the body of a request may have come long after its bearer.
    fn still_trusts(&self, caller: &Caller) -> bool {
        match (&self.trust, &caller.kid) {
            (Some(trust), Some(kid)) => trust.current().trusts(&caller.issuer, kid),
            _ => true,
        }
    }

    /// Takes a request's place, in its session or among its subject's requests.
    fn permit(&self, caller: &Caller) -> Result<Permit, SessionRefusal> {
        match &caller.session {
            Some(session) => self.sessions.enter(session, caller).map(Permit::Session),
            None => self.permits.take(caller).map(Permit::Subject).ok_or(SessionRefusal::Busy),
        }
    }

    /// Uses the caller's session, if it names one, without a place in it.
    fn touch(&self, caller: &Caller) -> Result<(), SessionRefusal> {
        caller.session.as_ref().map_or(Ok(()), |session| self.sessions.touch(session, caller))
    }

    fn initialize(&self, caller: &Caller, id: &Value, params: &Map<String, Value>) -> Response {
        let asked = params.get("protocolVersion").and_then(Value::as_str);
        let version = asked.filter(|v| VERSIONS.contains(v)).unwrap_or(NEWEST);
        let (session, ended) = self.sessions.create(caller);
        if let Some(ended) = ended {
            self.in_flight.end_session(&ended);
        }
        let result = json!({
            "protocolVersion": version,
            "capabilities": { "tools": {} },
            "serverInfo": self.server_info,
        });
        let mut response = rpc(StatusCode::OK, reply::result(id, result.to_string().as_bytes()), ());
        if let Ok(session) = HeaderValue::from_str(&session) {
            response.headers_mut().insert(SESSION, session);
        }
        response
    }

    fn notification(&self, caller: &Caller, method: &str, params: &Map<String, Value>) -> Response {
        if let Err(refusal) = self.touch(caller) {
            return refused(refusal, &Value::Null);
        }
        if method == "notifications/cancelled"
            && let Some(name) = params.get("requestId").and_then(|id| CallName::new(caller, id))
        {
            self.in_flight.cancel(&name);
        }
        reply::empty(StatusCode::ACCEPTED)
    }

    async fn request(
        &self,
        caller: Caller,
        headers: &HeaderMap,
        id: Value,
        method: &str,
        params: Map<String, Value>,
    ) -> Response {
        // A sign of life costs nothing and is what a client asks for while its calls run: it takes no place.
        if method == "ping" {
            return match self.touch(&caller) {
                Ok(()) => rpc(StatusCode::OK, reply::result(&id, b"{}"), ()),
                Err(refusal) => refused(refusal, &id),
            };
        }
        let permit = match self.permit(&caller) {
            Ok(permit) => permit,
            Err(refusal) => return refused(refusal, &id),
        };
        match method {
            "tools/list" => match params.get("cursor") {
                None | Some(Value::Null) => {
                    let list = self.tools.get(&self.dispatcher, &caller);
                    rpc(StatusCode::OK, reply::result(&id, &list), permit)
                }
                Some(_) => {
                    let error = Rpc::invalid_params("there is no such cursor: the list has one page");
                    rpc(StatusCode::OK, error.body(&id), permit)
                }
            },
            "tools/call" => self.call(caller, headers, id, params, permit).await,
            _ => rpc(StatusCode::OK, Rpc::unknown_method(method).body(&id), permit),
        }
    }
}

/// Returns the answer to a request that has no place.
fn refused(refusal: SessionRefusal, id: &Value) -> Response {
    match refusal {
        // The words and the missing id are what clients of the SDKs look for before they initialise anew.
        SessionRefusal::NotFound => {
            rpc(StatusCode::NOT_FOUND, Rpc::new(-32001, "Session not found").body(&Value::Null), ())
        }
        SessionRefusal::Busy => {
            let message = "too many requests at once; wait for one of them to end";
            let error = Rpc::from_error(-32000, &CommandError::new(ErrorCode::Busy, message));
            let mut response = rpc(StatusCode::TOO_MANY_REQUESTS, error.body(id), ());
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            response
        }
    }
}

/// Answers one HTTP request to the door's path.
pub(crate) async fn serve(
    State(mcp): State<Arc<Mcp>>,
    Extension(mut caller): Extension<Caller>,
    request: Request,
) -> Response {
    let bad = |message: &str| rpc(StatusCode::BAD_REQUEST, Rpc::new(-32600, message).body(&Value::Null), ());
    match session_of(request.headers()) {
        Ok(session) => caller.session = session,
        Err(message) => return bad(message),
    }
    match *request.method() {
        Method::POST => {}
        Method::DELETE => {
            let Some(session) = caller.session.clone() else {
                return bad("DELETE wants the header Mcp-Session-Id");
            };
            return match mcp.sessions.end(&session, &caller) {
                Ok(()) => {
                    mcp.in_flight.end_session(&session);
                    reply::empty(StatusCode::NO_CONTENT)
                }
                Err(refusal) => refused(refusal, &Value::Null),
            };
        }
        _ => {
            let mut response = reply::empty(StatusCode::METHOD_NOT_ALLOWED);
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST, DELETE"));
            return response;
        }
    }
    if !is_json(request.headers()) {
        let error = Rpc::new(-32600, "Invalid Request: the header Content-Type must be application/json");
        return rpc(StatusCode::UNSUPPORTED_MEDIA_TYPE, error.body(&Value::Null), ());
    }
    let (head, body) = request.into_parts();
    let message = match read(body, &mcp.limits).await {
        Ok(bytes) => message::parse(&bytes),
        Err(response) => return response,
    };
    let message = match message {
        Ok(message) => message,
        Err(wrong) => return rpc(wrong.status, wrong.error.body(&wrong.id), ()),
    };
    if !message.is_initialize() && !version_is_known(&head.headers) {
        let words = format!("Bad Request: Unsupported protocol version (supported: {})", VERSIONS.join(", "));
        let error = Rpc::new(-32000, &words).with_data(json!({ "supported": VERSIONS }));
        return rpc(StatusCode::BAD_REQUEST, error.body(message.id()), ());
    }
    match message {
        Message::Response => reply::empty(StatusCode::ACCEPTED),
        Message::Notification { method, params } => mcp.notification(&caller, &method, &params),
        Message::Request { id, method, params } if method == "initialize" => {
            // A session that the client brings along has nothing to do with the new one, be it stale or not.
            caller.session = None;
            mcp.initialize(&caller, &id, &params)
        }
        Message::Request { id, method, params } => {
            mcp.request(caller, &head.headers, id, &method, params).await
        }
    }
}

/// Returns the session that a request names.
fn session_of(headers: &HeaderMap) -> Result<Option<String>, &'static str> {
    let mut values = headers.get_all(SESSION).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        // What cannot be an id is one that is not known.
        (Some(value), None) => Ok(Some(value.to_str().unwrap_or("").to_owned())),
        (Some(_), Some(_)) => Err("more than one Mcp-Session-Id header"),
    }
}

/// Says whether a body is declared to be JSON, once, whatever its parameters. A page of a browser's can send what is
/// declared otherwise, or not at all, without asking first.
fn is_json(headers: &HeaderMap) -> bool {
    let mut kinds = headers.get_all(CONTENT_TYPE).iter();
    let (Some(kind), None) = (kinds.next(), kinds.next()) else { return false };
    let kind = kind.to_str().ok().and_then(|kind| kind.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

fn version_is_known(headers: &HeaderMap) -> bool {
    headers.get_all(VERSION).iter().all(|v| v.to_str().is_ok_and(|v| VERSIONS.contains(&v)))
}

/// Reads a body within its bounds.
async fn read(body: Body, limits: &Limits) -> Result<Bytes, Response> {
    let too_large = || {
        let message = format!("a body has at most {} bytes", limits.body_bytes);
        let error = Rpc::from_error(-32600, &CommandError::new(ErrorCode::TooLarge, message));
        rpc(StatusCode::PAYLOAD_TOO_LARGE, error.body(&Value::Null), ())
    };
    if body.size_hint().lower() > limits.body_bytes as u64 {
        return Err(too_large());
    }
    let whole = tokio::time::timeout(limits.body_time, Limited::new(body, limits.body_bytes).collect());
    match whole.await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(reply::empty(StatusCode::BAD_REQUEST)),
        Err(_) => Err(reply::empty(StatusCode::REQUEST_TIMEOUT)),
    }
}
