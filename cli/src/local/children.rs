//! The two processes: started with exactly what they need to know, watched, ended in order.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::net::SocketAddr;
#[cfg(unix)]
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use cuddy_protocol::Scope;
use tokio::process::{Child, Command};

use super::layout::Layout;
use super::programs::Programs;
use super::restart::Restart;
use crate::detach;
use crate::error::CliError;
use crate::platform::Process;

/// How long the host may take to end its jobs (D10).
const HOST_GRACE: Duration = Duration::from_secs(10);
/// How long the sidecar may take to finish what it answers.
const SIDECAR_GRACE: Duration = Duration::from_secs(10);

/// The names of the two programs, and of their logs.
const SIDECAR: &str = "sidecar";
const HOST: &str = "host";

/// What a run is about.
#[derive(Debug, Clone, Copy)]
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

/// The caller's variables that the environment's commands see. Every other one stays out: among them are secrets, and
/// names of folders that are the user's own.
const PASSED_ON: [&str; 6] = ["PATH", "LANG", "TERM", "TZ", "USER", "LOGNAME"];

/// Says whether a variable of the caller's is passed on.
fn is_passed_on(name: &str) -> bool {
    PASSED_ON.contains(&name) || name.starts_with("LC_")
}

/// Returns those of the caller's variables that are passed on.
fn passed_on(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> impl Iterator<Item = (OsString, OsString)> {
    variables.filter(|(name, _)| name.to_str().is_some_and(is_passed_on))
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
pub(crate) struct Children<'a> {
    plan: Plan<'a>,
    sidecar: Running,
    host: Running,
    restart: Restart,
}

/// What became of them.
#[derive(Debug)]
pub(crate) enum Event {
    /// The sidecar ended and is to be started again after this time.
    SidecarEnded(CliError, Duration),
    /// It cannot go on.
    Over(CliError),
}

impl<'a> Children<'a> {
    /// Starts both.
    pub(crate) fn start(plan: Plan<'a>) -> Result<Self, CliError> {
        for name in [SIDECAR, HOST] {
            // Of the last run.
            let _ = std::fs::remove_file(plan.layout.log(name));
        }
        let sidecar = Running::start(SIDECAR, sidecar(&plan), plan.layout)?;
        let host = Running::start(HOST, host(&plan), plan.layout)?;
        Ok(Self { plan, sidecar, host, restart: Restart::new() })
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

    /// Waits until one of them ends by itself, and says what follows: the host's `init` is what the environment consists
    /// of, as a container's first process; the sidecar is started again, as the kubelet would.
    pub(crate) async fn event(&mut self) -> Event {
        tokio::select! {
            biased;
            error = self.host.ended() => Event::Over(error),
            error = self.sidecar.ended() => match self.restart.ended() {
                Some(pause) => Event::SidecarEnded(error, pause),
                None => Event::Over(error.hint("it ended each time it was started again")),
            },
        }
    }

    /// Starts the sidecar again after a pause, unless the host ends meanwhile. A sidecar that cannot be started counts as
    /// one that ended again.
    pub(crate) async fn start_sidecar_again(&mut self, pause: Duration) -> Result<(), CliError> {
        tokio::select! {
            error = self.host.ended() => return Err(error),
            () = tokio::time::sleep(pause) => {}
        }
        match Running::start(SIDECAR, sidecar(&self.plan), self.plan.layout) {
            Ok(sidecar) => {
                self.sidecar = sidecar;
                self.restart.started();
            }
            // The one that ended stays in its place, and is found to have ended.
            Err(error) => tracing::warn!(error = %error.chain(), "the sidecar is not started again"),
        }
        Ok(())
    }

    /// Ends both: the host first, so that its jobs end and are recorded while the sidecar still answers.
    pub(crate) async fn end(mut self) {
        self.host.end(HOST_GRACE).await;
        self.sidecar.end(SIDECAR_GRACE).await;
    }
}

fn sidecar(plan: &Plan<'_>) -> Command {
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
    sidecar
}

fn host(plan: &Plan<'_>) -> Command {
    let mut host = Command::new(&plan.programs.host);
    host.arg("init")
        .env_clear()
        .envs(passed_on(std::env::vars_os()))
        .env("HOME", plan.workspace)
        .env("CUDDY_HOME", plan.workspace)
        .env("CUDDY_TENANT", plan.scope.tenant.as_str())
        .env("CUDDY_ENVIRONMENT", plan.scope.environment.as_str())
        .env("CUDDY_BEATS_DIR", plan.layout.beats())
        .current_dir(plan.workspace);
    host
}

impl Running {
    fn start(name: &'static str, mut command: Command, layout: &Layout) -> Result<Self, CliError> {
        let failed =
            |what: &str, error| CliError::failed(format!("cannot {what} of the {name}")).because(error);
        let log = layout.log(name);
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        #[cfg(unix)]
        options.mode(0o600);
        let output = options.open(&log).map_err(|e| failed("write the log", e))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_see_what_makes_a_shell_work_and_nothing_else() {
        let names = [
            "PATH",
            "LANG",
            "LC_ALL",
            "TERM",
            "TZ",
            "USER",
            "LOGNAME",
            "HOME",
            "XDG_CONFIG_HOME",
            "KUBECONFIG",
            "AWS_SECRET_ACCESS_KEY",
            "CUDDY_KEY",
            "LD_PRELOAD",
            "SSH_AUTH_SOCK",
            "PATHX",
        ];
        let variables = names.map(|name| (OsString::from(name), OsString::from("x")));
        let kept: Vec<_> = passed_on(variables.into_iter()).map(|(name, _)| name).collect();
        assert_eq!(kept, names[..7]);
    }
}
