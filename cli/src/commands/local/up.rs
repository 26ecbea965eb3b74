//! `cuddy local up`

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use cuddy_protocol::EnvironmentName;

use crate::commands::key::KeyArgs;
use crate::context::Context;
use crate::error::CliError;
use crate::local::found::{Found, Standing};
use crate::local::layout::Layout;
use crate::local::lock::{self, Lock};
use crate::local::record::{self, Record};
use crate::local::supervise::{self, Run, START_TIMEOUT};
use crate::local::{self, programs};
use crate::target::LOCAL_TENANT;
use crate::{detach, output, target};

/// The arguments of `local up`.
#[derive(Debug, Args)]
pub struct UpArgs {
    /// The folder in which all work happens; it becomes the environment's home
    #[arg(long, short, value_name = "DIR")]
    pub workspace: PathBuf,
    /// What the environment is called
    #[arg(long, value_name = "NAME", default_value = local::DEFAULT_NAME)]
    pub name: EnvironmentName,
    /// The port on 127.0.0.1 [default: the first free range from 17000]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Go on in the background; `cuddy local down` ends it
    #[arg(long, short)]
    pub detach: bool,
    #[command(flatten)]
    pub key: KeyArgs,
}

pub(super) async fn run(context: &Context, args: &UpArgs) -> Result<(), CliError> {
    let workspace = args.workspace.canonicalize().map_err(|e| {
        CliError::usage(format!("there is no folder {}", args.workspace.display())).because(e)
    })?;
    if !workspace.is_dir() {
        return Err(CliError::usage(format!("{} is no folder", workspace.display())));
    }
    let scope = target::scope(LOCAL_TENANT, args.name.as_str())?;
    let layout = Layout::new(&context.dir, &args.name);
    let lock = own(context, &args.name, &layout)?;
    if args.detach && !detach::is_background() {
        return in_background(args, &workspace, &layout, lock).await;
    }
    let store = context.keys(args.key.key.as_deref());
    let (key, is_new) = store.load_or_create()?;
    if is_new {
        output::note(&format!("made your key {}", store.private_path().display()));
    }
    let run = Run { workspace, scope, layout, key, port: args.port, lock };
    supervise::supervise(context, run, |record| {
        announce(&record.name, record)?;
        if !detach::is_background() {
            output::note("Ctrl-C ends it");
        }
        Ok(())
    })
    .await
}

/// Makes this process the one that may start the environment, and clears away what the last run left.
fn own(context: &Context, name: &EnvironmentName, layout: &Layout) -> Result<Lock, CliError> {
    let inherited = if detach::is_background() { Lock::inherited(layout) } else { None };
    let lock = match inherited {
        Some(lock) => lock,
        None => Lock::take(layout)?.ok_or_else(|| taken(context, name, layout))?,
    };
    match record::read(layout) {
        Ok(Some(record)) if record.is_left() => return Err(already(&record)),
        // Nothing of that run is left but what it could not tidy away.
        Ok(Some(record)) => Layout::of_run(&context.dir, &record).clean(),
        Ok(None) => {}
        Err(error) => output::note(&format!("{error}: it is replaced, since nobody supervises that run")),
    }
    let _ = std::fs::remove_file(layout.record());
    Ok(lock)
}

fn announce(name: &EnvironmentName, record: &Record) -> Result<(), CliError> {
    output::line(&format!(
        "{LOCAL_TENANT}/{name} answers on http://127.0.0.1:{}/mcp, home {}",
        record.port,
        record.workspace.display()
    ))?;
    output::line(&format!("mind: {}", local::NO_WALL))?;
    output::line(&next(name))
}

fn next(name: &EnvironmentName) -> String {
    format!(
        "next: cuddy mcp call --tenant {LOCAL_TENANT} --environment {name} --tool exec_raw --arg 'argv=[\"ls\"]'"
    )
}

async fn in_background(args: &UpArgs, workspace: &Path, layout: &Layout, lock: Lock) -> Result<(), CliError> {
    // What can be said at once is said here, and not in a log.
    programs::find()?;
    let log = layout.log("supervisor");
    let mut arguments: Vec<OsString> =
        ["local", "up", "--detach", "--name", args.name.as_str(), "--workspace"]
            .into_iter()
            .map(OsString::from)
            .collect();
    arguments.push(workspace.into());
    if let Some(port) = args.port {
        arguments.extend(["--port".into(), port.to_string().into()]);
    }
    if let Some(key) = &args.key.key {
        arguments.extend(["--key".into(), key.into()]);
    }
    let mut child = detach::start(&arguments, &log, lock.into_stdin())?;
    let up = async {
        loop {
            if let Some(status) = child.try_wait()? {
                return Err(CliError::failed(format!("the local environment did not start ({status})"))
                    .because(std::io::Error::other(detach::tail(&log))));
            }
            match record::read(layout) {
                Ok(Some(record)) if record.supervisor.pid == child.id() && record.failure.is_none() => {
                    return Ok(record);
                }
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let record =
        tokio::time::timeout(START_TIMEOUT + Duration::from_secs(5), up).await.unwrap_or_else(|_| {
            Err(CliError::failed("the local environment did not start in time")
                .hint(format!("its log is {}", log.display())))
        })?;
    announce(&args.name, &record)?;
    output::note(&format!("`cuddy local down --name {}` ends it", args.name));
    Ok(())
}

/// Returns the error for a lock that somebody else holds.
fn taken(context: &Context, name: &EnvironmentName, layout: &Layout) -> CliError {
    let found = Found::one(&context.dir, name);
    if let Some(record) = found.as_ref().and_then(|f| f.record.as_ref()).filter(|r| r.is_left()) {
        return already(record);
    }
    let by = lock::holder(layout).map(|p| format!(", by process {}", p.pid)).unwrap_or_default();
    let words = match found.map(|f| f.standing()) {
        Some(Standing::Damaged) => "runs already, and its record is damaged",
        _ => "is being started or ended already",
    };
    CliError::refused(format!("the local environment {name} {words}{by}"))
        .hint(format!("end it with `cuddy local down --name {name}`, or give this one another --name"))
}

fn already(record: &Record) -> CliError {
    CliError::refused(format!(
        "the local environment {} runs already, on port {} with {}",
        record.name,
        record.port,
        record.workspace.display()
    ))
    .hint(format!("end it with `cuddy local down --name {}`, or give this one another --name", record.name))
}
