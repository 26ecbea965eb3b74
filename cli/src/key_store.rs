//! The desktop identity: the key pair that bearers are signed with (D8).
//!
//! The public key is always computed from the private one; the file beside it is for people and other programs, and is
//! mended when it says something else.

use std::io;
use std::path::{Path, PathBuf};

use cuddy_edge::keys::{self, KeyError};
use ed25519_dalek::SigningKey;
use secrecy::{ExposeSecret, SecretString};

use crate::config_dir::ConfigDir;
use crate::error::CliError;
use crate::files::{self, FileError};

const PRIVATE_FILE: &str = "desktopid.key";
const PUBLIC_FILE: &str = "desktopid.pub";
/// A PEM of an Ed25519 key has some 120 bytes.
const MAX_BYTES: u64 = 16 * 1024;

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyStoreError {
    /// There is none.
    #[error("there is no key at {}", .0.display())]
    Missing(PathBuf),
    /// There is one already.
    #[error("there is a key already at {}", .0.display())]
    Exists(PathBuf),
    /// It is none, or cannot be made.
    #[error("the key at {} cannot be used", .path.display())]
    Key {
        /// Which.
        path: PathBuf,
        /// Why.
        source: KeyError,
    },
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

impl From<KeyStoreError> for CliError {
    fn from(error: KeyStoreError) -> Self {
        match &error {
            KeyStoreError::Missing(_) => Self::failed(error.to_string())
                .hint("make one with `cuddy key create`; nothing else makes keys behind your back"),
            KeyStoreError::Exists(_) => {
                Self::refused(error.to_string()).hint("show it with `cuddy key show`").hint(
                    "`--force` replaces it: whatever trusts the old key alone can then no longer be reached",
                )
            }
            _ => Self::failed(error.to_string()).because(error),
        }
    }
}

/// Where the key pair is.
#[derive(Debug, Clone)]
pub(crate) struct KeyStore {
    private: PathBuf,
    public: PathBuf,
}

impl KeyStore {
    /// Returns the store in the user's configuration, or at another private key's place.
    pub(crate) fn at(dir: &ConfigDir, key: Option<&Path>) -> Self {
        match key {
            Some(path) => Self { private: path.to_owned(), public: path.with_extension("pub") },
            None => {
                Self { private: dir.identity().join(PRIVATE_FILE), public: dir.identity().join(PUBLIC_FILE) }
            }
        }
    }

    /// Returns the path of the private key.
    pub(crate) fn private_path(&self) -> &Path {
        &self.private
    }

    /// Returns the path of the public key.
    pub(crate) fn public_path(&self) -> &Path {
        &self.public
    }

    /// Returns the key.
    pub(crate) fn load(&self) -> Result<SigningKey, KeyStoreError> {
        let pem = files::read(&self.private, MAX_BYTES)?
            .map(SecretString::from)
            .ok_or_else(|| KeyStoreError::Missing(self.private.clone()))?;
        keys::private_from_pem(&pem).map_err(|source| self.broken(source))
    }

    /// Makes a key. One that is there is kept unless `replace` says otherwise.
    pub(crate) fn create(&self, replace: bool) -> Result<SigningKey, KeyStoreError> {
        let key = keys::generate().map_err(|source| self.broken(source))?;
        let pem = keys::private_to_pem(&key).map_err(|source| self.broken(source))?;
        let content = pem.expose_secret().as_bytes();
        if replace {
            files::replace(&self.private, content)?;
        } else {
            files::create(&self.private, content).map_err(|error| match error {
                FileError::Write { source, .. } if source.kind() == io::ErrorKind::AlreadyExists => {
                    KeyStoreError::Exists(self.private.clone())
                }
                other => KeyStoreError::File(other),
            })?;
        }
        self.write_public(&key)?;
        Ok(key)
    }

    /// Returns the key, made first where there is none, and whether it was made.
    pub(crate) fn load_or_create(&self) -> Result<(SigningKey, bool), KeyStoreError> {
        match self.load() {
            Err(KeyStoreError::Missing(_)) => match self.create(false) {
                // Somebody else was faster: theirs is the key.
                Err(KeyStoreError::Exists(_)) => Ok((self.load()?, false)),
                made => Ok((made?, true)),
            },
            loaded => Ok((loaded?, false)),
        }
    }

    /// Returns the public key as PEM, and mends the file that holds it.
    pub(crate) fn public_pem(&self, key: &SigningKey) -> Result<String, KeyStoreError> {
        let pem = keys::public_to_pem(&key.verifying_key()).map_err(|source| self.broken(source))?;
        if files::read(&self.public, MAX_BYTES).ok().flatten().as_deref() != Some(pem.as_str()) {
            // A folder that cannot be written is no reason to hide the key.
            let _ = files::replace(&self.public, pem.as_bytes());
        }
        Ok(pem)
    }

    fn write_public(&self, key: &SigningKey) -> Result<(), KeyStoreError> {
        let pem = keys::public_to_pem(&key.verifying_key()).map_err(|source| self.broken(source))?;
        Ok(files::replace(&self.public, pem.as_bytes())?)
    }

    fn broken(&self, source: KeyError) -> KeyStoreError {
        KeyStoreError::Key { path: self.private.clone(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(dir: &Path) -> KeyStore {
        KeyStore::at(
            &ConfigDir::find(|name| (name == crate::env_vars::CONFIG_DIR).then(|| dir.into())).unwrap(),
            None,
        )
    }

    #[test]
    fn a_key_is_made_once_and_never_by_reading() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        let error = store.load().unwrap_err();
        assert!(error.to_string().contains("identity/desktopid.key"), "{error}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "reading makes nothing");
        let key = store.create(false).unwrap();
        assert!(matches!(store.create(false), Err(KeyStoreError::Exists(_))));
        assert_eq!(store.load().unwrap().verifying_key(), key.verifying_key());
        let other = store.create(true).unwrap();
        assert_ne!(other.verifying_key(), key.verifying_key());
        assert!(!store.load_or_create().unwrap().1);
    }

    #[test]
    fn the_public_file_is_mended_from_the_private_one() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        let key = store.create(false).unwrap();
        std::fs::write(store.public_path(), "something else").unwrap();
        let pem = store.public_pem(&key).unwrap();
        assert_eq!(std::fs::read_to_string(store.public_path()).unwrap(), pem);
    }

    #[test]
    fn a_broken_key_is_named_and_not_shown() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        files::replace(store.private_path(), b"SECRET-LOOKING").unwrap();
        let error = CliError::from(store.load().unwrap_err());
        assert!(error.chain().contains("desktopid.key"));
        assert!(!error.chain().contains("SECRET-LOOKING"));
        assert!(matches!(store.load_or_create(), Err(KeyStoreError::Key { .. })), "it is not replaced");
    }
}
