//! The record of a run: which processes it consists of, so that they can be ended whoever started them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cuddy_protocol::EnvironmentName;
use serde::{Deserialize, Serialize};

use super::layout::Layout;
use crate::config_dir::ConfigDir;
use crate::error::CliError;
use crate::files;
use crate::platform::Process;

/// A record has some 500 bytes.
const MAX_BYTES: u64 = 64 * 1024;

/// One run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    /// The environment.
    pub(crate) name: EnvironmentName,
    /// The workspace.
    pub(crate) workspace: PathBuf,
    /// The port on 127.0.0.1.
    pub(crate) port: u16,
    /// Where its sockets are.
    pub(crate) sockets: PathBuf,
    /// When it was started, RFC 3339.
    pub(crate) started_at: String,
    /// The process that watches the others.
    pub(crate) supervisor: Process,
    /// The sidecar.
    pub(crate) sidecar: Process,
    /// The host's `init`.
    pub(crate) host: Process,
}

impl Record {
    /// Writes the record.
    pub(crate) fn write(&self, layout: &Layout) -> Result<(), CliError> {
        let text = serde_json::to_vec_pretty(self)
            .map_err(|e| CliError::failed("the record of the run cannot be written").because(e))?;
        Ok(files::replace(&layout.record(), &text)?)
    }

    /// Says whether the environment is up: both of its processes live.
    pub(crate) fn is_up(&self) -> bool {
        self.sidecar.is_alive() && self.host.is_alive()
    }

    /// Says whether anything of the run is left.
    pub(crate) fn is_left(&self) -> bool {
        [self.supervisor, self.sidecar, self.host].iter().any(|process| process.is_alive())
    }

    /// Ends what is left of the run: the supervisor first, which ends the others by itself.
    pub(crate) async fn end(&self) -> bool {
        // The supervisor gives the host 10 s to end its jobs.
        let mut gone = self.supervisor.end(Duration::from_secs(20)).await;
        for process in [self.host, self.sidecar] {
            gone &= process.end(Duration::from_secs(10)).await;
        }
        gone
    }
}

/// Returns the record of an environment's run, if there is one.
pub(crate) fn read(layout: &Layout) -> Option<Record> {
    read_at(&layout.record())
}

/// Returns every record there is, by name.
pub(crate) fn all(dir: &ConfigDir) -> Vec<Record> {
    let folders = std::fs::read_dir(dir.local()).into_iter().flatten().filter_map(Result::ok);
    let mut records: Vec<Record> = folders.filter_map(|f| read_at(&f.path().join("run.json"))).collect();
    records.sort_by(|a, b| a.name.cmp(&b.name));
    records
}

fn read_at(path: &Path) -> Option<Record> {
    let text = files::read(path, MAX_BYTES).ok()??;
    serde_json::from_str(&text)
        .inspect_err(
            |error| tracing::warn!(path = %path.display(), %error, "a record of a run that cannot be read"),
        )
        .ok()
}
