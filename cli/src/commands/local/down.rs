//! `cuddy local down`

use clap::Args;
use cuddy_protocol::EnvironmentName;

use crate::context::Context;
use crate::error::CliError;
use crate::local::layout::Layout;
use crate::local::record::{self, Record};
use crate::target::LOCAL_TENANT;
use crate::{output, state, target};

/// The arguments of `local down`.
#[derive(Debug, Args)]
pub struct DownArgs {
    /// The environment [default: the only one]
    #[arg(long, value_name = "NAME")]
    pub name: Option<EnvironmentName>,
}

pub(super) async fn run(context: &Context, args: &DownArgs) -> Result<(), CliError> {
    let record = chosen(record::all(&context.dir), args.name.as_ref())?;
    let Some(record) = record else {
        output::note("no local environment is running");
        return Ok(());
    };
    let was_up = record.is_left();
    if !record.end().await {
        return Err(CliError::failed(format!(
            "a process of the local environment {} does not end",
            record.name
        ))
        .hint(format!(
            "its processes: {}, {}, {}",
            record.supervisor.pid, record.sidecar.pid, record.host.pid
        )));
    }
    let layout = Layout::of_run(&context.dir, &record);
    layout.clean();
    state::remove(&context.dir, &target::scope(LOCAL_TENANT, record.name.as_str())?, record.sidecar.pid);
    let _ = std::fs::remove_file(layout.record());
    let what = if was_up { "ended" } else { "was not running any more" };
    output::note(&format!(
        "local environment {} {what}; {} is untouched",
        record.name,
        record.workspace.display()
    ));
    Ok(())
}

fn chosen(records: Vec<Record>, name: Option<&EnvironmentName>) -> Result<Option<Record>, CliError> {
    if let Some(name) = name {
        return Ok(records.into_iter().find(|r| r.name == *name));
    }
    let mut left: Vec<Record> = records.into_iter().collect();
    match left.len() {
        0 | 1 => Ok(left.pop()),
        _ => {
            let names: Vec<&str> = left.iter().map(|r| r.name.as_str()).collect();
            Err(CliError::usage("there are several local environments")
                .hint(format!("name one with --name: {}", names.join(", "))))
        }
    }
}
