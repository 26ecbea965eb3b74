//! The lock of a local environment: whoever supervises it holds it, from before its first process until after its last.
//!
//! It alone says whether an environment is supervised. The record says more, but is a file like any other: it may be
//! missing, old or damaged. The lock is the system's (`flock`), which takes it back however its holder ends. The file is
//! never removed: two programs could then each hold the lock of another file.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Seek, Write};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use super::layout::Layout;
use crate::files::{self, FileError};
use crate::platform::{self, Process};

/// The file holds one process.
const MAX_BYTES: u64 = 4096;
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// A lock that is held, until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    path: PathBuf,
    file: File,
}

impl Lock {
    /// Takes the lock; none if somebody else holds it.
    pub(crate) fn take(layout: &Layout) -> Result<Option<Self>, FileError> {
        files::make_private_folder(layout.root())?;
        let path = layout.lock();
        let failed = |source| FileError::Write { path: path.clone(), source };
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { path, file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    /// Takes the lock as soon as it is free; none if it is not within this time.
    pub(crate) async fn take_within(layout: &Layout, time: Duration) -> Result<Option<Self>, FileError> {
        let taken = async {
            loop {
                if let Some(lock) = Self::take(layout)? {
                    return Ok(lock);
                }
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::time::timeout(time, taken).await.ok().transpose()
    }

    /// Returns the lock that this process got from the one that started it, if it did.
    pub(crate) fn inherited(layout: &Layout) -> Option<Self> {
        let path = layout.lock();
        let file = platform::inherited_file(&path)?;
        // The lock belongs to what was opened and not to whom opened it, so this succeeds for its own copies alone.
        file.try_lock().ok().map(|()| Self { path, file })
    }

    /// Hands the lock to a process that is about to be started, as its standard input: it is never free in between.
    pub(crate) fn into_stdin(self) -> Stdio {
        platform::inheritable_file(self.file)
    }

    /// Writes down that this process holds the lock, for whoever finds it taken.
    pub(crate) fn sign(&mut self) -> Result<(), FileError> {
        let pid = std::process::id();
        let own = Process::find(pid).unwrap_or(Process { pid, started: None });
        let text = serde_json::to_vec(&own).unwrap_or_default();
        let mut write = || {
            self.file.set_len(0)?;
            self.file.rewind()?;
            self.file.write_all(&text)?;
            self.file.sync_data()
        };
        write().map_err(|source| FileError::Write { path: self.path.clone(), source })
    }
}

/// Says whether somebody holds the lock.
pub(crate) fn is_held(layout: &Layout) -> bool {
    // Without the file nobody holds it; looking must make nothing.
    let Ok(file) = File::open(layout.lock()) else { return false };
    // Shared, so that two who look at once do not take each other for the holder.
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// Returns the process that holds the lock; none if nobody does, or it has not signed yet.
pub(crate) fn holder(layout: &Layout) -> Option<Process> {
    if !is_held(layout) {
        return None;
    }
    let text = files::read(&layout.lock(), MAX_BYTES).ok()??;
    // What an earlier holder wrote names a process that is gone.
    serde_json::from_str::<Process>(&text).ok().filter(|process| process.is_alive())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config_dir::ConfigDir;

    fn layout(dir: &std::path::Path) -> Layout {
        let find = |name: &str| (name == crate::env_vars::CONFIG_DIR).then(|| dir.into());
        Layout::new(&ConfigDir::find(find).unwrap(), &"dev".parse().unwrap())
    }

    #[test]
    fn one_holds_it_and_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let layout = layout(dir.path());
        assert!(!is_held(&layout) && holder(&layout).is_none());
        assert!(!layout.root().exists(), "looking makes nothing");
        let mut lock = Lock::take(&layout).unwrap().unwrap();
        assert!(is_held(&layout));
        assert_eq!(holder(&layout), None, "it has not signed");
        lock.sign().unwrap();
        assert_eq!(holder(&layout), Process::find(std::process::id()));
        assert!(Lock::take(&layout).unwrap().is_none());
        assert!(Lock::inherited(&layout).is_none(), "standard input is something else");
        drop(lock);
        assert!(!is_held(&layout));
        assert_eq!(holder(&layout), None, "what is written does not count without the lock");
        assert!(Lock::take(&layout).unwrap().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let layout = layout(dir.path());
        let lock = Lock::take(&layout).unwrap().unwrap();
        assert!(Lock::take_within(&layout, Duration::from_secs(1)).await.unwrap().is_none());
        let later = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            drop(lock);
        };
        let (taken, ()) = tokio::join!(Lock::take_within(&layout, Duration::from_secs(1)), later);
        assert!(taken.unwrap().is_some());
    }
}
