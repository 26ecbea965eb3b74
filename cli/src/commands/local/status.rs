//! `cuddy local status`

use clap::Args;
use serde_json::{Value, json};

use crate::args::OutputArgs;
use crate::context::Context;
use crate::error::CliError;
use crate::local::record::{self, Record};
use crate::output;

/// The arguments of `local status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    pub output: OutputArgs,
}

pub(super) fn run(context: &Context, args: &StatusArgs) -> Result<(), CliError> {
    let records = record::all(&context.dir);
    if args.output.is_json() {
        let values: Vec<Value> = records.iter().map(as_json).collect();
        return output::json(&json!({ "environments": values }));
    }
    if records.is_empty() {
        output::note("there is no local environment; start one with `cuddy local up --workspace DIR`");
        return Ok(());
    }
    let rows: Vec<Vec<String>> = records
        .iter()
        .map(|r| {
            vec![
                r.name.to_string(),
                state(r).to_owned(),
                format!("http://127.0.0.1:{}/mcp", r.port),
                r.workspace.display().to_string(),
                r.started_at.clone(),
            ]
        })
        .collect();
    output::table(&["NAME", "STATE", "ENDPOINT", "WORKSPACE", "STARTED"], &rows)
}

fn state(record: &Record) -> &'static str {
    match (record.is_up(), record.is_left()) {
        (true, _) => "running",
        (false, true) => "broken",
        (false, false) => "ended",
    }
}

fn as_json(record: &Record) -> Value {
    json!({
        "name": record.name,
        "state": state(record),
        "endpoint": format!("http://127.0.0.1:{}/mcp", record.port),
        "workspace": record.workspace,
        "startedAt": record.started_at,
        "sidecarPid": record.sidecar.pid,
        "hostPid": record.host.pid,
    })
}
