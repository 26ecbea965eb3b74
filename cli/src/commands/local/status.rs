//! `cuddy local status`

use clap::Args;
use serde_json::{Value, json};

use crate::args::OutputArgs;
use crate::context::Context;
use crate::error::CliError;
use crate::local::found::{Found, Standing};
use crate::local::record::Record;
use crate::output;

/// The arguments of `local status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    pub output: OutputArgs,
}

pub(super) fn run(context: &Context, args: &StatusArgs) -> Result<(), CliError> {
    let found = Found::all(&context.dir);
    if args.output.is_json() {
        let values: Vec<Value> = found.iter().map(as_json).collect();
        return output::json(&json!({ "environments": values }));
    }
    if found.is_empty() {
        output::note("there is no local environment; start one with `cuddy local up --workspace DIR`");
        return Ok(());
    }
    let rows: Vec<Vec<String>> = found.iter().map(row).collect();
    output::table(&["NAME", "STATE", "ENDPOINT", "WORKSPACE", "STARTED"], &rows)?;
    for found in &found {
        if let Some(words) = explanation(found) {
            output::note(&format!("{}: {words}", found.name));
        }
    }
    Ok(())
}

fn row(found: &Found) -> Vec<String> {
    let mut row = vec![found.name.to_string(), found.standing().word().to_owned()];
    match &found.record {
        Some(r) => row.extend([endpoint(r), r.workspace.display().to_string(), r.started_at.clone()]),
        None => row.extend(["-", "-", "-"].map(str::to_owned)),
    }
    row
}

/// Says what a state means that is not as it should be.
fn explanation(found: &Found) -> Option<String> {
    let end = format!("`cuddy local down --name {}`", found.name);
    match found.standing() {
        Standing::Running | Standing::Ended => None,
        Standing::Changing => Some("it is being started or ended".to_owned()),
        Standing::Mending => Some("its sidecar has ended and is started again; its jobs go on".to_owned()),
        Standing::Damaged => {
            Some(format!("it runs, and the record of its processes is damaged; {end} ends it"))
        }
        Standing::Broken => {
            Some(format!("some of its processes live and nobody looks after them; {end} ends them"))
        }
        Standing::Failed => found.record.as_ref().and_then(|r| r.failure.clone()),
    }
}

fn endpoint(record: &Record) -> String {
    format!("http://127.0.0.1:{}/mcp", record.port)
}

fn as_json(found: &Found) -> Value {
    let mut value = json!({ "name": found.name, "state": found.standing().word() });
    if let Some(record) = &found.record {
        value["endpoint"] = json!(endpoint(record));
        value["workspace"] = json!(record.workspace);
        value["startedAt"] = json!(record.started_at);
        value["sidecarPid"] = json!(record.sidecar.pid);
        value["hostPid"] = json!(record.host.pid);
        if let Some(failure) = &record.failure {
            value["failure"] = json!(failure);
        }
    }
    value
}
