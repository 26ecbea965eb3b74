//! Files that are on the disk, whole, or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FallocateFlags, fallocate};

/// The mode of records and logs: the group is the one that pods share.
const MODE: u32 = 0o660;

/// Numbers the temporary files of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Writes a file durably under a name that is either the old content's or the new one's, whatever happens in between.
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let reserve = Reserve::make(path, content.len() as u64)?;
    reserve.write(content)
}

/// Room on the disk for a file's next content, taken beforehand, so that a full disk cannot swallow it.
#[derive(Debug)]
pub struct Reserve {
    path: PathBuf,
    temporary: PathBuf,
    file: File,
}

impl Reserve {
    /// Takes the room. A file system that cannot promise room gets zeros written.
    pub fn make(path: &Path, len: u64) -> io::Result<Self> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // The process's id keeps the host's demotion and a supervisor's last word apart, the number one file of a process
        // from the next: room that is kept must not be taken away by a write in between.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let temporary = path.with_file_name(format!(".{name}.{}.{number}", std::process::id()));
        // Whatever has this name is left over from a process that is gone.
        let _ = fs::remove_file(&temporary);
        let file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&temporary)?;
        let reserve = Self { path: path.to_owned(), temporary, file };
        if len > 0 && fallocate(&reserve.file, FallocateFlags::empty(), 0, len).is_err() {
            let zeros = vec![0; usize::try_from(len).unwrap_or(0)];
            (&reserve.file).write_all(&zeros)?;
            io::Seek::rewind(&mut &reserve.file)?;
        }
        Ok(reserve)
    }

    /// Puts the content in the file's place.
    pub fn write(self, content: &[u8]) -> io::Result<()> {
        (&self.file).write_all(content)?;
        self.file.set_len(content.len() as u64)?;
        self.file.sync_all()?;
        fs::rename(&self.temporary, &self.path)?;
        // The name itself is durable once the folder is.
        if let Some(folder) = self.path.parent() {
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        // After a success there is nothing of this name any more.
        let _ = fs::remove_file(&self.temporary);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_kept_while_the_file_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        let reserve = Reserve::make(&path, 4096).unwrap();
        write(&path, b"in between").unwrap();
        reserve.write(b"the end").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"the end");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_is_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        write(&path, b"first, and longer").unwrap();
        write(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        drop(Reserve::make(&path, 4096).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
