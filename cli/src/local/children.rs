//! The two processes: started with exactly what they need to know, watched, ended in order.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use cuddy_protocol::Scope;
use tokio::process::{Child, Command};

use super::layout::Layout;
use super::programs::Programs;
use crate::detach;
use crate::error::CliError;
use crate::platform::Process;

/// How long the host may take to end its jobs (D10).
const HOST_GRACE: Duration = Duration::from_secs(10);
/// How long the sidecar may take to finish what it answers.
const SIDECAR_GRACE: Duration = Duration::from_secs(10);

/// What a run is about.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    /// The folders.
    pub(crate) layout: &'a Layout,
    /// The programs.
    pub(crate) programs: &'a Programs,
    /// Tenant and environment.
    pub(crate) scope: &'a Scope,
    /// The run's UID, as a pod's.
    pub(crate) uid: &'a str,
    /// The folder in which all work happens.
    pub(crate) workspace: &'a Path,
    /// Where the sidecar listens.
    pub(crate) listen: SocketAddr,
}

/// A program that runs.
#[derive(Debug)]
pub(crate) struct Running {
    name: &'static str,
    child: Child,
    log: PathBuf,
    process: Process,
}

/// The sidecar and the host.
#[derive(Debug)]
pub(crate) struct Children {
    sidecar: Running,
    host: Running,
}

impl Children {
    /// Starts both.
    pub(crate) fn start(plan: &Plan<'_>) -> Result<Self, CliError> {
        let layout = plan.layout;
        let mut sidecar = Command::new(&plan.programs.sidecar);
        sidecar
            .arg("serve")
            .env("CUDDY_POD_UID", plan.uid)
            .env("CUDDY_ANCHOR_DIR", layout.anchor())
            .env("CUDDY_STATE_DIR", layout.state())
            .env("CUDDY_POD_STATE_DIR", layout.pod_state())
            .env("CUDDY_AUTH", "Bearer")
            .env("CUDDY_GATE", "Open")
            // There is no operator that could stop it; what it reports as idle is still true.
            .env("CUDDY_IDLE_ACTION", "None")
            .env("CUDDY_LISTEN_PLAIN", plan.listen.to_string())
            .env("CUDDY_LISTEN_TLS", "off")
            .env("CUDDY_LISTEN_CONTROL", "off")
            .env("CUDDY_LISTEN_PROBE", "off")
            .env("CUDDY_LISTEN_METRICS", "off")
            .current_dir(layout.root());
        let mut host = Command::new(&plan.programs.host);
        host.arg("init")
            .env("CUDDY_HOME", plan.workspace)
            .env("CUDDY_TENANT", plan.scope.tenant.as_str())
            .env("CUDDY_ENVIRONMENT", plan.scope.environment.as_str())
            .env("CUDDY_BEATS_DIR", layout.beats())
            .current_dir(plan.workspace);
        let start = |name, command| Running::start(name, command, layout);
        Ok(Self { sidecar: start("sidecar", sidecar)?, host: start("host", host)? })
    }

    /// Returns the sidecar's process.
    pub(crate) const fn sidecar(&self) -> Process {
        self.sidecar.process
    }

    /// Returns the host's process.
    pub(crate) const fn host(&self) -> Process {
        self.host.process
    }

    /// Waits until one of them ends by itself, and says which and how.
    pub(crate) async fn ended(&mut self) -> CliError {
        tokio::select! {
            error = self.sidecar.ended() => error,
            error = self.host.ended() => error,
        }
    }

    /// Ends both: the host first, so that its jobs end and are recorded while the sidecar still answers.
    pub(crate) async fn end(mut self) {
        self.host.end(HOST_GRACE).await;
        self.sidecar.end(SIDECAR_GRACE).await;
    }
}

impl Running {
    fn start(name: &'static str, mut command: Command, layout: &Layout) -> Result<Self, CliError> {
        let failed =
            |what: &str, error| CliError::failed(format!("cannot {what} of the {name}")).because(error);
        let log = layout.log(name);
        let output = File::create(&log).map_err(|e| failed("write the log", e))?;
        let errors = output.try_clone().map_err(|e| failed("write the log", e))?;
        command
            .env("CUDDY_HOST_SOCKET_DIR", layout.host_sockets())
            .env("CUDDY_AGENT_SOCKET_DIR", layout.agent_sockets())
            .env_remove(crate::env_vars::DETACHED)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .kill_on_drop(true);
        // A group of its own: Ctrl-C is for this program, which ends the others in order.
        #[cfg(unix)]
        command.process_group(0);
        let child = command.spawn().map_err(|e| failed("start the program", e))?;
        let process = child.id().and_then(Process::find).ok_or_else(|| {
            CliError::failed(format!("the {name} ended at once"))
                .because(std::io::Error::other(detach::tail(&log)))
        })?;
        Ok(Self { name, child, log, process })
    }

    async fn ended(&mut self) -> CliError {
        let how = match self.child.wait().await {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        let error = CliError::failed(format!("the {} ended: {how}", self.name))
            .hint(format!("its log is {}", self.log.display()));
        match detach::tail(&self.log) {
            tail if tail.is_empty() => error,
            tail => error.because(std::io::Error::other(tail)),
        }
    }

    async fn end(&mut self, grace: Duration) {
        self.process.end(grace).await;
        // It is gone or has been killed; this collects it.
        let _ = tokio::time::timeout(Duration::from_secs(5), self.child.wait()).await;
    }
}
