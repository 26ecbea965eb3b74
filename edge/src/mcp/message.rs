//! One JSON-RPC message, taken apart once.

use http::StatusCode;
use serde_json::{Map, Value};

use super::reply::Rpc;

/// The longest id of a request that is a text, in bytes.
const MAX_ID_BYTES: usize = 1024;

/// A message.
#[derive(Debug, PartialEq)]
pub(super) enum Message {
    /// It wants an answer.
    Request { id: Value, method: String, params: Map<String, Value> },
    /// It wants none.
    Notification { method: String, params: Map<String, Value> },
    /// An answer; nothing was asked.
    Response,
}

/// Why a body is no message.
#[derive(Debug)]
pub(super) struct Wrong {
    /// The id, where there was one to be read.
    pub(super) id: Value,
    /// The answer's status: 400 for what is no message, 200 for a good one with bad parameters.
    pub(super) status: StatusCode,
    /// The answer.
    pub(super) error: Rpc,
}

impl Message {
    pub(super) fn is_initialize(&self) -> bool {
        matches!(self, Self::Request { method, .. } if method == "initialize")
    }

    /// Returns the request's id, or null.
    pub(super) const fn id(&self) -> &Value {
        match self {
            Self::Request { id, .. } => id,
            Self::Notification { .. } | Self::Response => &Value::Null,
        }
    }
}

/// Says whether a value can be an id or a token: a text, or an integer that is kept to the last digit.
pub(super) fn is_id(value: &Value) -> bool {
    match value {
        Value::String(text) => text.len() <= MAX_ID_BYTES,
        Value::Number(number) => number.is_i64() || number.is_u64(),
        _ => false,
    }
}

/// Parses a body.
pub(super) fn parse(body: &[u8]) -> Result<Message, Wrong> {
    let anonymous = |error| Wrong { id: Value::Null, status: StatusCode::BAD_REQUEST, error };
    let value = serde_json::from_slice(body)
        .map_err(|_| anonymous(Rpc::new(-32700, "Parse error: the body is no JSON")))?;
    let mut object = match value {
        Value::Object(object) => object,
        Value::Array(_) => {
            return Err(anonymous(Rpc::new(-32600, "Invalid Request: batches are not supported")));
        }
        _ => return Err(anonymous(Rpc::new(-32600, "Invalid Request: a message is an object"))),
    };
    let id = match object.remove("id") {
        None => None,
        Some(id) if is_id(&id) => Some(id),
        Some(_) => {
            let message = "Invalid Request: id is a text of at most 1,024 bytes or an integer";
            return Err(anonymous(Rpc::new(-32600, message)));
        }
    };
    let known_id = || id.clone().unwrap_or(Value::Null);
    if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        let error = Rpc::new(-32600, "Invalid Request: jsonrpc is not \"2.0\"");
        return Err(Wrong { id: known_id(), status: StatusCode::BAD_REQUEST, error });
    }
    let method = match object.remove("method") {
        Some(Value::String(method)) => method,
        None if object.contains_key("result") || object.contains_key("error") => {
            return Ok(Message::Response);
        }
        _ => {
            let error = Rpc::new(-32600, "Invalid Request: method is no text");
            return Err(Wrong { id: known_id(), status: StatusCode::BAD_REQUEST, error });
        }
    };
    let params = match object.remove("params") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(params)) => params,
        Some(_) => {
            let error = Rpc::invalid_params("params is no object");
            return Err(Wrong { id: known_id(), status: StatusCode::OK, error });
        }
    };
    Ok(match id {
        Some(id) => Message::Request { id, method, params },
        None => Message::Notification { method, params },
    })
}
