//! Answers in JSON-RPC, written without building them up first: a result is serialised once and copied in.

use axum::body::Body;
use axum::response::Response;
use cuddy_protocol::CommandError;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};

use crate::body::held;

/// An error of the protocol.
#[derive(Debug)]
pub(crate) struct Rpc {
    code: i64,
    message: String,
    data: Option<Value>,
}

impl Rpc {
    pub(super) fn new(code: i64, message: &str) -> Self {
        Self { code, message: message.to_owned(), data: None }
    }

    pub(super) fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// Returns a command's error as one of the protocol (D3).
    pub(super) fn from_error(code: i64, error: &CommandError) -> Self {
        Self::new(code, &error.message).with_data(json!(error))
    }

    pub(super) fn invalid_params(what: &str) -> Self {
        Self::new(-32602, &format!("Invalid params: {what}"))
    }

    pub(super) fn unknown_method(method: &str) -> Self {
        let method: String = method.chars().filter(|c| !c.is_control()).take(64).collect();
        Self::new(-32601, &format!("Method not found: {method}"))
    }

    fn value(&self, id: &Value) -> Value {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        json!({ "jsonrpc": "2.0", "id": id, "error": error })
    }

    /// Returns the message for a request.
    pub(super) fn body(&self, id: &Value) -> Vec<u8> {
        self.value(id).to_string().into_bytes()
    }
}

/// Returns a command's error as a message that answers no request in particular.
pub(crate) fn protocol_error(error: &CommandError) -> Value {
    Rpc::from_error(-32000, error).value(&Value::Null)
}

/// Returns the message that answers a request with a result, given as JSON.
pub(super) fn result(id: &Value, result: &[u8]) -> Vec<u8> {
    let id = id.to_string();
    let mut body = Vec::with_capacity(result.len() + id.len() + 40);
    body.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    body.extend_from_slice(id.as_bytes());
    body.extend_from_slice(br#","result":"#);
    body.extend_from_slice(result);
    body.push(b'}');
    body
}

/// Returns the result of a tool call, as JSON: as text and as structured content (D3). `value` is an object.
pub(super) fn tool_result(value: &Value) -> Vec<u8> {
    let json = value.to_string();
    let text = Value::String(json);
    let mut body = Vec::with_capacity(64);
    body.extend_from_slice(br#"{"content":[{"type":"text","text":"#);
    body.extend_from_slice(text.to_string().as_bytes());
    body.extend_from_slice(br#"}],"structuredContent":"#);
    if let Value::String(json) = &text {
        body.extend_from_slice(json.as_bytes());
    }
    body.extend_from_slice(br#","isError":false}"#);
    body
}

/// Returns the result of a tool call that failed (D3): no structured content, since clients check that against the
/// output's schema. `error` repeats the message under the name that Rerun's readers know.
pub(super) fn tool_error(error: &CommandError) -> Vec<u8> {
    let mut told = json!(error);
    told["error"] = json!(error.message);
    json!({ "content": [{ "type": "text", "text": told.to_string() }], "isError": true })
        .to_string()
        .into_bytes()
}

/// Returns an answer with a JSON body that holds something until it is done.
pub(super) fn rpc<T: Send + Unpin + 'static>(status: StatusCode, body: Vec<u8>, permit: T) -> Response {
    let mut response = Response::new(held(body, permit));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Returns an answer without a body.
pub(super) fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}
