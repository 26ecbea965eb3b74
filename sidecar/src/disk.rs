//! What is kept back for a full disk: a file of 64 MiB, given up when nothing else is left, so that the trail of what
//! frees space again can still be written.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::store;

/// The file within the state folder.
const FILE: &str = "reserve";
/// What is kept back, in bytes.
pub const RESERVE: u64 = 64 * 1024 * 1024;
/// The piece in which it is written where the file system cannot set space aside.
const PIECE: usize = 1024 * 1024;

/// The reserve.
#[derive(Debug)]
pub struct Disk {
    path: PathBuf,
    size: u64,
    full: AtomicBool,
}

impl Disk {
    /// Returns the reserve of a state folder, not made yet. `size` is [`RESERVE`] but in tests.
    pub fn new(state_dir: &std::path::Path, size: u64) -> Self {
        Self { path: state_dir.join(FILE), size, full: AtomicBool::new(false) }
    }

    /// Says whether the disk is full: then only what reads or frees runs.
    pub fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Makes the reserve where it is not there; without room for it the disk is full. Blocks.
    pub fn prepare(&self) {
        match self.make() {
            Ok(()) => {
                if self.full.swap(false, Ordering::Relaxed) {
                    tracing::info!("there is space on the disk again");
                }
            }
            Err(error) if store::is_full(&error) => self.fill(),
            Err(error) => tracing::warn!(%error, path = %self.path.display(), "no reserve for a full disk"),
        }
    }

    /// The disk is full: gives the reserve up. Blocks.
    pub fn fill(&self) {
        if !self.full.swap(true, Ordering::Relaxed) {
            tracing::error!("the disk is full: only what reads or frees runs");
        }
        if let Err(error) = fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::error!(%error, "the reserve for a full disk cannot be given up");
        }
    }

    fn make(&self) -> io::Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path)?;
        let there = file.metadata()?.len();
        if there >= self.size {
            return Ok(());
        }
        match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, self.size) {
            Ok(()) => return Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(error) => return Err(error.into()),
        }
        let piece = vec![0; PIECE];
        let mut left = usize::try_from(self.size - there).unwrap_or(usize::MAX);
        while left > 0 {
            let now = left.min(PIECE);
            file.write_all(&piece[..now])?;
            left -= now;
        }
        file.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_is_given_up_and_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::new(folder.path(), 1 << 20);
        disk.prepare();
        let path = folder.path().join(FILE);
        assert!(!disk.is_full());
        assert_eq!(fs::metadata(&path).unwrap().len(), 1 << 20);
        disk.fill();
        assert!(disk.is_full() && !path.exists());
        disk.prepare();
        assert!(!disk.is_full() && path.exists());
    }

    #[test]
    fn without_room_it_is_full() {
        let folder = tempfile::tempdir().unwrap();
        // No file system of this machine has that much.
        let disk = Disk::new(folder.path(), 1 << 60);
        let error = disk.make().unwrap_err();
        if store::is_full(&error) {
            disk.prepare();
            assert!(disk.is_full() && !folder.path().join(FILE).exists());
        } else {
            // The largest file comes before the largest disk here: no reserve, yet no full disk either.
            disk.prepare();
            assert!(!disk.is_full());
        }
    }
}
