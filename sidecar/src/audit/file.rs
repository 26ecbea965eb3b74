//! The trail's files: the present one and three older ones, 64 MiB each.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The largest file, in bytes.
pub(super) const MAX_FILE: u64 = 64 * 1024 * 1024;
/// How many files there are.
const FILES: usize = 4;

/// The file that is written.
#[derive(Debug)]
pub(super) struct TrailFile {
    path: PathBuf,
    file: File,
    size: u64,
    max: u64,
}

impl TrailFile {
    pub(super) fn open(path: PathBuf, max: u64) -> io::Result<Self> {
        let file = append(&path)?;
        let size = file.metadata()?.len();
        Ok(Self { path, file, size, max })
    }

    /// Appends whole lines, in a new file where they do not fit into this one. What fails leaves no part of a line.
    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.size > 0 && self.size + lines.len() as u64 > self.max {
            self.rotate()?;
        }
        if let Err(error) = self.file.write_all(lines) {
            // Where even this fails, a torn line stays behind; the reason why the first write failed matters more.
            let _ = self.file.set_len(self.size);
            return Err(error);
        }
        self.size += lines.len() as u64;
        Ok(())
    }

    /// Makes what was appended durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.sync()?;
        for n in (1..FILES).rev() {
            let from = if n == 1 { self.path.clone() } else { numbered(&self.path, n - 1) };
            match fs::rename(from, numbered(&self.path, n)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.file = append(&self.path)?;
        self.size = 0;
        Ok(())
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

fn numbered(path: &Path, n: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{n}"));
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_rotate_and_the_oldest_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let mut trail = TrailFile::open(path.clone(), 20).unwrap();
        for n in 0..12 {
            trail.append(format!("line {n:02}\n").as_bytes()).unwrap();
        }
        drop(trail);
        let mut trail = TrailFile::open(path.clone(), 20).unwrap();
        trail.append(b"line 12\n").unwrap();
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        assert_eq!(read(&path), "line 12\n");
        assert_eq!(read(&numbered(&path, 1)), "line 10\nline 11\n");
        assert_eq!(read(&numbered(&path, 3)), "line 06\nline 07\n");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), FILES);
    }
}
