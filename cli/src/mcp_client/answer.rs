//! What answers mean: refusals by HTTP, errors of the protocol, results of tools.

use std::time::Duration;

use serde_json::Value;

use crate::error::{CliError, Kind};
use crate::output::clean;

/// How much of a text that is no JSON is quoted, in characters.
const MAX_QUOTE: usize = 500;

/// An HTTP error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The status.
    pub(crate) status: u16,
    /// When to come back.
    pub(crate) retry_after: Option<Duration>,
    /// The error code (D39), where the body has one.
    pub(crate) code: Option<String>,
    /// The words.
    pub(crate) message: String,
}

impl Refusal {
    /// Reads a refusal: JSON-RPC, REST, or plain text.
    pub(crate) fn new(status: u16, retry_after: Option<Duration>, body: &[u8]) -> Self {
        let value: Option<Value> = serde_json::from_slice(body).ok();
        let text = |value: &Value, pointer: &str| value.pointer(pointer).and_then(Value::as_str).map(clean);
        let code = value.as_ref().and_then(|v| {
            ["/error/data/errorCode", "/code", "/errorCode"].iter().find_map(|pointer| text(v, pointer))
        });
        let message = match &value {
            Some(v) => text(v, "/error/message").or_else(|| text(v, "/message")),
            None => Some(clean(String::from_utf8_lossy(body).trim()).chars().take(MAX_QUOTE).collect()),
        };
        let message = message.filter(|m| !m.is_empty()).unwrap_or_else(|| format!("HTTP {status}"));
        Self { status, retry_after, code, message }
    }

    /// Says whether the same request may be sent again after a while: nothing was done, and the reason passes.
    pub(crate) fn is_passing(&self) -> bool {
        match self.code.as_deref() {
            Some(code) => matches!(code, "BUSY" | "STARTING" | "STOPPING" | "STOPPED" | "UNAVAILABLE"),
            None => matches!(self.status, 429 | 502 | 503),
        }
    }

    /// Says whether the environment is not up (any more): a wake is needed, not patience alone.
    pub(crate) fn is_down(&self) -> bool {
        matches!(self.code.as_deref(), Some("STOPPING" | "STOPPED" | "UNAVAILABLE"))
            || (self.code.is_none() && matches!(self.status, 502 | 503))
    }
}

impl From<&Refusal> for CliError {
    fn from(refusal: &Refusal) -> Self {
        match refusal.status {
            401 => Self::refused(format!("the environment does not accept the bearer: {}", refusal.message))
                .hint("`cuddy key show` prints your key; the environment or its class must list it under `auth.keys`")
                .hint("a clock that is more than 30 seconds off makes bearers invalid too"),
            403 => Self::refused(format!("the environment refused the request: {}", refusal.message)),
            429 => Self::refused(format!("the environment is busy: {}", refusal.message)),
            502 | 503 => Self::unreachable(format!("the environment is not ready: {}", refusal.message)),
            status => Self::failed(format!("the environment answered HTTP {status}: {}", refusal.message)),
        }
    }
}

/// The result of a tool.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolAnswer {
    /// The texts, joined.
    pub(crate) text: Option<String>,
    /// The structured content.
    pub(crate) structured: Option<Value>,
    /// Whether the tool failed.
    pub(crate) is_error: bool,
}

/// Reads the answer to a `tools/call`: the result, or the protocol's error.
pub(crate) fn tool_answer(message: &Value) -> Result<ToolAnswer, CliError> {
    if let Some(error) = message.get("error") {
        return Err(protocol_error(error));
    }
    let Some(result) = message.get("result").filter(|r| r.is_object()) else {
        return Err(CliError::failed("the answer holds neither a result nor an error"));
    };
    let texts: Vec<&str> = result
        .get("content")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|part| part.get("text").and_then(Value::as_str))
        .collect();
    Ok(ToolAnswer {
        text: (!texts.is_empty()).then(|| texts.join("\n")),
        structured: result.get("structuredContent").filter(|v| !v.is_null()).cloned(),
        is_error: result.get("isError").and_then(Value::as_bool).unwrap_or(false),
    })
}

impl ToolAnswer {
    /// Returns the words of a failed tool: its message, with the code behind it.
    pub(crate) fn failure(&self) -> String {
        let text = self.text.as_deref().unwrap_or("the tool failed without words");
        let value: Option<Value> = serde_json::from_str(text).ok();
        let message = value.as_ref().and_then(|v| v.get("message")).and_then(Value::as_str);
        match (message, self.error_code()) {
            (Some(message), Some(code)) => format!("{message} ({code})"),
            (Some(message), None) => message.to_owned(),
            (None, _) => text.to_owned(),
        }
    }

    /// Returns the error code (D39) of a failed tool.
    pub(crate) fn error_code(&self) -> Option<String> {
        let value: Value = serde_json::from_str(self.text.as_deref()?).ok()?;
        value.get("errorCode").and_then(Value::as_str).map(str::to_owned)
    }

    /// Returns what the outcome means to a shell: nothing if all is well (D39, and the seed's codes for jobs).
    pub(crate) fn kind(&self, tool: &str) -> Option<Kind> {
        if self.is_error {
            return Some(self.error_code().map_or(Kind::Failed, |code| kind_of(&code)));
        }
        if !matches!(tool, "exec_job_await" | "job_await") {
            return None;
        }
        let job = self.structured.as_ref()?.get("job")?;
        match job.get("state").and_then(Value::as_str) {
            Some("running") => Some(Kind::TimedOut),
            Some("unknown") => Some(Kind::Unknown),
            _ => (job.get("exitCode").and_then(Value::as_i64) != Some(0)).then_some(Kind::Failed),
        }
    }
}

/// Returns the exit code's kind for an error code (D39).
fn kind_of(code: &str) -> Kind {
    match code {
        "INVALID_PARAMS" | "UNKNOWN_COMMAND" => Kind::Usage,
        "FORBIDDEN" | "SCOPE_MISMATCH" | "CONFIRM_REQUIRED" | "PRECONDITION_FAILED" | "CONFLICT" | "BUSY" => {
            Kind::Refused
        }
        "STARTING" | "STOPPING" | "STOPPED" | "UNAVAILABLE" => Kind::Unreachable,
        "OUTCOME_UNKNOWN" => Kind::Unknown,
        _ => Kind::Failed,
    }
}

/// Reads an error of the protocol.
pub(crate) fn protocol_error(error: &Value) -> CliError {
    let message = error.get("message").and_then(Value::as_str).unwrap_or("an error without words");
    let code = error.pointer("/data/errorCode").and_then(Value::as_str);
    let kind = match (code, error.get("code").and_then(Value::as_i64)) {
        (Some(code), _) => kind_of(code),
        (None, Some(-32602..=-32600)) => Kind::Usage,
        _ => Kind::Failed,
    };
    let error = CliError::new(kind, clean(message));
    if kind == Kind::Usage {
        error.hint("`cuddy mcp tools` lists the tools and their parameters")
    } else {
        error
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn refusals_are_read_in_all_three_forms() {
        let rpc = br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"starting","data":{"errorCode":"STARTING"}}}"#;
        let refusal = Refusal::new(503, None, rpc);
        assert_eq!((refusal.code.as_deref(), refusal.message.as_str()), (Some("STARTING"), "starting"));
        assert!(refusal.is_passing() && !refusal.is_down());
        let rest = Refusal::new(503, None, br#"{"code":"STOPPING","message":"about to stop"}"#);
        assert!(rest.is_passing() && rest.is_down());
        let text = Refusal::new(401, None, b"unauthorized: MCP token expired\n\x1b[2J");
        assert_eq!(text.message, "unauthorized: MCP token expired\n[2J");
        assert!(!text.is_passing());
        assert_eq!(Refusal::new(500, None, b"").message, "HTTP 500");
        assert!(!Refusal::new(503, None, br#"{"code":"INTERNAL"}"#).is_passing());
    }

    #[test]
    fn outcomes_of_jobs_are_the_seeds_exit_codes() {
        let job = |state: &str, exit: Value| ToolAnswer {
            text: None,
            structured: Some(json!({ "job": { "state": state, "exitCode": exit } })),
            is_error: false,
        };
        assert_eq!(job("running", Value::Null).kind("exec_job_await"), Some(Kind::TimedOut));
        assert_eq!(job("unknown", Value::Null).kind("exec_job_await"), Some(Kind::Unknown));
        assert_eq!(job("exited", json!(3)).kind("exec_job_await"), Some(Kind::Failed));
        assert_eq!(job("exited", json!(0)).kind("exec_job_await"), None);
        assert_eq!(job("exited", json!(3)).kind("exec_job_status"), None);
    }

    #[test]
    fn failures_of_tools_have_their_own_codes() {
        let failed = |code: &str| ToolAnswer {
            text: Some(json!({ "errorCode": code, "message": "m" }).to_string()),
            structured: None,
            is_error: true,
        };
        assert_eq!(failed("INVALID_PARAMS").kind("x"), Some(Kind::Usage));
        assert_eq!(failed("FORBIDDEN").kind("x"), Some(Kind::Refused));
        assert_eq!(failed("STARTING").kind("x"), Some(Kind::Unreachable));
        assert_eq!(failed("NOT_FOUND").kind("x"), Some(Kind::Failed));
        let unknown =
            tool_answer(&json!({ "error": { "code": -32602, "message": "unknown tool" } })).unwrap_err();
        assert_eq!(unknown.kind, Kind::Usage);
    }
}
