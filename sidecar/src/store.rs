//! Small versioned files in the state folder, replaced as a whole: after a crash there is the old content or the new one.
//!
//! Everything here blocks; callers on the runtime use its blocking thread.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::clock::Moment;

/// The largest file that is read, in bytes. The largest that is written (256 leases) has a tenth of it.
const MAX_FILE: u64 = 4 * 1024 * 1024;

/// Why a file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Reading failed.
    #[error("read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Writing failed.
    #[error("write {path}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The content cannot be written as JSON.
    #[error("encode {path}")]
    Encode {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
}

impl StoreError {
    /// Says whether the file system is full.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Read { source, .. } | Self::Write { source, .. } => is_full(source),
            Self::Encode { .. } => false,
        }
    }
}

/// Says whether an error means that no space is left.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// What a file holds.
#[derive(Debug, PartialEq, Eq)]
pub enum Loaded<T> {
    /// There is none.
    Absent,
    /// The content.
    Good(T),
    /// It cannot be understood. It is left as it is.
    Damaged {
        /// When it was last written.
        modified: Moment,
    },
    /// A later version of the program wrote it. It is left as it is.
    Newer {
        /// Its version.
        version: u32,
    },
}

#[derive(Serialize)]
struct Out<'a, T> {
    version: u32,
    content: &'a T,
}

#[derive(Deserialize)]
struct Version {
    version: u32,
}

#[derive(Deserialize)]
struct In<T> {
    content: T,
}

/// One file.
#[derive(Debug, Clone)]
pub struct Store {
    path: PathBuf,
    version: u32,
}

impl Store {
    /// Returns the store of a file that this build writes in `version`.
    pub fn new(path: PathBuf, version: u32) -> Self {
        Self { path, version }
    }

    /// Returns the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file.
    pub fn load<T: DeserializeOwned>(&self) -> Result<Loaded<T>, StoreError> {
        let read = |source| StoreError::Read { path: self.path.clone(), source };
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Loaded::Absent),
            Err(error) => return Err(read(error)),
        };
        let modified = file.metadata().and_then(|m| m.modified()).map_err(read)?;
        let mut bytes = Vec::new();
        file.take(MAX_FILE).read_to_end(&mut bytes).map_err(read)?;
        match serde_json::from_slice::<Version>(&bytes) {
            Ok(Version { version }) if version > self.version => return Ok(Loaded::Newer { version }),
            _ => {}
        }
        match serde_json::from_slice::<In<T>>(&bytes) {
            Ok(file) => Ok(Loaded::Good(file.content)),
            Err(_) => Ok(Loaded::Damaged { modified: moment(modified) }),
        }
    }

    /// Replaces the file; durable when it returns.
    pub fn save<T: Serialize>(&self, content: &T) -> Result<(), StoreError> {
        let bytes = serde_json::to_vec(&Out { version: self.version, content })
            .map_err(|source| StoreError::Encode { path: self.path.clone(), source })?;
        replace(&self.path, &bytes)
    }

    /// Moves the file out of the way, under a name that tells when, and returns that name.
    pub fn set_aside(&self, now: Moment) -> Result<PathBuf, StoreError> {
        let mut name = self.path.as_os_str().to_owned();
        name.push(format!(".damaged-{}", now.as_millis()));
        let aside = PathBuf::from(name);
        fs::rename(&self.path, &aside)
            .map_err(|source| StoreError::Write { path: self.path.clone(), source })?;
        Ok(aside)
    }
}

/// Replaces a file as a whole; durable when it returns.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let write = |source| StoreError::Write { path: path.to_owned(), source };
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    let temporary = PathBuf::from(name);
    let mut file = File::create(&temporary).map_err(write)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(write)?;
    fs::rename(&temporary, path).map_err(write)?;
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(write)
}

fn moment(time: SystemTime) -> Moment {
    let millis = time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_millis());
    Moment::from_millis(i64::try_from(millis).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_survives() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path().join("a.json"), 2);
        assert_eq!(store.load::<Vec<u32>>().unwrap(), Loaded::Absent);
        store.save(&vec![1, 2]).unwrap();
        store.save(&vec![3]).unwrap();
        assert_eq!(store.load::<Vec<u32>>().unwrap(), Loaded::Good(vec![3]));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn what_cannot_be_understood_is_neither_empty_nor_touched() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path().join("a.json"), 1);
        for text in ["", "{", "[]", "{\"version\":1}", "{\"version\":1,\"content\":\"x\"}", "\0\0\0\0"] {
            fs::write(store.path(), text).unwrap();
            assert!(matches!(store.load::<Vec<u32>>().unwrap(), Loaded::Damaged { .. }), "{text}");
            assert_eq!(fs::read_to_string(store.path()).unwrap(), text);
        }
        fs::write(store.path(), "{\"version\":9,\"content\":{\"a\":1}}").unwrap();
        assert_eq!(store.load::<Vec<u32>>().unwrap(), Loaded::Newer { version: 9 });
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        let store = Store::new("/nowhere/at/all/a.json".into(), 1);
        assert!(store.save(&1).unwrap_err().to_string().contains("/nowhere/at/all/a.json"));
    }
}
