//! What tells one process from every other one, in this container and in those before it.

use std::fs;
use std::os::unix::fs::MetadataExt;

use serde::{Deserialize, Serialize};

use super::Process;

/// A process within one boot: the pid alone is used again sooner or later, with the start time it is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The process id.
    pub pid: i32,
    /// Clock ticks since boot.
    pub start: u64,
}

impl Identity {
    /// Returns the identity of a live process.
    pub fn of(pid: i32) -> Option<Self> {
        Process::read(pid).filter(|p| !p.dead).map(|p| Self { pid, start: p.start })
    }

    /// Says whether this very process lives.
    pub fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }
}

/// Where pids are counted: one start of one container on one boot of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The kernel's boot id.
    pub boot_id: String,
    /// The pid namespace and the start of its first process: both change with each start of a container.
    pub container: String,
    /// The pod's name, for people.
    pub hostname: String,
}

impl Place {
    /// Returns the place of this process. What cannot be read is told by a word that no other place has in common with a
    /// readable one.
    pub fn here() -> Self {
        let namespace = fs::metadata("/proc/self/ns/pid").map_or(0, |m| m.ino());
        let first = Process::read(1).map_or(0, |p| p.start);
        Self {
            boot_id: boot_id(),
            container: format!("{namespace}-{first}"),
            hostname: fs::read_to_string("/proc/sys/kernel/hostname")
                .map_or_else(|_| "unknown".to_owned(), |name| name.trim().to_owned()),
        }
    }

    /// Says whether pids of the other place mean the same here.
    pub fn is_same(&self, other: &Self) -> bool {
        self.boot_id == other.boot_id && self.container == other.container
    }
}

/// Returns the kernel's boot id.
pub fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map_or_else(|_| "unknown".to_owned(), |id| id.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reused_pid_is_another_process() {
        let own = Identity::of(std::process::id() as i32).unwrap();
        assert!(own.is_alive());
        assert!(!Identity { start: own.start + 1, ..own }.is_alive());
    }

    #[test]
    fn a_place_is_the_same_until_the_container_restarts() {
        let here = Place::here();
        assert!(here.is_same(&Place::here()));
        assert!(!here.is_same(&Place { container: "1-1".to_owned(), ..here.clone() }));
        assert!(!here.is_same(&Place { boot_id: "other".to_owned(), ..here.clone() }));
    }
}
