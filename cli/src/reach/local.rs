//! The local end that a state file names: `cuddy open` or `cuddy local up` holds it.
//!
//! A bearer is sent there, so it is made sure first that the port is held by the very process that the file names, and
//! then that a real request is answered: a dead forward still accepts connections.

use std::net::Ipv4Addr;
use std::time::Duration;

use cuddy_edge::client;
use cuddy_protocol::state_file::StateFile;
use secrecy::SecretString;
use serde_json::json;
use tokio::net::TcpStream;

use super::ReachError;
use crate::config_dir::ConfigDir;
use crate::error::CliError;
use crate::mcp_client::{self, Answer, Post};
use crate::platform;
use crate::state;
use crate::target::Target;

/// How long a local end may take to answer a ping, the pod's network included.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the state file that speaks of this environment, if there is one and its process holds the port.
pub(crate) fn find(dir: &ConfigDir, target: &Target) -> Result<Option<StateFile>, CliError> {
    let state = match state::read(dir, &target.scope) {
        Ok(Some(state)) => state,
        Ok(None) => return Ok(None),
        Err(error) if target.place.is_some() => {
            tracing::warn!(%error, "a state file that cannot be used");
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    if !speaks_of(&state, target) {
        return Ok(None);
    }
    if let Err(message) = is_held_by_its_process(&state) {
        return Err(dead(state.local_port, message));
    }
    Ok(Some(state))
}

/// Says whether a state file is about this environment of this cluster.
fn speaks_of(state: &StateFile, target: &Target) -> bool {
    if state.scheme != "http" {
        return false;
    }
    match (&target.place, state.kubernetes_context.is_empty()) {
        (Some(place), false) => {
            state.kubernetes_context == place.context && state.namespace == place.namespace
        }
        (_, true) => !target.in_cluster,
        (None, false) => true,
    }
}

fn is_held_by_its_process(state: &StateFile) -> Result<(), String> {
    let (Some(pid), true) = (state.process_id, platform::knows_holders()) else { return Ok(()) };
    match platform::holder(state.local_port) {
        Some(holder) if holder.pid == Some(pid) => Ok(()),
        Some(holder) => Err(format!(
            "port {} is held by {}, and not by the process that opened it",
            state.local_port,
            holder.name.unwrap_or_else(|| "another process".to_owned())
        )),
        None => Err("nobody listens there any more".to_owned()),
    }
}

/// Why a local end does not serve.
#[derive(Debug)]
pub(crate) enum ProbeError {
    /// Nobody answers.
    Dead(CliError),
    /// Somebody answers, and says no.
    Refused(CliError),
}

impl From<ProbeError> for CliError {
    fn from(error: ProbeError) -> Self {
        match error {
            ProbeError::Dead(error) | ProbeError::Refused(error) => error,
        }
    }
}

/// Asks the local end with a bearer, and returns an error unless an environment answers.
pub(crate) async fn probe(state: &StateFile, bearer: &SecretString) -> Result<(), ProbeError> {
    let dead = |message: String| ProbeError::Dead(dead(state.local_port, message));
    let ping = json!({ "jsonrpc": "2.0", "id": uuid::Uuid::new_v4().to_string(), "method": "ping" });
    let authority = authority(state.local_port);
    let asked = async {
        let mut connection = connect(state.local_port).await.map_err(ProbeError::Dead)?;
        let post = Post { authority: &authority, bearer, message: &ping };
        mcp_client::post(&mut connection, post, &mut |_| {}).await.map_err(|e| dead(e.to_string()))
    };
    match tokio::time::timeout(PROBE_TIMEOUT, asked).await {
        Err(_) => Err(dead(format!("no answer within {} s", PROBE_TIMEOUT.as_secs()))),
        Ok(Err(error)) => Err(error),
        Ok(Ok(Answer::Refused(refusal))) => Err(ProbeError::Refused(CliError::from(&refusal))),
        Ok(Ok(_)) => Ok(()),
    }
}

fn dead(port: u16, message: String) -> CliError {
    let cause = std::io::Error::other(message.clone());
    CliError::from(ReachError::LocalEnd { port, message }).because(cause)
}

/// Connects to a local end.
pub(crate) async fn connect(port: u16) -> Result<client::Connection, CliError> {
    let stream =
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.map_err(|e| dead(port, e.to_string()))?;
    let _ = stream.set_nodelay(true);
    client::handshake(stream).await.map_err(|e| dead(port, e.to_string()))
}

/// Returns the `Host` of a local end.
pub(crate) fn authority(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

#[cfg(test)]
mod tests {
    use crate::cluster::Place;
    use crate::target;

    use super::*;

    fn state(context: &str, process: Option<u32>, port: u16) -> StateFile {
        StateFile {
            tenant: "acme".into(),
            environment: "dev".into(),
            kubernetes_context: context.into(),
            namespace: "acme".into(),
            local_port: port,
            scheme: "http".into(),
            log_path: None,
            process_id: process,
        }
    }

    fn target(context: Option<&str>, in_cluster: bool) -> Target {
        Target {
            scope: target::scope("acme", "dev").unwrap(),
            place: context.map(|c| Place { context: c.into(), namespace: "acme".into() }),
            in_cluster,
        }
    }

    #[test]
    fn a_forward_to_another_cluster_is_not_used() {
        assert!(speaks_of(&state("kind", None, 1), &target(Some("kind"), false)));
        assert!(!speaks_of(&state("kind", None, 1), &target(Some("prod"), false)));
        assert!(speaks_of(&state("", None, 1), &target(Some("kind"), false)));
        assert!(!speaks_of(&state("", None, 1), &target(Some("kind"), true)));
        assert!(speaks_of(&state("kind", None, 1), &target(None, false)));
        let other = StateFile { scheme: "https".into(), ..state("kind", None, 1) };
        assert!(!speaks_of(&other, &target(Some("kind"), false)));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_port_that_somebody_else_took_over_gets_no_bearer() {
        let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = held.local_addr().unwrap().port();
        assert!(is_held_by_its_process(&state("", Some(std::process::id()), port)).is_ok());
        let error = is_held_by_its_process(&state("", Some(1), port)).unwrap_err();
        assert!(error.contains("not by the process that opened it"), "{error}");
        drop(held);
        assert!(is_held_by_its_process(&state("", Some(std::process::id()), port)).is_err());
    }
}
