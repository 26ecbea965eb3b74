//! `exec_job_output`

use cuddy_protocol::job::JobRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::declaration::{Command, Declaration, Family, Hosted, Method, Route};

/// The size of a page that names none, in bytes.
pub const DEFAULT_PAGE_BYTES: u64 = 64 * 1024;
/// The largest page, in bytes.
pub const MAX_PAGE_BYTES: u64 = 1024 * 1024;

/// Reads a page of a job's output.
#[derive(Debug)]
pub struct ExecJobOutput;

/// The parameters.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecJobOutputParams {
    /// The job to read.
    #[schemars(length(min = 1, max = 100))]
    pub id: String,
    /// Byte position to start at; pass back nextOffset. Default 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub offset: Option<u64>,
    /// The largest page in bytes, 1 to 1048576. Default 65536.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_048_576))]
    pub max_bytes: Option<u64>,
}

/// A page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecJobOutputOutput {
    /// The job.
    pub job: JobRecord,
    /// Where this page starts, in bytes.
    pub offset: u64,
    /// Where the next read starts; a page may be shorter than asked so as not to split a character.
    pub next_offset: u64,
    /// The page, stdout and stderr merged.
    pub output: String,
    /// The same bytes in base64, where they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_base64: Option<String>,
    /// This read left more unread.
    pub has_more: bool,
    /// All output has been read and the job is over.
    pub complete: bool,
}

impl Command for ExecJobOutput {
    const DECLARATION: Declaration = Declaration {
        hosted: Hosted::Host,
        route: Route { method: Method::Get, path: "/exec/jobs/output" },
        path: &["exec", "job", "output"],
        activity: false,
        retired_names: &["job_output"],
        ..Declaration::read::<Self>(
            "exec_job_output",
            Family::Exec,
            "Reads one page of a job's merged output, even while it runs.",
        )
    };
    type Params = ExecJobOutputParams;
    type Output = ExecJobOutputOutput;
}
