//! What is answered without the environment: `initialize`, `ping`, `tools/list` (D44). Word for word what the server
//! answers to a caller who may do everything; a test holds the two against each other.

use cuddy_commands::TABLE;
use cuddy_edge::mcp::tool;
use serde_json::{Map, Value, json};

use super::message;

/// The protocol's versions that are spoken, oldest first.
const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
/// The answer to a client that asks for another one.
const NEWEST: &str = "2025-11-25";

/// Answers a request that needs no environment; none if it does need one.
pub(super) fn answer(id: &Value, method: &str, params: &Map<String, Value>) -> Option<Value> {
    Some(match method {
        "tools/call" => return None,
        "initialize" => message::result(id, &initialize(params)),
        "ping" => message::result(id, &json!({})),
        "tools/list" => match params.get("cursor") {
            None | Some(Value::Null) => message::result(id, &json!({ "tools": tools() })),
            Some(_) => {
                let words = "Invalid params: there is no such cursor: the list has one page";
                message::error(id, -32602, words, None)
            }
        },
        _ => {
            let method: String = method.chars().filter(|c| !c.is_control()).take(64).collect();
            message::error(id, -32601, &format!("Method not found: {method}"), None)
        }
    })
}

/// Returns the tools that are listed: every command, until Environments have presets.
pub(crate) fn tools() -> Vec<Value> {
    TABLE.iter().copied().map(tool).collect()
}

fn initialize(params: &Map<String, Value>) -> Value {
    let asked = params.get("protocolVersion").and_then(Value::as_str);
    let version = asked.filter(|v| VERSIONS.contains(v)).unwrap_or(NEWEST);
    json!({
        "protocolVersion": version,
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "cuddy", "version": env!("CARGO_PKG_VERSION") },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(method: &str, params: &Value) -> Value {
        answer(&json!(1), method, params.as_object().unwrap()).unwrap()
    }

    #[test]
    fn known_versions_are_echoed_and_others_get_the_newest() {
        for version in VERSIONS {
            let answer = ask("initialize", &json!({ "protocolVersion": version }));
            assert_eq!(answer["result"]["protocolVersion"], version);
        }
        for other in [
            json!({}),
            json!({ "protocolVersion": "1900-01-01" }),
            json!({ "protocolVersion": "2026-07-28" }),
        ] {
            assert_eq!(ask("initialize", &other)["result"]["protocolVersion"], NEWEST);
        }
    }

    #[test]
    fn every_command_is_listed_and_other_methods_are_not_known() {
        let list = ask("tools/list", &json!({}));
        let names: Vec<&str> =
            list["result"]["tools"].as_array().unwrap().iter().filter_map(|t| t["name"].as_str()).collect();
        assert_eq!(names.len(), TABLE.len());
        assert!(names.contains(&"exec_raw"));
        assert_eq!(ask("tools/list", &json!({ "cursor": 7 }))["error"]["code"], -32602);
        assert_eq!(ask("resources/list", &json!({}))["error"]["code"], -32601);
        assert_eq!(ask("server/discover", &json!({}))["error"]["code"], -32601);
        assert_eq!(answer(&json!(1), "tools/call", &Map::new()), None);
    }
}
