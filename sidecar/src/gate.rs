//! The gate of a pod: closed until the operator has seen that the network policy works (DESIGN section 8).
//!
//! Whether it is open is kept in a folder that only the sidecar mounts and that lives as long as the pod, together with
//! the pod's UID: a sidecar that is started again does not wait for an operator that is down, and another pod's mark says
//! nothing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tokio::sync::watch;

use crate::store::{self, StoreError};

/// The mark in the pod's own folder.
const MARK: &str = "gate-open";
/// The file by which `init` learns that it may start the user's command.
pub const OPEN_FILE: &str = "open";

/// Why the gate does not open.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// Another pod is meant.
    #[error("open the gate of pod {asked}: this is another one")]
    OtherPod {
        /// The pod meant.
        asked: String,
    },
    /// The mark cannot be written.
    #[error("mark the gate as open")]
    Mark(#[from] StoreError),
    /// The stale file of a gate that is closed cannot be taken away.
    #[error("remove {path}")]
    Close {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The gate.
#[derive(Debug)]
pub struct Gate {
    pod_uid: String,
    mark: PathBuf,
    open_file: PathBuf,
    open: watch::Sender<bool>,
}

impl Gate {
    /// Returns the gate as it stands: open if this very pod's was, closed otherwise. Blocks.
    pub fn load(pod_uid: &str, pod_state: &Path, agent_dir: &Path) -> Result<Self, GateError> {
        let gate = Self {
            pod_uid: pod_uid.to_owned(),
            mark: pod_state.join(MARK),
            open_file: agent_dir.join(OPEN_FILE),
            open: watch::Sender::new(false),
        };
        if fs::read(&gate.mark).is_ok_and(|mark| mark == pod_uid.as_bytes()) {
            gate.open(pod_uid)?;
            return Ok(gate);
        }
        match fs::remove_file(&gate.open_file) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(GateError::Close { path: gate.open_file.clone(), source })
            }
            _ => Ok(gate),
        }
    }

    /// Opens the gate for good. Opening an open one changes nothing. Blocks.
    pub fn open(&self, pod_uid: &str) -> Result<(), GateError> {
        if pod_uid != self.pod_uid {
            return Err(GateError::OtherPod { asked: crate::text::one_line(pod_uid, 64) });
        }
        if self.is_open() {
            return Ok(());
        }
        store::replace(&self.mark, pod_uid.as_bytes())?;
        store::replace(&self.open_file, b"")?;
        self.open.send_replace(true);
        Ok(())
    }

    /// Says whether it is open.
    pub fn is_open(&self) -> bool {
        *self.open.borrow()
    }

    /// Waits until it is open.
    pub async fn opened(&self) {
        // It cannot fail: the sender lives as long as this does.
        let _ = self.open.subscribe().wait_for(|open| *open).await;
    }

    /// Returns the pod's UID.
    pub fn pod_uid(&self) -> &str {
        &self.pod_uid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_for_its_pod_and_stays_open_for_it() {
        let (pod, agent) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let gate = Gate::load("uid-1", pod.path(), agent.path()).unwrap();
        assert!(!gate.is_open());
        assert!(matches!(gate.open("uid-2"), Err(GateError::OtherPod { .. })));
        assert!(!gate.is_open() && !agent.path().join(OPEN_FILE).exists());
        gate.open("uid-1").unwrap();
        assert!(gate.is_open() && agent.path().join(OPEN_FILE).exists());
        assert!(Gate::load("uid-1", pod.path(), agent.path()).unwrap().is_open());

        // Another pod's leftovers do not open it, and the user's command does not start.
        assert!(!Gate::load("uid-2", pod.path(), agent.path()).unwrap().is_open());
        assert!(!agent.path().join(OPEN_FILE).exists());
    }

    #[test]
    fn without_a_mark_it_is_not_open() {
        let (pod, agent) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let gate = Gate::load("uid-1", &pod.path().join("gone"), agent.path()).unwrap();
        assert!(gate.open("uid-1").is_err());
        assert!(!gate.is_open() && !agent.path().join(OPEN_FILE).exists());
    }
}
