//! Which port of this machine an environment gets: ranges of 100, the first from 17000 (D8).

use std::net::{Ipv4Addr, TcpListener};

use cuddy_protocol::Scope;

use crate::config_dir::ConfigDir;
use crate::error::CliError;
use crate::platform;
use crate::state;

const FIRST: u16 = 17000;
const STEP: usize = 100;

/// Binds the port that was asked for, or the environment's own range, or the first range that is nobody's.
pub(crate) fn bind(dir: &ConfigDir, scope: &Scope, asked: Option<u16>) -> Result<TcpListener, CliError> {
    if let Some(port) = asked {
        return listen(port).map_err(|error| taken(port, error));
    }
    let states = state::all(dir);
    let own = states
        .iter()
        .find(|s| s.tenant == scope.tenant.as_str() && s.environment == scope.environment.as_str());
    if let Some(own) = own {
        // Clients were told this port: another one is taken only by whoever asks for it.
        return listen(own.local_port).map_err(|error| taken(own.local_port, error));
    }
    let used: Vec<u16> = states.iter().map(|s| base(s.local_port)).collect();
    (FIRST..=u16::MAX - 100)
        .step_by(STEP)
        .filter(|port| !used.contains(port))
        .find_map(|port| listen(port).ok())
        .ok_or_else(|| CliError::failed("every local port range is in use").hint("choose a port with --port"))
}

/// Returns the error that names who holds a port.
pub(crate) fn taken(port: u16, error: std::io::Error) -> CliError {
    let holder = match platform::holder(port) {
        Some(platform::Holder { pid: Some(pid), name }) => {
            format!("port {port} is held by {} (pid {pid})", name.unwrap_or_else(|| "a process".to_owned()))
        }
        Some(_) => format!("port {port} is held by a process of another user"),
        None => format!("port {port} cannot be bound"),
    };
    CliError::refused(holder).because(error).hint("end that program, or choose another port with --port")
}

fn listen(port: u16) -> std::io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
}

/// Returns the start of the range that a port is in.
const fn base(port: u16) -> u16 {
    port - port % 100
}

#[cfg(test)]
mod tests {
    use cuddy_protocol::state_file::StateFile;

    use super::*;

    #[test]
    fn a_foreign_holder_is_named() {
        let held = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = held.local_addr().unwrap().port();
        let error = taken(port, listen(port).unwrap_err());
        if platform::knows_holders() {
            assert!(error.message.contains(&format!("pid {}", std::process::id())), "{error}");
        }
        assert_eq!(error.kind.exit_code(), 3);
    }

    #[test]
    fn ranges_in_use_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let config =
            ConfigDir::find(|n| (n == crate::env_vars::CONFIG_DIR).then(|| dir.path().into())).unwrap();
        let scope = |name: &str| Scope { tenant: "t".parse().unwrap(), environment: name.parse().unwrap() };
        let write = |name: &str, local_port| {
            let state = StateFile {
                tenant: "t".into(),
                environment: name.into(),
                kubernetes_context: String::new(),
                namespace: String::new(),
                local_port,
                scheme: "http".into(),
                log_path: None,
                process_id: None,
            };
            state::write(&config, &scope(name), &state).unwrap();
        };
        write("one", 17042);
        let port = bind(&config, &scope("two"), None).unwrap().local_addr().unwrap().port();
        assert!(port >= 17100 && port.is_multiple_of(100), "{port}");
    }
}
