//! The record of a run: which processes it consists of, so that they can be ended whoever started them.

use std::path::PathBuf;
use std::time::Duration;

use cuddy_protocol::EnvironmentName;
use serde::{Deserialize, Serialize};

use super::layout::Layout;
use crate::error::CliError;
use crate::files::{self, FileError};
use crate::platform::Process;

/// A record has some 500 bytes.
const MAX_BYTES: u64 = 64 * 1024;

/// Why a record cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// It is no record.
    #[error("{} is no record of a run", .path.display())]
    Form {
        /// Which.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
}

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
    /// Why it ended by itself, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<String>,
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
pub(crate) fn read(layout: &Layout) -> Result<Option<Record>, RecordError> {
    let path = layout.record();
    let Some(text) = files::read(&path, MAX_BYTES)? else { return Ok(None) };
    serde_json::from_str(&text).map(Some).map_err(|source| RecordError::Form { path, source })
}
