//! The gate: a file that the sidecar writes, in a folder that nobody here can write to.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

/// The file.
const OPEN: &str = "open";
/// How often it is looked for where the folder is watched: a watch can miss what happened before it.
const LOOK_WATCHED: Duration = Duration::from_secs(1);
/// How often it is looked for where the folder cannot be watched.
const LOOK: Duration = Duration::from_millis(100);

/// A look-out for the gate.
#[derive(Debug)]
pub(super) struct Gate {
    file: PathBuf,
    watch: Option<OwnedFd>,
}

impl Gate {
    /// Starts to watch.
    pub(super) fn watch(folder: &Path) -> Self {
        let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok().filter(|watch| {
            inotify::add_watch(watch, folder, WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR)
                .is_ok()
        });
        Self { file: folder.join(OPEN), watch }
    }

    /// Looks.
    pub(super) fn is_open(&mut self) -> bool {
        if let Some(watch) = &self.watch {
            // What the events say does not matter, but they must be taken out or the next poll would not wait.
            let mut events = [0_u8; 4096];
            while rustix::io::read(watch, &mut events).is_ok_and(|len| len > 0) {}
        }
        self.file.exists()
    }

    /// Returns what to poll.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().map(AsFd::as_fd)
    }

    /// Returns how long to wait at most.
    pub(super) fn look_again(&self) -> Duration {
        if self.watch.is_some() { LOOK_WATCHED } else { LOOK }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    #[test]
    fn the_watch_wakes_for_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut gate = Gate::watch(dir.path());
        assert!(!gate.is_open());
        fs::write(dir.path().join("new"), "").unwrap();
        fs::rename(dir.path().join("new"), dir.path().join(OPEN)).unwrap();
        let mut fds = [PollFd::from_borrowed_fd(gate.fd().unwrap(), PollFlags::IN)];
        let timeout = Timespec { tv_sec: 10, tv_nsec: 0 };
        assert_eq!(poll(&mut fds, Some(&timeout)).unwrap(), 1);
        assert!(gate.is_open());
    }

    #[test]
    fn a_folder_that_is_missing_is_looked_for() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("later");
        let mut gate = Gate::watch(&folder);
        assert!(gate.fd().is_none() && !gate.is_open());
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join(OPEN), "").unwrap();
        assert!(gate.is_open());
    }
}
