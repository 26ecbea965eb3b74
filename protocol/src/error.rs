//! The one error that a command ends with (D3, D39).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal, $status:literal, $retryable:literal;)*) => {
        /// What went wrong, as a stable code with its HTTP status.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
        pub enum ErrorCode {
            $($(#[$doc])* #[serde(rename = $text)] $variant,)*
        }

        impl ErrorCode {
            /// Every code, in the order of D39.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Returns the code as it stands on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }

            /// Returns the HTTP status that REST answers with.
            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status),* }
            }

            /// Says whether the same call may succeed later without any change: true only for what was refused before
            /// it had an effect.
            pub const fn is_retryable(self) -> bool {
                match self { $(Self::$variant => $retryable),* }
            }
        }
    };
}

codes! {
    /// An argument is unknown, missing, of the wrong type or out of bounds.
    InvalidParams = "INVALID_PARAMS", 400, false;
    /// The call names another tenant or environment than this one.
    ScopeMismatch = "SCOPE_MISMATCH", 422, false;
    /// There is no such command for this caller.
    UnknownCommand = "UNKNOWN_COMMAND", 404, false;
    /// The thing named does not exist.
    NotFound = "NOT_FOUND", 404, false;
    /// The caller may see the command, but not use it this way.
    Forbidden = "FORBIDDEN", 403, false;
    /// The command wants a confirmation that was not given.
    ConfirmRequired = "CONFIRM_REQUIRED", 422, false;
    /// What the command rests on does not hold.
    PreconditionFailed = "PRECONDITION_FAILED", 422, false;
    /// Somebody else holds it, or the idempotency key belongs to other arguments.
    Conflict = "CONFLICT", 409, false;
    /// The same call is running already.
    InProgress = "IN_PROGRESS", 409, false;
    /// A call was cut off between its effect and its answer.
    OutcomeUnknown = "OUTCOME_UNKNOWN", 409, false;
    /// Larger than a bound allows.
    TooLarge = "TOO_LARGE", 413, false;
    /// A limit on concurrent work is reached.
    Busy = "BUSY", 429, true;
    /// The environment is coming up.
    Starting = "STARTING", 503, true;
    /// The environment is about to stop.
    Stopping = "STOPPING", 503, true;
    /// The environment is stopped.
    Stopped = "STOPPED", 503, true;
    /// Something that the command needs cannot be reached from here.
    Unavailable = "UNAVAILABLE", 503, true;
    /// No space is left.
    DiskFull = "DISK_FULL", 507, false;
    /// Time ran out.
    Deadline = "DEADLINE", 504, false;
    /// The caller took the call back.
    Cancelled = "CANCELLED", 499, false;
    /// A fault of Cuddy's own.
    Internal = "INTERNAL", 500, false;
}

/// An error as callers read it. `message` is a sentence for a person or a model: what is wrong, and what to do next.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("{message}")]
pub struct CommandError {
    /// The stable code.
    pub error_code: ErrorCode,
    /// What is wrong and what to do next.
    pub message: String,
    /// Facts for programs; never a secret.
    #[serde(default)]
    pub details: Map<String, Value>,
    /// Whether the same call may succeed later.
    #[serde(default)]
    pub retryable: bool,
}

impl CommandError {
    /// Returns an error with the code's own retryability and no details.
    pub fn new(error_code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            error_code,
            message: message.into(),
            details: Map::new(),
            retryable: error_code.is_retryable(),
        }
    }

    /// Returns the error with one more fact.
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    /// Returns an error about one argument, named by its JSON path (`$.argv[0]`).
    pub fn invalid(path: &str, expectation: impl Into<String>) -> Self {
        let expectation = expectation.into();
        Self::new(ErrorCode::InvalidParams, format!("{path}: {expectation}"))
            .with("path", path)
            .with("expected", expectation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_say_their_names() {
        for code in ErrorCode::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
            assert!(!code.is_retryable() || [429, 503].contains(&code.status()));
        }
    }

    #[test]
    fn an_error_reads_as_d3_says() {
        let error = CommandError::invalid("$.argv", "a list of 1 to 1,024 strings");
        insta::assert_json_snapshot!(error);
    }
}
