//! The record of a detached job, as the host keeps it and callers read it (seed, "The alive contract").

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most bytes of a job's output that are kept.
pub const OUTPUT_LIMIT_BYTES: u64 = 4 * 1024 * 1024;
/// How long a finished job stays readable, in seconds.
pub const RETENTION_SECONDS: i64 = 24 * 3600;
/// The caller's bound on `aliveAgeMs`: past it a job counts as failed with unknown outcome.
pub const STALE_AFTER_MS: u64 = 5000;

/// The three states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum JobState {
    /// The work runs.
    Running,
    /// The work ended and its end was recorded.
    Exited,
    /// The supervisor is gone and recorded no end. As final as exited.
    Unknown,
}

/// Why a job's outcome is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UnknownReasonKind {
    /// The pod or container that ran it has been replaced.
    PodReplaced,
    /// The supervisor ended without a record.
    SupervisorGone,
    /// The container ran out of memory and all its processes were ended.
    ContainerOom,
    /// The record cannot be read.
    RecordDamaged,
}

/// One job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobRecord {
    /// The handle; the job's name unless one was given.
    pub id: String,
    /// What people see.
    pub name: String,
    /// Always `command` for now: what kind of work it is.
    pub kind: String,
    /// The state.
    pub state: JobState,
    /// Program and arguments.
    pub command: Vec<String>,
    /// The working directory.
    pub dir: String,
    /// The supervisor's process id; it decides whether the job lives.
    pub pid: i32,
    /// The work's process id; it is what a cancel signals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_pid: Option<i32>,
    /// When it started, RFC 3339.
    pub started_at: String,
    /// When it ended, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// The exit code; null in every state but exited, -1 when a signal ended the work.
    pub exit_code: Option<i32>,
    /// The signal that ended the work (`SIGTERM`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Why the outcome is unknown, or why the work was ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The reason for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown_reason_kind: Option<UnknownReasonKind>,
    /// The file that holds the output, stdout and stderr merged.
    pub log_path: String,
    /// How many bytes the work has printed.
    pub output_bytes: u64,
    /// How many of them are kept at most.
    pub output_limit_bytes: u64,
    /// Whether some were dropped.
    pub output_truncated: bool,
    /// The lease that the job holds while it runs: `job-<id>`.
    pub lease_id: String,
    /// The supervisor's last beat, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_alive_at: Option<String>,
    /// The number of that beat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alive_seq: Option<u64>,
    /// How old that beat is, in milliseconds; null when there was none.
    pub alive_age_ms: Option<u64>,
}
