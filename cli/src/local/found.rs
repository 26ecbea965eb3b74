//! What there is of a local environment: its record and its lock, read together.

use std::time::Duration;

use cuddy_protocol::EnvironmentName;

use super::layout::Layout;
use super::lock;
use super::record::{self, Record};
use crate::config_dir::ConfigDir;
use crate::platform::Process;

/// How long a supervisor that starts may take to say who it is.
const SIGN_TIMEOUT: Duration = Duration::from_secs(5);

/// A local environment of which something is left.
#[derive(Debug)]
pub(crate) struct Found {
    /// Its name.
    pub(crate) name: EnvironmentName,
    /// Its record: none if there is none, or it cannot be read.
    pub(crate) record: Option<Record>,
    is_damaged: bool,
    is_held: bool,
}

/// How it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// All of its processes live.
    Running,
    /// It is being started or ended: it is supervised, and has no record.
    Changing,
    /// It is supervised; the sidecar has died and is started again.
    Mending,
    /// It is supervised; its record cannot be read.
    Damaged,
    /// Nobody supervises it, and some of its processes live.
    Broken,
    /// It ended by itself.
    Failed,
    /// Nothing of it lives.
    Ended,
}

impl Standing {
    /// Returns the word for it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Changing => "changing",
            Self::Mending => "mending",
            Self::Damaged => "damaged",
            Self::Broken => "broken",
            Self::Failed => "failed",
            Self::Ended => "ended",
        }
    }
}

impl Found {
    /// Returns what there is of one environment; none if it has neither record nor supervisor.
    pub(crate) fn one(dir: &ConfigDir, name: &EnvironmentName) -> Option<Self> {
        let layout = Layout::new(dir, name);
        // The lock first: an environment that ends in between is then told as one that ends, and not as damaged.
        let is_held = lock::is_held(&layout);
        let read = record::read(&layout);
        let is_damaged = read.is_err();
        let record = read.unwrap_or_default();
        (record.is_some() || is_damaged || is_held).then(|| Self {
            name: name.clone(),
            record,
            is_damaged,
            is_held,
        })
    }

    /// Returns what there is of every environment, by name.
    pub(crate) fn all(dir: &ConfigDir) -> Vec<Self> {
        let folders = std::fs::read_dir(dir.local()).into_iter().flatten().filter_map(Result::ok);
        let names = folders.filter_map(|f| f.file_name().to_str()?.parse::<EnvironmentName>().ok());
        let mut found: Vec<Self> = names.filter_map(|name| Self::one(dir, &name)).collect();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found
    }

    /// Says how it stands.
    pub(crate) fn standing(&self) -> Standing {
        match &self.record {
            None if self.is_held && self.is_damaged => Standing::Damaged,
            None if self.is_held => Standing::Changing,
            Some(record) if self.is_held && record.is_up() => Standing::Running,
            // A record of a run whose supervisor is not the one that holds the lock is an old one.
            Some(record) if self.is_held && !record.supervisor.is_alive() => Standing::Changing,
            Some(record) if self.is_held && record.host.is_alive() => Standing::Mending,
            Some(record) if record.is_left() => Standing::Broken,
            Some(record) if record.failure.is_some() => Standing::Failed,
            None | Some(_) => Standing::Ended,
        }
    }

    /// Says whether any of its processes live.
    pub(crate) fn is_left(&self) -> bool {
        !matches!(self.standing(), Standing::Failed | Standing::Ended)
    }

    /// Returns the process that supervises it, once it has said so.
    pub(crate) async fn supervisor(&self, dir: &ConfigDir) -> Option<Process> {
        let layout = Layout::new(dir, &self.name);
        let signed = async {
            while lock::is_held(&layout) {
                if let Some(process) = lock::holder(&layout) {
                    return Some(process);
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            None
        };
        tokio::time::timeout(SIGN_TIMEOUT, signed).await.ok().flatten()
    }
}
