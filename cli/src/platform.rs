//! What differs between operating systems: processes, ports, signals. Tested on Linux; elsewhere kept compiling, and
//! what cannot be told there is "unknown", never guessed (D28).

use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as os;
#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
use other as os;

/// A process that cannot be confused with a later one of the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Process {
    /// The process's number.
    pub(crate) pid: u32,
    /// When it was started, in the system's ticks since boot; none where the system does not tell.
    pub(crate) started: Option<u64>,
}

/// Who listens on a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holder {
    /// The process, if this user may see it.
    pub(crate) pid: Option<u32>,
    /// Its name.
    pub(crate) name: Option<String>,
}

impl Process {
    /// Returns the process of this number, if it lives.
    pub(crate) fn find(pid: u32) -> Option<Self> {
        os::is_alive(pid).then(|| Self { pid, started: os::started(pid) })
    }

    /// Says whether this very process still lives.
    pub(crate) fn is_alive(self) -> bool {
        os::is_alive(self.pid) && (self.started.is_none() || os::started(self.pid) == self.started)
    }

    /// Asks the process to end, and ends it when it has not done so in time. Returns whether it is gone.
    pub(crate) async fn end(self, grace: Duration) -> bool {
        if !os::signal(self, os::Signal::Terminate) {
            return true;
        }
        if self.gone_within(grace).await {
            return true;
        }
        os::signal(self, os::Signal::Kill);
        self.gone_within(Duration::from_secs(5)).await
    }

    async fn gone_within(self, time: Duration) -> bool {
        let gone = async {
            // The process need not be a child of ours, so it cannot be waited for: it is looked at.
            while self.is_alive() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(time, gone).await.is_ok()
    }
}

/// Returns who listens on a TCP port of this machine; none if nobody does, or the system does not tell.
pub(crate) fn holder(port: u16) -> Option<Holder> {
    os::holder(port)
}

/// Says whether the system tells who listens on a port.
pub(crate) const fn knows_holders() -> bool {
    os::KNOWS_HOLDERS
}

/// Leaves the terminal behind: a session of its own.
pub(crate) fn new_session() {
    os::new_session();
}

/// Returns this process's standard input as a file, if it is the file at this path.
pub(crate) fn inherited_file(path: &Path) -> Option<File> {
    os::inherited_file(path)
}

/// Returns what makes a file the standard input of a process, where that hands over its lock, too; nothing elsewhere.
pub(crate) fn inheritable_file(file: File) -> Stdio {
    os::inheritable_file(file)
}

/// Says whether nobody reads standard output any more.
pub(crate) fn stdout_is_closed() -> bool {
    os::stdout_is_closed()
}
