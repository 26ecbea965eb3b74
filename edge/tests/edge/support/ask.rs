//! Doors, and asking them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use cuddy_edge::bearer::Trust;
use cuddy_edge::doors::{Access, DoorSettings, Limits, ServerInfo, router};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::program::{Program, program};
use super::tokens::{UID, key, now, set, token_of, trusted};

pub(crate) struct Doors {
    pub(crate) program: Program,
    pub(crate) router: Router,
    pub(crate) trust: Arc<Trust>,
    pub(crate) open: Arc<AtomicBool>,
}

/// The answer to one request, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) async fn read(response: Response<Body>) -> Self {
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Self { status: head.status, headers: head.headers, body }
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {:?}", self.text()))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|v| v.to_str().unwrap())
    }

    /// The code of a protocol error.
    pub(crate) fn code(&self) -> i64 {
        self.json()["error"]["code"].as_i64().unwrap_or_else(|| panic!("{}", self.text()))
    }

    /// The error in a tool's result.
    pub(crate) fn tool_error(&self) -> Value {
        let answer = self.json();
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert!(answer["result"].get("structuredContent").is_none(), "{answer}");
        serde_json::from_str(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap()
    }
}

/// A call's message.
#[expect(clippy::needless_pass_by_value, reason = "callers write the arguments in place")]
pub(crate) fn call(id: impl Into<Value>, name: &str, arguments: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": "tools/call", "params": { "name": name, "arguments": arguments } })
}

pub(crate) fn doors() -> Doors {
    doors_with(Limits::default(), |_| true)
}

pub(crate) fn doors_with(limits: Limits, visible: fn(&cuddy_commands::Declaration) -> bool) -> Doors {
    let program = program(visible);
    let trust = Trust::new(set(1, &[trusted(&key(1)), trusted(&key(2))]));
    let open = Arc::new(AtomicBool::new(true));
    let gate = Arc::clone(&open);
    let router = router(DoorSettings {
        dispatcher: Arc::clone(&program.dispatcher),
        access: Access::Bearer(Arc::clone(&trust)),
        hosts: vec![cuddy_protocol::places::server_name(UID)],
        server_info: ServerInfo { name: "cuddy-test".to_owned(), version: "0.0.1".to_owned() },
        clock: Arc::new(now),
        limits,
        gate: Arc::new(move || gate.load(Ordering::SeqCst)),
    });
    Doors { program, router, trust, open }
}

/// One caller of the doors.
#[derive(Clone)]
pub(crate) struct Client {
    router: Router,
    token: String,
    pub(crate) session: Option<String>,
}

impl Doors {
    pub(crate) fn client(&self, subject: &str) -> Client {
        self.client_with(token_of(subject, &key(1)))
    }

    pub(crate) fn client_with(&self, token: String) -> Client {
        Client { router: self.router.clone(), token, session: None }
    }
}

impl Client {
    pub(crate) fn request(
        &self,
        method: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Request<Body> {
        let mut request = Request::builder()
            .method(method)
            .uri("/mcp")
            .header("host", "127.0.0.1:17000")
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {}", self.token));
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(body.into()).unwrap()
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Response<Body> {
        self.router.clone().oneshot(request).await.unwrap()
    }

    pub(crate) async fn ask(&self, request: Request<Body>) -> Answer {
        // Longer than the longest deadline of a command whose answer is waited for in place.
        let answer = async { Answer::read(self.send(request).await).await };
        tokio::time::timeout(Duration::from_secs(90), answer).await.expect("no answer")
    }

    pub(crate) async fn post_with(&self, message: &Value, headers: &[(&str, &str)]) -> Answer {
        self.ask(self.request("POST", headers, message.to_string())).await
    }

    pub(crate) async fn post(&self, message: &Value) -> Answer {
        self.post_with(message, &[("accept", "application/json, text/event-stream")]).await
    }

    /// Asks without waiting for the answer.
    pub(crate) fn spawn(&self, message: &Value) -> tokio::task::JoinHandle<Answer> {
        let client = self.clone();
        let request = self.request("POST", &[], message.to_string());
        // Without a bound: the test says how long the call lasts, and waits for it with one.
        tokio::spawn(async move { Answer::read(client.send(request).await).await })
    }

    pub(crate) async fn initialize(&self) -> Answer {
        self.post(&json!({
            "jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": { "protocolVersion": "2025-11-25", "capabilities": {} }
        }))
        .await
    }

    /// Opens a session, and uses it from now on.
    pub(crate) async fn in_session(mut self) -> Self {
        let answer = self.initialize().await;
        self.session = Some(answer.header("mcp-session-id").unwrap().to_owned());
        self
    }
}
