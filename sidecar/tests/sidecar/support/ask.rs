//! Asking routers in process.

use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

/// Where the operator calls from.
pub(crate) const OPERATOR_ADDRESS: &str = "10.1.2.3:40000";

/// An answer, read to its end. A body that is no JSON is its text.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Value,
}

pub(crate) fn json_or_text(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(bytes).into_owned()))
}

pub(crate) async fn ask(router: &Router, request: Request<Body>) -> Answer {
    let (head, body) = router.clone().oneshot(request).await.unwrap().into_parts();
    Answer { status: head.status, body: json_or_text(&body.collect().await.unwrap().to_bytes()) }
}

/// A request to the control listener, from somewhere, with some bearer.
pub(crate) fn control_request(path: &str, body: Option<&Value>, from: &str, bearer: &str) -> Request<Body> {
    let method = if body.is_some() { Method::POST } else { Method::GET };
    let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
    Request::builder()
        .method(method)
        .uri(path)
        .header("authorization", bearer)
        .header("content-type", "application/json")
        .extension(ConnectInfo(from.parse::<SocketAddr>().unwrap()))
        .body(body)
        .unwrap()
}

/// The message of a tool's call.
pub(crate) fn call_message(name: &str, arguments: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": name, "arguments": arguments } })
}

pub(crate) fn mcp_request(name: &str, arguments: &Value, bearer: &str) -> Request<Body> {
    Request::post("/mcp")
        .header("host", "localhost")
        .header("authorization", bearer)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .body(Body::from(call_message(name, arguments).to_string()))
        .unwrap()
}

/// What a tool answered: its structured content, or the error's code and message.
pub(crate) fn tool_result(answer: &Answer) -> Result<Value, (String, String)> {
    let result = &answer.body["result"];
    if result["isError"] == true {
        let error: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        let text = |key: &str| error[key].as_str().unwrap_or_default().to_owned();
        return Err((text("errorCode"), text("message")));
    }
    assert!(result["structuredContent"].is_object(), "{answer:?}");
    Ok(result["structuredContent"].clone())
}
