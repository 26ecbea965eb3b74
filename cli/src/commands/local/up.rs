//! `cuddy local up`

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use cuddy_protocol::state_file::StateFile;
use cuddy_protocol::{EnvironmentName, Scope};
use ed25519_dalek::SigningKey;
use jiff::Timestamp;
use serde_json::json;

use crate::bearer::Minter;
use crate::cluster::ClusterArgs;
use crate::commands::key::KeyArgs;
use crate::context::Context;
use crate::error::CliError;
use crate::local::children::{Children, Plan};
use crate::local::layout::Layout;
use crate::local::record::{self, Record};
use crate::local::{self, anchor, programs};
use crate::platform::Process;
use crate::reach::{Options, Reach};
use crate::target::{LOCAL_TENANT, Target};
use crate::{detach, exchange, mcp_client, output, ports, shutdown, state, target};

/// How long sidecar and host may take to answer.
const START_TIMEOUT: Duration = Duration::from_secs(30);

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
    match record::read(&layout) {
        Some(record) if record.is_left() => return Err(already(&record)),
        // Nothing of that run is left but what it could not tidy away.
        Some(record) => Layout::of_run(&context.dir, &record).clean(),
        None => {}
    }
    if args.detach && !detach::is_background() {
        return in_background(context, args, &workspace, &scope, &layout).await;
    }
    let store = context.keys(args.key.key.as_deref());
    let (key, is_new) = store.load_or_create()?;
    if is_new {
        output::note(&format!("made your key {}", store.private_path().display()));
    }
    supervise(context, args, &Run { workspace, scope, layout, key }).await
}

/// What a run is made of.
struct Run {
    workspace: PathBuf,
    scope: Scope,
    layout: Layout,
    key: SigningKey,
}

async fn supervise(context: &Context, args: &UpArgs, run: &Run) -> Result<(), CliError> {
    let programs = programs::find()?;
    let mut ending = shutdown::signals()?;
    run.layout.make()?;
    let uid = uuid::Uuid::new_v4().to_string();
    anchor::write(&run.layout.anchor(), &run.scope, &uid, &run.key.verifying_key())?;
    // Held only until the sidecar starts: it must bind the port itself.
    let listener = ports::bind(&context.dir, &run.scope, args.port)?;
    let port = listener.local_addr()?.port();
    drop(listener);
    let plan = Plan {
        layout: &run.layout,
        programs: &programs,
        scope: &run.scope,
        uid: &uid,
        workspace: &run.workspace,
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
    };
    let mut children = Children::start(&plan)?;
    let sidecar = children.sidecar();
    let started = tokio::select! {
        answered = answers(context, run, port, sidecar) => answered.map(|()| true),
        error = children.ended() => Err(error),
        () = ending.recv() => Ok(false),
    };
    let result = match started {
        Ok(true) => {
            let written = record(args, run, port, &children).and_then(|()| announce(args, run, port));
            match written {
                Ok(()) => tokio::select! {
                    error = children.ended() => Err(error),
                    () = ending.recv() => Ok(()),
                },
                Err(error) => Err(error),
            }
        }
        Ok(false) => Ok(()),
        Err(error) => Err(error),
    };
    output::note("ending the local environment");
    children.end().await;
    state::remove(&context.dir, &run.scope, sidecar.pid);
    run.layout.clean();
    let _ = std::fs::remove_file(run.layout.record());
    result
}

/// Writes the state file, and waits until a command that goes through sidecar and host is answered.
async fn answers(context: &Context, run: &Run, port: u16, sidecar: Process) -> Result<(), CliError> {
    let state = StateFile {
        tenant: run.scope.tenant.to_string(),
        environment: run.scope.environment.to_string(),
        kubernetes_context: String::new(),
        namespace: String::new(),
        local_port: port,
        scheme: "http".to_owned(),
        log_path: Some(run.layout.log("sidecar").display().to_string()),
        process_id: Some(sidecar.pid),
    };
    let reach = Reach::new(Options {
        dir: context.dir.clone(),
        target: Target { scope: run.scope.clone(), place: None, in_cluster: false },
        cluster: ClusterArgs::default(),
        minter: Minter::new(run.key.clone(), run.scope.clone(), None),
        issuer: None,
        wake_timeout: START_TIMEOUT,
    });
    let asked = async {
        loop {
            if let Err(error) = one_call(&reach, port).await {
                tracing::debug!(error = %error.chain(), "not yet");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
            return state::write(&context.dir, &run.scope, &state).map(drop).map_err(CliError::from);
        }
    };
    tokio::time::timeout(START_TIMEOUT, asked).await.unwrap_or_else(|_| {
        Err(CliError::failed(format!(
            "the local environment did not answer within {} s",
            START_TIMEOUT.as_secs()
        ))
        .hint(format!("its logs are in {}", run.layout.root().display())))
    })
}

async fn one_call(reach: &Reach, port: u16) -> Result<(), CliError> {
    let params = json!({ "name": "exec_job_status", "arguments": {} });
    let message = exchange::through_port(reach, port, "tools/call", params).await?;
    let answer = mcp_client::tool_answer(&message)?;
    if answer.is_error { Err(CliError::failed(answer.failure())) } else { Ok(()) }
}

fn record(args: &UpArgs, run: &Run, port: u16, children: &Children) -> Result<(), CliError> {
    let pid = std::process::id();
    let supervisor = Process::find(pid).unwrap_or(Process { pid, started: None });
    let record = Record {
        name: args.name.clone(),
        workspace: run.workspace.clone(),
        port,
        sockets: run.layout.sockets().to_owned(),
        started_at: Timestamp::now().round(jiff::Unit::Second).unwrap_or_default().to_string(),
        supervisor,
        sidecar: children.sidecar(),
        host: children.host(),
    };
    record.write(&run.layout)
}

fn announce(args: &UpArgs, run: &Run, port: u16) -> Result<(), CliError> {
    output::line(&format!(
        "{} answers on http://127.0.0.1:{port}/mcp, home {}",
        run.scope,
        run.workspace.display()
    ))?;
    output::line(&format!("mind: {}", local::NO_WALL))?;
    output::line(&next(&args.name))?;
    if !detach::is_background() {
        output::note("Ctrl-C ends it");
    }
    Ok(())
}

fn next(name: &EnvironmentName) -> String {
    format!(
        "next: cuddy mcp call --tenant {LOCAL_TENANT} --environment {name} --tool exec_raw --arg 'argv=[\"ls\"]'"
    )
}

async fn in_background(
    context: &Context,
    args: &UpArgs,
    workspace: &Path,
    scope: &Scope,
    layout: &Layout,
) -> Result<(), CliError> {
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
    let mut child = detach::start(&arguments, &log)?;
    let up = async {
        loop {
            if let Some(status) = child.try_wait()? {
                return Err(CliError::failed(format!("the local environment did not start ({status})"))
                    .because(std::io::Error::other(detach::tail(&log))));
            }
            match record::read(layout) {
                Some(record) if record.supervisor.pid == child.id() => return Ok(record),
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let record =
        tokio::time::timeout(START_TIMEOUT + Duration::from_secs(5), up).await.unwrap_or_else(|_| {
            Err(CliError::failed("the local environment did not start in time")
                .hint(format!("its log is {}", log.display())))
        })?;
    debug_assert!(state::read(&context.dir, scope).is_ok());
    output::line(&format!(
        "{scope} answers on http://127.0.0.1:{}/mcp, home {}",
        record.port,
        record.workspace.display()
    ))?;
    output::line(&format!("mind: {}", local::NO_WALL))?;
    output::line(&next(&args.name))?;
    output::note(&format!("`cuddy local down --name {}` ends it", args.name));
    Ok(())
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
