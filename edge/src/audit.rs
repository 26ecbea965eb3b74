//! The trail of what was called, by whom, and what became of it (DESIGN section 11).

use cuddy_commands::{Declaration, Effect};
use cuddy_protocol::{CommandError, ErrorCode};
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::caller::Caller;

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "result", content = "code")]
pub enum Outcome {
    /// It is about to run.
    Begun,
    /// It ran and answered.
    Done,
    /// It ran and failed.
    Failed(ErrorCode),
    /// It did not run.
    Refused(ErrorCode),
}

/// One entry. The arguments themselves are not in it, only their hash, and what the program chose to tell (`detail`).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    /// The call; its entries for begin and end share it.
    pub call_id: String,
    /// When, RFC 3339.
    #[serde(serialize_with = "time")]
    pub at: Timestamp,
    /// The caller's issuer.
    pub issuer: String,
    /// The caller's subject.
    pub subject: String,
    /// The thumbprint of the key that signed the bearer; none for the environment itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kid: Option<String>,
    /// The session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The way in.
    pub door: &'static str,
    /// The command; for one that is unknown the first 64 characters of what was asked for.
    pub command: String,
    /// What it does to the world; none for one that is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// SHA-256 over the arguments as JSON, in hex.
    pub arguments_hash: String,
    /// What the program tells of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<Value>,
    /// How long it took, in milliseconds; only at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// What became of it.
    pub outcome: Outcome,
}

fn time<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(at)
}

impl AuditEntry {
    /// Returns the entry of a call that is about to run.
    pub(crate) fn new(
        call_id: String,
        at: Timestamp,
        caller: &Caller,
        command: &str,
        arguments: &Value,
    ) -> Self {
        Self {
            call_id,
            at,
            issuer: caller.issuer.clone(),
            subject: caller.subject.clone(),
            kid: caller.kid.clone(),
            session: caller.session.clone(),
            door: caller.door.as_str(),
            command: command.chars().filter(|c| !c.is_control()).take(64).collect(),
            effect: None,
            arguments_hash: hash(arguments),
            detail: None,
            duration_ms: None,
            outcome: Outcome::Begun,
        }
    }
}

fn hash(arguments: &Value) -> String {
    use std::fmt::Write;
    // Writing a value into memory does not fail; if it ever did, an empty hash says so without stopping the call.
    let bytes = serde_json::to_vec(arguments).unwrap_or_default();
    Sha256::digest(&bytes).iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Where entries go.
pub trait Audit: Send + Sync {
    /// Records that a call which changes something is about to run. It is awaited: when it returns, the entry is durable,
    /// and when it fails the call does not run.
    fn begin(&self, entry: AuditEntry) -> BoxFuture<'_, Result<(), CommandError>>;

    /// Records the end of a call, or that it was refused. It must not block.
    fn end(&self, entry: AuditEntry);

    /// Returns what the entries of a call tell beside its hash (an exec: the redacted argv and the cwd). `result` is there
    /// at the end of a call that answered. Nothing by default.
    fn detail(&self, declaration: &Declaration, arguments: &Value, result: Option<&Value>) -> Option<Value> {
        let _ = (declaration, arguments, result);
        None
    }
}

/// Keeps nothing: for programs that answer nobody but their own user.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoAudit;

impl Audit for NoAudit {
    fn begin(&self, _: AuditEntry) -> BoxFuture<'_, Result<(), CommandError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn end(&self, _: AuditEntry) {}
}
