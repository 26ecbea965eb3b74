//! Small files of the user's own: written whole or not at all, mode 0600, in folders of mode 0700.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// What went wrong with which file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    /// The folder cannot be made.
    #[error("cannot make the folder {}", .path.display())]
    MakeFolder {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file cannot be read.
    #[error("cannot read {}", .path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write {}", .path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is larger than any of its kind.
    #[error("{} is larger than {limit} bytes", .path.display())]
    TooLarge {
        /// Which.
        path: PathBuf,
        /// The bound.
        limit: u64,
    },
}

impl From<FileError> for crate::error::CliError {
    fn from(error: FileError) -> Self {
        Self::failed(error.to_string()).because(error)
    }
}

/// Makes a folder, and those above it, readable by its owner alone.
pub(crate) fn make_private_folder(path: &Path) -> Result<(), FileError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(|source| FileError::MakeFolder { path: path.to_owned(), source })
}

/// Reads a file of at most `limit` bytes; none if there is no such file.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Option<String>, FileError> {
    let failed = |source| FileError::Read { path: path.to_owned(), source };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut text = String::new();
    let read = file.take(limit + 1).read_to_string(&mut text).map_err(failed)?;
    if read as u64 > limit {
        return Err(FileError::TooLarge { path: path.to_owned(), limit });
    }
    Ok(Some(text))
}

/// Writes a file whole: beside its place first, then renamed over it. The mode is 0600.
pub(crate) fn replace(path: &Path, content: &[u8]) -> Result<(), FileError> {
    write_beside(path, content, |temporary| fs::rename(temporary, path))
}

/// Writes a file that must not be there yet. A race is lost cleanly: one writer wins, the other gets `AlreadyExists`.
pub(crate) fn create(path: &Path, content: &[u8]) -> Result<(), FileError> {
    write_beside(path, content, |temporary| {
        let linked = fs::hard_link(temporary, path);
        let _ = fs::remove_file(temporary);
        linked
    })
}

fn write_beside(
    path: &Path,
    content: &[u8],
    place: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<(), FileError> {
    if let Some(folder) = path.parent() {
        make_private_folder(folder)?;
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", uuid::Uuid::new_v4().simple()));
    let temporary = path.with_file_name(name);
    let write = || {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        drop(file);
        place(&temporary)
    };
    write().map_err(|source| {
        let _ = fs::remove_file(&temporary);
        FileError::Write { path: path.to_owned(), source }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_private_and_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/c.json");
        replace(&path, b"one").unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!(read(&path, 10).unwrap().unwrap(), "two");
        assert!(matches!(read(&path, 2), Err(FileError::TooLarge { .. })));
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
        }
    }

    #[test]
    fn what_is_there_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        create(&path, b"one").unwrap();
        let error = create(&path, b"two").unwrap_err();
        let FileError::Write { source, .. } = error else { panic!("{error}") };
        assert_eq!(source.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(read(&path, 10).unwrap().unwrap(), "one");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert_eq!(read(&dir.path().join("none"), 10).unwrap(), None);
    }
}
