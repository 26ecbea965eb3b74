//! What every command gets.

use std::path::Path;

use crate::config_dir::ConfigDir;
use crate::error::CliError;
use crate::key_store::KeyStore;

/// The user's folder, and nothing that a command could change.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    /// Where keys and state are.
    pub(crate) dir: ConfigDir,
}

impl Context {
    /// Reads the environment, once.
    pub(crate) fn from_environment() -> Result<Self, CliError> {
        Ok(Self { dir: ConfigDir::find(|name| std::env::var_os(name))? })
    }

    /// Returns the key store.
    pub(crate) fn keys(&self, key: Option<&Path>) -> KeyStore {
        KeyStore::at(&self.dir, key)
    }
}
