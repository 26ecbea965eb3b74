//! `cuddy version`

use clap::Args;
use serde_json::json;

use crate::args::OutputArgs;
use crate::error::CliError;
use crate::output;

/// What was built: the commit and its date are given by whoever builds.
const COMMIT: Option<&str> = option_env!("CUDDY_COMMIT");
const DATE: Option<&str> = option_env!("CUDDY_DATE");

/// The arguments of `version`.
#[derive(Debug, Args)]
pub struct VersionArgs {
    #[command(flatten)]
    pub output: OutputArgs,
}

pub(super) fn run(args: &VersionArgs) -> Result<(), CliError> {
    let build = env!("CARGO_PKG_VERSION");
    let (commit, date) = (COMMIT.unwrap_or("unknown"), DATE.unwrap_or("unknown"));
    if args.output.is_json() {
        let level = cuddy_protocol::API_LEVEL;
        return output::json(&json!({ "build": build, "commit": commit, "date": date, "apiLevel": level }));
    }
    output::line(&format!("cuddy {build} (commit {commit}, {date})"))
}
