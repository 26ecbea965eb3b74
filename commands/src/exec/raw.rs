//! `exec_raw`

use std::collections::BTreeMap;
use std::time::Duration;

use cuddy_protocol::Capability;
use cuddy_protocol::job::JobState;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::declaration::{Command, Declaration, Effect, Family, Hosted, Method, Route};

/// How much of each stream a foreground call returns, in bytes.
pub const STREAM_LIMIT_BYTES: usize = 1024 * 1024;
/// The time limit of a foreground call that names none, in seconds.
pub const DEFAULT_TIMEOUT_SECONDS: u64 = 300;
/// The longest time limit, in seconds; more is refused.
pub const MAX_TIMEOUT_SECONDS: u64 = 3600;
/// The most bytes of all arguments together (D21).
pub const MAX_ARGV_BYTES: usize = 64 * 1024;

/// Runs a command in the runtime container.
#[derive(Debug)]
pub struct ExecRaw;

/// The parameters.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecRawParams {
    /// Program and arguments; the first item is the executable. No shell is involved.
    #[schemars(length(min = 1, max = 1024))]
    pub argv: Vec<String>,
    /// Working directory, beneath the home folder. Default: the repository, or home where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Text fed to the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Time limit of a foreground call in seconds, 1 to 3600. Default 300.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3600))]
    pub timeout_seconds: Option<u64>,
    /// Variables added to the environment; PATH, HOME, SHELL, IFS, LD_*, DYLD_* and ERUN_* are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// false runs the command as a job and answers at once with its handle. Default true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<bool>,
    /// The job's name. Default: the program's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100))]
    pub name: Option<String>,
    /// The job's handle. Default: made from the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100))]
    pub id: Option<String>,
}

/// The result: of a foreground call streams and exit code, of a background call the handle.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ExecRawOutput {
    /// Captured output, at most 1 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
    /// Captured errors, at most 1 MiB, with a note when either stream was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// The same bytes in base64, where stdout is not UTF-8.
    #[serde(default, rename = "stdoutBase64", skip_serializing_if = "Option::is_none")]
    pub stdout_base64: Option<String>,
    /// The same bytes in base64, where stderr is not UTF-8.
    #[serde(default, rename = "stderrBase64", skip_serializing_if = "Option::is_none")]
    pub stderr_base64: Option<String>,
    /// The process's exit code; -1 when a signal or the time limit ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended the process (`SIGKILL`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Whether either stream was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
    /// Whether the time limit ended the process.
    #[serde(default, rename = "timedOut", skip_serializing_if = "Option::is_none")]
    pub timed_out: Option<bool>,
    /// Processes of this call that outlived its end in spite of SIGKILL.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub survivors: Vec<String>,
    /// Background: the command was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executed: Option<bool>,
    /// Background: the job's handle.
    #[serde(default, rename = "jobId", skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// Background: running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<JobState>,
    /// Background: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<bool>,
}

impl Command for ExecRaw {
    const DECLARATION: Declaration = Declaration {
        effect: Effect::Destructive,
        idempotent: false,
        open_world: true,
        capability: Capability::Operate,
        hosted: Hosted::Host,
        route: Route { method: Method::Post, path: "/exec/raw" },
        path: &["exec", "raw"],
        deadline: Duration::from_secs(MAX_TIMEOUT_SECONDS + 30),
        job: true,
        aliases: &[("command", "argv"), ("dir", "cwd")],
        retired_names: &["raw"],
        ..Declaration::read::<Self>(
            "exec_raw",
            Family::Exec,
            "Runs an arbitrary command in the runtime container; with wait=false as a job that you can come back to.",
        )
    };
    type Params = ExecRawParams;
    type Output = ExecRawOutput;
}
