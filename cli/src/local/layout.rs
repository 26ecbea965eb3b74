//! Where a local environment keeps what.

use std::path::{Path, PathBuf};

use cuddy_protocol::{EnvironmentName, places};

use crate::config_dir::ConfigDir;
use crate::error::CliError;
use crate::files;
use crate::local::record::Record;

/// The longest path of a socket: `sun_path` has 108 bytes on Linux and 104 on macOS, the final zero included.
const MAX_SOCKET_PATH: usize = 103;

/// The folders of one environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    /// All of it but the sockets.
    root: PathBuf,
    /// The sockets; elsewhere if the root's path is too long for them.
    sockets: PathBuf,
}

impl Layout {
    /// Returns the layout of an environment.
    pub(crate) fn new(dir: &ConfigDir, name: &EnvironmentName) -> Self {
        let root = dir.local().join(name.as_str());
        let sockets = root.join("run");
        let longest = sockets.join("agent").join(places::AGENT_SOCKET);
        let sockets = if longest.as_os_str().len() <= MAX_SOCKET_PATH {
            sockets
        } else {
            // Not guessable, since others may write to the folder above; the record says where it was.
            std::env::temp_dir().join(format!("cuddy-{}", uuid::Uuid::new_v4().simple()))
        };
        Self { root, sockets }
    }

    /// Returns the layout of a run that was recorded.
    pub(crate) fn of_run(dir: &ConfigDir, record: &Record) -> Self {
        Self { sockets: record.sockets.clone(), ..Self::new(dir, &record.name) }
    }

    /// Makes the folders, readable by their owner alone.
    pub(crate) fn make(&self) -> Result<(), CliError> {
        for folder in [
            self.anchor(),
            self.state(),
            self.pod_state(),
            self.host_sockets(),
            self.agent_sockets(),
            self.beats(),
        ] {
            files::make_private_folder(&folder)?;
        }
        // What the sidecar writes for one pod must not be taken for the next one's.
        for stale in [self.agent_sockets().join("open"), self.agent_sockets().join(places::AGENT_SOCKET)] {
            let _ = std::fs::remove_file(stale);
        }
        Ok(())
    }

    /// Removes what does not outlive a run.
    pub(crate) fn clean(&self) {
        let _ = std::fs::remove_dir_all(&self.sockets);
        let _ = std::fs::remove_dir_all(self.pod_state());
        let _ = std::fs::remove_dir_all(self.anchor());
    }

    /// Returns the folder of the anchor.
    pub(crate) fn anchor(&self) -> PathBuf {
        self.root.join("anchor")
    }

    /// Returns the folder of the sidecar's own state, which outlives a run.
    pub(crate) fn state(&self) -> PathBuf {
        self.root.join("state")
    }

    /// Returns the folder of the sidecar's state of one run.
    pub(crate) fn pod_state(&self) -> PathBuf {
        self.root.join("pod")
    }

    /// Returns the folder of all sockets.
    pub(crate) fn sockets(&self) -> &Path {
        &self.sockets
    }

    /// Returns the folder of the host's socket.
    pub(crate) fn host_sockets(&self) -> PathBuf {
        self.sockets.join("host")
    }

    /// Returns the folder of the agent's socket.
    pub(crate) fn agent_sockets(&self) -> PathBuf {
        self.sockets.join("agent")
    }

    /// Returns the folder of the beats of jobs.
    pub(crate) fn beats(&self) -> PathBuf {
        self.sockets.join("beats")
    }

    /// Returns the log of one of the programs.
    pub(crate) fn log(&self, program: &str) -> PathBuf {
        self.root.join(format!("{program}.log"))
    }

    /// Returns the record of the run.
    pub(crate) fn record(&self) -> PathBuf {
        self.root.join("run.json")
    }

    /// Returns the lock of whoever supervises the environment.
    pub(crate) fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }

    /// Returns the root.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_path_does_not_hinder_the_sockets() {
        let name: EnvironmentName = "dev".parse().unwrap();
        let at = |path: String| {
            ConfigDir::find(|n| (n == crate::env_vars::CONFIG_DIR).then(|| path.clone().into())).unwrap()
        };
        let short = Layout::new(&at("/c".into()), &name);
        assert_eq!(short.host_sockets(), Path::new("/c/local/dev/run/host"));
        let long = Layout::new(&at(format!("/{}", "x".repeat(120))), &name);
        assert!(long.agent_sockets().join(places::AGENT_SOCKET).as_os_str().len() <= MAX_SOCKET_PATH);
        assert!(long.state().starts_with(long.root()));
    }
}
