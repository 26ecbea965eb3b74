//! `exec_job_cancel`

use std::time::Duration;

use cuddy_protocol::Capability;
use cuddy_protocol::job::JobRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::declaration::{Command, Declaration, Effect, Family, Hosted, Method, Route};

/// Ends a running job.
#[derive(Debug)]
pub struct ExecJobCancel;

/// The signals a cancel sends. The prefix SIG and lower case are accepted.
pub const SIGNALS: &[&str] = &["TERM", "INT", "HUP", "KILL"];

/// The parameters.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecJobCancelParams {
    /// The job to end.
    #[schemars(length(min = 1, max = 100))]
    pub id: String,
    /// TERM (default: what is left after 5 seconds is killed), INT, HUP or KILL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 10))]
    pub signal: Option<String>,
}

/// What was signalled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExecJobCancelOutput {
    /// The cancel.
    pub cancel: Cancel,
}

/// What became of a cancel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cancel {
    /// The job afterwards.
    pub job: JobRecord,
    /// Whether anything was signalled; false when the job was over already.
    pub signalled: bool,
    /// The signal (`SIGTERM`).
    pub signal: String,
    /// The work's process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_pid: Option<i32>,
    /// Processes of the job that are still there, named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub survivors: Vec<String>,
}

impl Command for ExecJobCancel {
    const DECLARATION: Declaration = Declaration {
        effect: Effect::Change,
        capability: Capability::Operate,
        hosted: Hosted::Host,
        route: Route { method: Method::Post, path: "/exec/jobs/cancel" },
        path: &["exec", "job", "cancel"],
        deadline: Duration::from_secs(30),
        retired_names: &["job_cancel"],
        ..Declaration::read::<Self>(
            "exec_job_cancel",
            Family::Exec,
            "Ends a running job: signals its recorded process and all that it started, never a look-alike.",
        )
    };
    type Params = ExecJobCancelParams;
    type Output = ExecJobCancelOutput;
}
