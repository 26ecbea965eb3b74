//! `cuddy local down`

use std::time::Duration;

use clap::Args;
use cuddy_protocol::EnvironmentName;

use crate::context::Context;
use crate::error::CliError;
use crate::local::found::Found;
use crate::local::layout::Layout;
use crate::local::lock::Lock;
use crate::target::LOCAL_TENANT;
use crate::{output, state, target};

/// The arguments of `local down`.
#[derive(Debug, Args)]
pub struct DownArgs {
    /// The environment [default: the only one]
    #[arg(long, value_name = "NAME")]
    pub name: Option<EnvironmentName>,
}

/// How long an environment may take to let go of its lock once its processes are gone.
const RELEASE: Duration = Duration::from_secs(2);
/// How long a supervisor may take to end the processes that it started.
const SUPERVISOR_GRACE: Duration = Duration::from_secs(25);

pub(super) async fn run(context: &Context, args: &DownArgs) -> Result<(), CliError> {
    let found = match &args.name {
        Some(name) => Found::one(&context.dir, name),
        None => only(Found::all(&context.dir))?,
    };
    let Some(found) = found else {
        output::note("no local environment is running");
        return Ok(());
    };
    let was_up = found.is_left();
    end(context, &found).await?;
    clean(context, &found).await?;
    let what = if was_up { "ended" } else { "was not running any more" };
    let name = &found.name;
    match &found.record {
        Some(record) => output::note(&format!(
            "local environment {name} {what}; {} is untouched",
            record.workspace.display()
        )),
        None => output::note(&format!("local environment {name} {what}; its workspace is untouched")),
    }
    Ok(())
}

/// Ends the supervisor, which ends the others, and then what it may have left.
async fn end(context: &Context, found: &Found) -> Result<(), CliError> {
    let name = &found.name;
    // The one that holds the lock; an old record may name another.
    if let Some(supervisor) = found.supervisor(&context.dir).await
        && !supervisor.end(SUPERVISOR_GRACE).await
    {
        return Err(CliError::failed(format!(
            "process {} of the local environment {name} does not end",
            supervisor.pid
        )));
    }
    match &found.record {
        Some(record) if !record.end().await => Err(CliError::failed(format!(
            "a process of the local environment {name} does not end"
        ))
        .hint(format!(
            "its processes: {}, {}, {}",
            record.supervisor.pid, record.sidecar.pid, record.host.pid
        ))),
        _ => Ok(()),
    }
}

/// Tidies up, unless somebody starts the environment anew.
async fn clean(context: &Context, found: &Found) -> Result<(), CliError> {
    let layout = Layout::new(&context.dir, &found.name);
    let Some(_lock) = Lock::take_within(&layout, RELEASE).await? else {
        return Err(CliError::failed(format!(
            "the local environment {} is held by a process that does not say who it is, or was started anew",
            found.name
        ))
        .hint(format!("whoever has {} open holds it", layout.lock().display())));
    };
    match &found.record {
        Some(record) => {
            Layout::of_run(&context.dir, record).clean();
            let scope = target::scope(LOCAL_TENANT, found.name.as_str())?;
            state::remove(&context.dir, &scope, record.sidecar.pid);
        }
        None => layout.clean(),
    }
    let _ = std::fs::remove_file(layout.record());
    Ok(())
}

/// Returns the one that there is; which of several is not guessed.
fn only(mut found: Vec<Found>) -> Result<Option<Found>, CliError> {
    if found.len() > 1 {
        let names: Vec<&str> = found.iter().map(|f| f.name.as_str()).collect();
        return Err(CliError::usage("there are several local environments")
            .hint(format!("name one with --name: {}", names.join(", "))));
    }
    Ok(found.pop())
}
