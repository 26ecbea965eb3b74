//! What the host may answer: a result of the right shape or an error of a bounded size.

use cuddy_protocol::{CommandError, ErrorCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::json_bound;
use crate::text;

/// The most characters of an error's message.
const MAX_MESSAGE: usize = 4096;
/// The most bytes of an error's details, as JSON.
const MAX_DETAILS: usize = 16 * 1024;
/// What only the sidecar says: clients wait for a pod, or wake it, because of these.
const NOT_THE_HOSTS: [ErrorCode; 3] = [ErrorCode::Starting, ErrorCode::Stopping, ErrorCode::Stopped];
/// The largest error that is read, in bytes.
pub(super) const MAX_ERROR: usize = 128 * 1024;

/// Returns the error for an answer that makes no sense.
pub fn not_understood(why: &str) -> CommandError {
    tracing::warn!(why, "an answer of the host that cannot be understood");
    CommandError::new(ErrorCode::Internal, "the host's answer could not be understood")
}

/// Parses a result; unknown fields are left out, and cost nothing.
pub fn parse<T: DeserializeOwned>(json: &[u8]) -> Result<T, CommandError> {
    if !json_bound::is_bounded(json) {
        return Err(not_understood("too many values"));
    }
    // The parser's words may quote what the host said, so they are cut like all it says.
    serde_json::from_slice(json).map_err(|e| not_understood(&text::one_line(&e.to_string(), 200)))
}

/// Parses a result as `T` and returns it as a value again: what doors hand on has been through the declared shape.
pub fn reshape<T: DeserializeOwned + Serialize>(json: &[u8]) -> Result<Value, CommandError> {
    let output: T = parse(json)?;
    serde_json::to_value(output).map_err(|e| not_understood(&e.to_string()))
}

/// Parses an error and cuts it to size. It is retryable only if its code can be.
pub(super) fn error(json: &[u8]) -> CommandError {
    let parsed: CommandError = match parse(json) {
        Ok(parsed) => parsed,
        Err(error) => return error,
    };
    if NOT_THE_HOSTS.contains(&parsed.error_code) {
        return not_understood(parsed.error_code.as_str());
    }
    let fits = serde_json::to_vec(&parsed.details).is_ok_and(|json| json.len() <= MAX_DETAILS);
    CommandError {
        error_code: parsed.error_code,
        message: text::lines(&parsed.message, MAX_MESSAGE),
        details: if fits { parsed.details } else { Map::new() },
        retryable: parsed.retryable && parsed.error_code.is_retryable(),
    }
}

#[cfg(test)]
mod tests {
    use cuddy_commands::exec::raw::ExecRawOutput;
    use serde_json::json;

    use super::*;

    #[test]
    fn results_have_the_declared_shape() {
        let value = reshape::<ExecRawOutput>(br#"{"stdout":"x","exit_code":0,"evil":[[[]]]}"#).unwrap();
        assert_eq!(value, json!({ "stdout": "x", "exit_code": 0 }));
        let deep = "[".repeat(100_000);
        for bad in ["", "[]x", "7", r#"{"stdout":7}"#, r#"{"exit_code":"0"}"#, &deep] {
            let error = reshape::<ExecRawOutput>(bad.as_bytes()).unwrap_err();
            assert_eq!(error.error_code, ErrorCode::Internal);
            assert_eq!(error.message, "the host's answer could not be understood");
        }
    }

    #[test]
    fn the_state_of_the_environment_is_not_the_hosts_to_tell() {
        for code in NOT_THE_HOSTS {
            let json = serde_json::to_vec(&CommandError::new(code, "wake me")).unwrap();
            assert_eq!(error(&json).error_code, ErrorCode::Internal);
        }
    }

    #[test]
    fn errors_are_cut_to_size() {
        let json = json!({
            "errorCode": "NOT_FOUND", "message": format!("\u{1b}[2J{}", "x".repeat(100_000)),
            "details": { "a": "y".repeat(100_000) }, "retryable": true,
        });
        let error = error(json.to_string().as_bytes());
        assert_eq!(error.error_code, ErrorCode::NotFound);
        assert!(error.message.starts_with("?[2J") && error.message.len() <= MAX_MESSAGE);
        assert!(error.details.is_empty() && !error.retryable);
    }
}
