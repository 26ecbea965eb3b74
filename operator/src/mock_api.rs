//! An API server whose every answer the test gives by hand.

use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use serde::Serialize;
use serde_json::{Value, json};
use tower_test::mock::{Handle, SendResponse};

/// The server's end.
pub(crate) struct MockApi(Handle<Request<Body>, Response<Body>>);

/// One request that waits for its answer.
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) body: Value,
    respond: SendResponse<Response<Body>>,
}

impl MockApi {
    /// Returns a client and its server.
    pub(crate) fn new() -> (kube::Client, Self) {
        let (service, handle) = tower_test::mock::pair::<Request<Body>, Response<Body>>();
        (kube::Client::new(service, "default"), Self(handle))
    }

    /// Waits for the next request.
    pub(crate) async fn next(&mut self) -> Call {
        let next = tokio::time::timeout(Duration::from_mins(2), self.0.next_request());
        let (request, respond) = next.await.expect("a request in time").expect("a request");
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() };
        Call { method: parts.method, path: parts.uri.path().to_owned(), body, respond }
    }
}

impl Call {
    /// Answers with an object.
    pub(crate) fn answer(self, object: &impl Serialize) {
        self.send(200, serde_json::to_vec(object).unwrap());
    }

    /// Answers a write with what was written.
    pub(crate) fn echo(self) -> Value {
        let body = self.body.clone();
        self.answer(&body);
        body
    }

    /// Refuses.
    pub(crate) fn refuse(self, code: u16, reason: &str) {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": format!("refused by the test: {reason}"), "reason": reason, "code": code,
        });
        self.send(code, serde_json::to_vec(&status).unwrap());
    }

    fn send(self, code: u16, body: Vec<u8>) {
        self.respond.send_response(Response::builder().status(code).body(Body::from(body)).unwrap());
    }
}
