//! `exec_job_await`

use std::time::Duration;

use cuddy_protocol::job::JobRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::declaration::{Command, Declaration, Family, Hosted, Method, Route};

/// How long a call waits that names no time, in seconds.
pub const DEFAULT_TIMEOUT_SECONDS: u64 = 30;
/// How long a call may wait, in seconds; more is refused.
pub const MAX_TIMEOUT_SECONDS: u64 = 600;

/// Waits for a job, a bounded time.
#[derive(Debug)]
pub struct ExecJobAwait;

/// The parameters.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecJobAwaitParams {
    /// The job to wait for.
    #[schemars(length(min = 1, max = 100))]
    pub id: String,
    /// The longest wait in seconds, 0 to 600; 0 means the default. Default 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 600))]
    pub timeout_seconds: Option<u64>,
}

/// The job, and whether it was over in time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecJobAwaitOutput {
    /// The job.
    pub job: JobRecord,
    /// Not finished yet: no outcome at all, and not a failure.
    pub timed_out: bool,
    /// How long the call waited, in seconds.
    pub waited_seconds: f64,
    /// The bound in force, in seconds.
    pub timeout_seconds: u64,
}

impl Command for ExecJobAwait {
    const DECLARATION: Declaration = Declaration {
        hosted: Hosted::Host,
        route: Route { method: Method::Get, path: "/exec/jobs/await" },
        path: &["exec", "job", "await"],
        deadline: Duration::from_secs(MAX_TIMEOUT_SECONDS + 10),
        activity: false,
        retired_names: &["job_await"],
        ..Declaration::read::<Self>(
            "exec_job_await",
            Family::Exec,
            "Waits for a job for a bounded time and reports whether it finished; call again to keep waiting.",
        )
    };
    type Params = ExecJobAwaitParams;
    type Output = ExecJobAwaitOutput;
}
