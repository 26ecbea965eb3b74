//! `cuddy open`

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use clap::Args;
use cuddy_protocol::Scope;
use cuddy_protocol::state_file::StateFile;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::args::OutputArgs;
use crate::bearer::{Facts, Minter};
use crate::cluster::{ClusterArgs, Place};
use crate::commands::key::KeyArgs;
use crate::context::Context;
use crate::error::{CliError, Kind};
use crate::forward::{self, Forward};
use crate::platform::{self, Process};
use crate::reach::local::{self, ProbeError};
use crate::target::{self, Target, TargetArgs};
use crate::{detach, env_vars, output, ports, shutdown, state};

/// How long the process in the background may take to report.
const START_GRACE: Duration = Duration::from_secs(20);
/// How long an old forward may take to end.
const END_GRACE: Duration = Duration::from_secs(5);

/// The arguments of `open`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "The local port speaks plain HTTP and still wants a bearer per request:
  curl -H \"Authorization: Bearer $(cuddy mcp token)\" http://127.0.0.1:17000/mcp ...")]
pub struct OpenArgs {
    /// The Environment [default: the only one in the namespace]
    #[arg(value_name = "ENV", env = env_vars::ENVIRONMENT, hide_env = true)]
    pub name: Option<String>,
    /// The tenant [default: the namespace]
    #[arg(long, value_name = "NAME", env = env_vars::TENANT, hide_env = true)]
    pub tenant: Option<String>,
    /// The port on 127.0.0.1 [default: the one it had, else the first free range from 17000]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Stay in the foreground
    #[arg(long, conflicts_with = "close")]
    pub foreground: bool,
    /// Close the local port that is open
    #[arg(long)]
    pub close: bool,
    /// How long an environment that comes up may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    pub timeout: u64,
    /// The issuer that the key signs for [default: the Environment's, else the seed's]
    #[arg(long, value_name = "ISS", env = env_vars::ISSUER, hide_env = true)]
    pub issuer: Option<String>,
    #[command(flatten)]
    pub key: KeyArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

impl OpenArgs {
    /// Returns the arguments that open an Environment, all else being as usual.
    pub(crate) fn of(name: &str, cluster: &ClusterArgs, key: &KeyArgs) -> Self {
        Self {
            name: Some(name.to_owned()),
            tenant: None,
            port: None,
            foreground: false,
            close: false,
            timeout: 120,
            issuer: None,
            key: key.clone(),
            cluster: cluster.clone(),
            output: OutputArgs::default(),
        }
    }

    /// Returns the command line by which the process in the background is started.
    fn as_arguments(&self, scope: &Scope, place: &Place) -> Vec<OsString> {
        let mut all: Vec<OsString> =
            ["open", scope.environment.as_str(), "--foreground", "--tenant", scope.tenant.as_str()]
                .map(OsString::from)
                .into();
        let mut flag = |name: &str, value: OsString| all.extend([name.into(), value]);
        flag("--context", (&place.context).into());
        flag("--namespace", (&place.namespace).into());
        flag("--timeout", self.timeout.to_string().into());
        if let Some(port) = self.port {
            flag("--port", port.to_string().into());
        }
        if let Some(issuer) = &self.issuer {
            flag("--issuer", issuer.into());
        }
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        if let Some(path) = &self.cluster.kubeconfig {
            flag("--kubeconfig", absolute(path).into());
        }
        if let Some(path) = &self.key.key {
            flag("--key", absolute(path).into());
        }
        all
    }
}

pub(super) async fn run(context: &Context, args: OpenArgs) -> Result<(), CliError> {
    let (target, place) = find(context, &args).await?;
    if args.close {
        return close(context, &target.scope).await;
    }
    if args.foreground {
        return foreground(context, &args, &target, &place).await;
    }
    let port = in_background_at(context, &args, &target, &place).await?;
    let endpoint = format!("http://127.0.0.1:{port}/mcp");
    if args.output.is_json() {
        let scope = &target.scope;
        return output::json(
            &json!({ "tenant": scope.tenant, "environment": scope.environment, "localPort": port, "endpoint": endpoint }),
        );
    }
    output::line(&format!("{} answers on {endpoint}", target.scope))?;
    output::note("`cuddy mcp token` prints a bearer for it; `cuddy open --close` closes it");
    Ok(())
}

/// Opens a port in the background and returns it; one that is open already and answers is kept.
pub(crate) async fn in_background(context: &Context, args: &OpenArgs) -> Result<u16, CliError> {
    let (target, place) = find(context, args).await?;
    in_background_at(context, args, &target, &place).await
}

async fn find(context: &Context, args: &OpenArgs) -> Result<(Target, Place), CliError> {
    let wanted = TargetArgs {
        tenant: args.tenant.clone(),
        environment: args.name.clone(),
        cluster: args.cluster.clone(),
    };
    let target = target::resolve(&wanted, &context.dir).await?;
    match target.place.clone() {
        Some(place) => Ok((target, place)),
        None => Err(CliError::usage(format!("{} is on this machine, and open as it is", target.scope))),
    }
}

async fn in_background_at(
    context: &Context,
    args: &OpenArgs,
    target: &Target,
    place: &Place,
) -> Result<u16, CliError> {
    let minter = minter(context, args, target)?;
    if let Some(port) = replace_dead(context, args, target, place, &minter).await? {
        return Ok(port);
    }
    let log =
        context.dir.logs().join(format!("open-{}-{}.log", target.scope.tenant, target.scope.environment));
    let mut child = detach::start(&args.as_arguments(&target.scope, place), &log, Stdio::null())?;
    let open = async {
        loop {
            if let Some(status) = child.try_wait()? {
                return Err(background_failed(&log, status.code()));
            }
            match state::read(&context.dir, &target.scope) {
                Ok(Some(state)) if state.process_id == Some(child.id()) => return Ok(state.local_port),
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let patience = Duration::from_secs(args.timeout) + START_GRACE;
    tokio::time::timeout(patience, open).await.unwrap_or_else(|_| {
        Err(CliError::unreachable("the local port did not open in time")
            .hint(format!("its log is {}", log.display())))
    })
}

fn background_failed(log: &std::path::Path, code: Option<i32>) -> CliError {
    let tail = detach::tail(log);
    let words = tail.strip_prefix("error: ").unwrap_or(&tail);
    let kind = match code {
        Some(2) => Kind::Usage,
        Some(3) => Kind::Refused,
        Some(4) => Kind::Unreachable,
        _ => Kind::Failed,
    };
    CliError::new(
        kind,
        if words.is_empty() { "the process in the background ended".to_owned() } else { words.to_owned() },
    )
}

/// Keeps a forward that answers and returns its port; ends one of ours that does not.
async fn replace_dead(
    context: &Context,
    args: &OpenArgs,
    target: &Target,
    place: &Place,
    minter: &Minter,
) -> Result<Option<u16>, CliError> {
    let Some(old) = state::read(&context.dir, &target.scope).ok().flatten() else { return Ok(None) };
    let same = old.kubernetes_context == place.context
        && old.namespace == place.namespace
        && args.port.is_none_or(|port| port == old.local_port);
    let holder = platform::holder(old.local_port);
    let is_ours = holder.as_ref().is_some_and(|h| h.pid.is_some() && h.pid == old.process_id);
    if same && (is_ours || !platform::knows_holders()) {
        let bearer = minter.mint(&Facts { issuer: args.issuer.clone(), uid: None })?;
        match local::probe(&old, &bearer).await {
            Ok(()) => return Ok(Some(old.local_port)),
            // It answers, and says what is wrong: another one would say the same.
            Err(ProbeError::Refused(error)) => return Err(error),
            Err(ProbeError::Dead(error)) => {
                output::note(&format!("replacing the forward on port {}: {}", old.local_port, error.chain()));
            }
        }
    }
    end(is_ours, &old).await?;
    Ok(None)
}

async fn foreground(
    context: &Context,
    args: &OpenArgs,
    target: &Target,
    place: &Place,
) -> Result<(), CliError> {
    let mut signals = shutdown::signals()?;
    let background = detach::is_background();
    let minter = minter(context, args, target)?;
    if !background && replace_dead(context, args, target, place, &minter).await?.is_some() {
        return Err(CliError::refused(format!("{} is open already", target.scope))
            .hint("`cuddy open --close` closes it"));
    }
    let listener = ports::bind(&context.dir, &target.scope, args.port)?;
    let port = listener.local_addr()?.port();
    let forward = Forward::new(&args.cluster, place, target.scope.environment.as_str()).await?;
    let opened = forward.until_up(Duration::from_secs(args.timeout), &|words| output::note(words));
    let up = tokio::select! {
        up = opened => up?,
        () = signals.recv() => return Ok(()),
    };
    let stop = CancellationToken::new();
    let served = tokio::spawn(forward::serve(forward, listener, stop.clone()));
    let log =
        context.dir.logs().join(format!("open-{}-{}.log", target.scope.tenant, target.scope.environment));
    let entry = StateFile {
        tenant: target.scope.tenant.to_string(),
        environment: target.scope.environment.to_string(),
        kubernetes_context: place.context.clone(),
        namespace: place.namespace.clone(),
        local_port: port,
        scheme: "http".to_owned(),
        log_path: background.then(|| log.display().to_string()),
        process_id: Some(std::process::id()),
    };
    // Only what answers a real request with a real bearer is written down.
    let issuer = args.issuer.clone().or(up.issuer);
    let probed = local::probe(&entry, &minter.mint(&Facts { issuer, uid: Some(up.uid) })?)
        .await
        .map_err(CliError::from);
    let result = match probed
        .and_then(|()| state::write(&context.dir, &target.scope, &entry).map_err(CliError::from))
    {
        Ok(_) => {
            if !background {
                output::line(&format!("{} answers on http://127.0.0.1:{port}/mcp", target.scope))?;
                output::note("Ctrl-C closes it");
            }
            signals.recv().await;
            Ok(())
        }
        Err(error) => Err(error),
    };
    stop.cancel();
    state::remove(&context.dir, &target.scope, std::process::id());
    let _ = served.await;
    result
}

async fn close(context: &Context, scope: &Scope) -> Result<(), CliError> {
    let Some(old) = state::read(&context.dir, scope)? else {
        output::note(&format!("{scope} is not open"));
        return Ok(());
    };
    let holder = platform::holder(old.local_port);
    let is_ours = holder.is_some_and(|h| h.pid.is_some() && h.pid == old.process_id);
    end(is_ours, &old).await?;
    if let Some(process) = old.process_id {
        state::remove(&context.dir, scope, process);
    }
    output::note(&format!("{scope} is closed"));
    Ok(())
}

/// Ends the process of a forward, if it is one of ours.
async fn end(is_ours: bool, old: &StateFile) -> Result<(), CliError> {
    match old.process_id.filter(|_| is_ours).and_then(Process::find) {
        Some(process) if !process.end(END_GRACE).await => {
            Err(CliError::failed(format!("the forward (pid {}) does not end", process.pid)))
        }
        _ => Ok(()),
    }
}

fn minter(context: &Context, args: &OpenArgs, target: &Target) -> Result<Minter, CliError> {
    let key = context.keys(args.key.key.as_deref()).load()?;
    Ok(Minter::new(key, target.scope.clone(), None))
}
