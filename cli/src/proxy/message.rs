//! One line of the client, taken apart.

use serde_json::{Map, Value, json};

/// The longest id that is a text, in bytes: as the server has it.
const MAX_ID_BYTES: usize = 1024;

/// A message of the client.
#[derive(Debug, PartialEq)]
pub(super) enum Message {
    /// It wants an answer.
    Request {
        /// The client's id.
        id: Value,
        /// The method.
        method: String,
        /// The parameters.
        params: Map<String, Value>,
    },
    /// It wants none.
    Notification {
        /// The method.
        method: String,
        /// The parameters.
        params: Map<String, Value>,
    },
    /// An answer to something that was never asked.
    Response,
}

/// Takes a line apart, or returns the answer that says why it is no message.
pub(super) fn parse(line: &[u8]) -> Result<Message, Value> {
    let Ok(value) = serde_json::from_slice(line) else {
        return Err(error(&Value::Null, -32700, "Parse error: the line is no JSON", None));
    };
    let invalid = |id: &Value, what: &str| error(id, -32600, &format!("Invalid Request: {what}"), None);
    let Value::Object(mut object) = value else {
        let what = if value.is_array() { "batches are not supported" } else { "a message is an object" };
        return Err(invalid(&Value::Null, what));
    };
    let id = match object.remove("id") {
        None => None,
        Some(id) if is_id(&id) => Some(id),
        Some(_) => return Err(invalid(&Value::Null, "id is a text or an integer")),
    };
    let known = id.clone().unwrap_or(Value::Null);
    if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(invalid(&known, "jsonrpc is not \"2.0\""));
    }
    let method = match object.remove("method") {
        Some(Value::String(method)) => method,
        None if object.contains_key("result") || object.contains_key("error") => {
            return Ok(Message::Response);
        }
        _ => return Err(invalid(&known, "method is no text")),
    };
    let params = match object.remove("params") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(params)) => params,
        Some(_) => return Err(error(&known, -32602, "Invalid params: params is no object", None)),
    };
    Ok(match id {
        Some(id) => Message::Request { id, method, params },
        None => Message::Notification { method, params },
    })
}

/// Says whether a value can be an id or a progress token.
pub(super) fn is_id(value: &Value) -> bool {
    match value {
        Value::String(text) => text.len() <= MAX_ID_BYTES,
        Value::Number(number) => number.is_i64() || number.is_u64(),
        _ => false,
    }
}

/// Returns the answer that holds a result.
pub(super) fn result(id: &Value, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

/// Returns the answer that holds an error.
pub(super) fn error(id: &Value, code: i64, message: &str, data: Option<Value>) -> Value {
    let mut error = json!({ "code": code, "message": message });
    if let Some(data) = data {
        error["data"] = data;
    }
    json!({ "jsonrpc": "2.0", "id": id, "error": error })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(line: &str) -> (Value, i64) {
        let answer = parse(line.as_bytes()).unwrap_err();
        (answer["id"].clone(), answer["error"]["code"].as_i64().unwrap())
    }

    #[test]
    fn what_is_no_message_is_answered_with_its_id() {
        assert_eq!(code("{"), (Value::Null, -32700));
        assert_eq!(code("\u{0}"), (Value::Null, -32700));
        assert_eq!(code("[]"), (Value::Null, -32600));
        assert_eq!(code("5"), (Value::Null, -32600));
        assert_eq!(code(r#"{"id":7,"method":"ping"}"#), (json!(7), -32600));
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":7,"method":5}"#), (json!(7), -32600));
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#), (Value::Null, -32600));
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#), (Value::Null, -32600));
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":"a","method":"ping","params":[]}"#), (json!("a"), -32602));
    }

    #[test]
    fn messages_are_told_apart() {
        let parsed = |line: &str| parse(line.as_bytes()).unwrap();
        assert_eq!(
            parsed(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#),
            Message::Request { id: json!(1), method: "ping".into(), params: Map::new() }
        );
        assert_eq!(
            parsed(r#"{"jsonrpc":"2.0","method":"x","params":null}"#),
            Message::Notification { method: "x".into(), params: Map::new() }
        );
        assert_eq!(parsed(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), Message::Response);
    }
}
