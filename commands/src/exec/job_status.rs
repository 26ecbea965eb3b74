//! `exec_job_status`

use cuddy_protocol::job::JobRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::declaration::{Command, Declaration, Family, Hosted, Method, Route};

/// Returns one job or all.
#[derive(Debug)]
pub struct ExecJobStatus;

/// The parameters.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecJobStatusParams {
    /// The job to read; absent lists all retained jobs, newest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100))]
    pub id: Option<String>,
}

/// One job, or all.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ExecJobStatusOutput {
    /// The job, when an id was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobRecord>,
    /// Every retained job, newest first, when no id was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<Vec<JobRecord>>,
}

impl Command for ExecJobStatus {
    const DECLARATION: Declaration = Declaration {
        hosted: Hosted::Host,
        route: Route { method: Method::Get, path: "/exec/jobs" },
        path: &["exec", "job", "status"],
        activity: false,
        retired_names: &["job_status"],
        ..Declaration::read::<Self>(
            "exec_job_status",
            Family::Exec,
            "Returns one job's state and outcome, or every retained job from newest to oldest.",
        )
    };
    type Params = ExecJobStatusParams;
    type Output = ExecJobStatusOutput;
}
