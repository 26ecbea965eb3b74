//! One run from its first process to its last: started, watched, mended, ended in order.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use cuddy_protocol::Scope;
use cuddy_protocol::state_file::StateFile;
use ed25519_dalek::SigningKey;
use jiff::Timestamp;
use serde_json::json;

use super::anchor;
use super::children::{Children, Event, Plan};
use super::layout::Layout;
use super::lock::Lock;
use super::programs;
use super::record::Record;
use crate::bearer::Minter;
use crate::cluster::ClusterArgs;
use crate::context::Context;
use crate::error::CliError;
use crate::platform::Process;
use crate::reach::{Options, Reach};
use crate::shutdown;
use crate::target::Target;
use crate::{exchange, mcp_client, output, ports, state};

/// How long sidecar and host may take to answer.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(30);

/// What a run is made of.
#[derive(Debug)]
pub(crate) struct Run {
    /// The folder in which all work happens.
    pub(crate) workspace: PathBuf,
    /// Tenant and environment.
    pub(crate) scope: Scope,
    /// The folders.
    pub(crate) layout: Layout,
    /// The one key that is trusted.
    pub(crate) key: SigningKey,
    /// The port that was asked for.
    pub(crate) port: Option<u16>,
    /// Held for as long as anything of the run lives.
    pub(crate) lock: Lock,
}

/// Runs the environment until a signal ends it, or it cannot go on. `ready` is called once it answers.
pub(crate) async fn supervise(
    context: &Context,
    mut run: Run,
    ready: impl FnOnce(&Record) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let mut ending = shutdown::signals()?;
    run.lock.sign()?;
    let programs = programs::find()?;
    run.layout.make()?;
    let uid = uuid::Uuid::new_v4().to_string();
    anchor::write(&run.layout.anchor(), &run.scope, &uid, &run.key.verifying_key())?;
    // Held only until the sidecar starts: it must bind the port itself.
    let listener = ports::bind(&context.dir, &run.scope, run.port)?;
    let port = listener.local_addr()?.port();
    drop(listener);
    let mut children = Children::start(Plan {
        layout: &run.layout,
        programs: &programs,
        scope: &run.scope,
        uid: &uid,
        workspace: &run.workspace,
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
    })?;
    let mut record = record(&run, port, &children);
    let result = tokio::select! {
        result = go_on(context, &run, &mut record, &mut children, ready) => result,
        () = ending.recv() => Ok(()),
    };
    output::note("ending the local environment");
    children.end().await;
    state::remove(&context.dir, &run.scope, record.sidecar.pid);
    run.layout.clean();
    match &result {
        // Whoever asks for it later is told.
        Err(error) if run.layout.record().exists() => {
            record.failure = Some(error.chain());
            record.write(&run.layout)?;
        }
        _ => {
            let _ = std::fs::remove_file(run.layout.record());
        }
    }
    result
}

/// Returns when the environment cannot go on, with the reason.
async fn go_on(
    context: &Context,
    run: &Run,
    record: &mut Record,
    children: &mut Children<'_>,
    ready: impl FnOnce(&Record) -> Result<(), CliError>,
) -> Result<(), CliError> {
    tokio::select! {
        answered = answers(context, run, record.port) => answered?,
        error = children.ended() => return Err(error),
    }
    publish(context, run, record)?;
    ready(record)?;
    loop {
        match children.event().await {
            Event::Over(error) => return Err(error),
            Event::SidecarEnded(error, pause) => {
                output::note(&format!("{}; it is started again", error.chain()));
                children.start_sidecar_again(pause).await?;
                record.sidecar = children.sidecar();
                publish(context, run, record)?;
            }
        }
    }
}

fn record(run: &Run, port: u16, children: &Children<'_>) -> Record {
    let pid = std::process::id();
    Record {
        name: run.scope.environment.clone(),
        workspace: run.workspace.clone(),
        port,
        sockets: run.layout.sockets().to_owned(),
        started_at: Timestamp::now().round(jiff::Unit::Second).unwrap_or_default().to_string(),
        supervisor: Process::find(pid).unwrap_or(Process { pid, started: None }),
        sidecar: children.sidecar(),
        host: children.host(),
        failure: None,
    }
}

/// Says where the environment is: to clients by the state file, to this program's other verbs by the record.
fn publish(context: &Context, run: &Run, record: &Record) -> Result<(), CliError> {
    let state = StateFile {
        tenant: run.scope.tenant.to_string(),
        environment: run.scope.environment.to_string(),
        kubernetes_context: String::new(),
        namespace: String::new(),
        local_port: record.port,
        scheme: "http".to_owned(),
        log_path: Some(run.layout.log("sidecar").display().to_string()),
        process_id: Some(record.sidecar.pid),
    };
    state::write(&context.dir, &run.scope, &state)?;
    record.write(&run.layout)
}

/// Waits until a command that goes through sidecar and host is answered.
async fn answers(context: &Context, run: &Run, port: u16) -> Result<(), CliError> {
    let reach = Reach::new(Options {
        dir: context.dir.clone(),
        target: Target { scope: run.scope.clone(), place: None, in_cluster: false },
        cluster: ClusterArgs::default(),
        minter: Minter::new(run.key.clone(), run.scope.clone(), None),
        issuer: None,
        wake_timeout: START_TIMEOUT,
    });
    let asked = async {
        while let Err(error) = one_call(&reach, port).await {
            tracing::debug!(error = %error.chain(), "not yet");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(START_TIMEOUT, asked).await.map_err(|_| {
        CliError::failed(format!("the local environment did not answer within {} s", START_TIMEOUT.as_secs()))
            .hint(format!("its logs are in {}", run.layout.root().display()))
    })
}

async fn one_call(reach: &Reach, port: u16) -> Result<(), CliError> {
    let params = json!({ "name": "exec_job_status", "arguments": {} });
    let message = exchange::through_port(reach, port, "tools/call", params).await?;
    let answer = mcp_client::tool_answer(&message)?;
    if answer.is_error { Err(CliError::failed(answer.failure())) } else { Ok(()) }
}
