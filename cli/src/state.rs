//! State files: where a client finds an environment that is open on this machine (D42).

use std::fs;
use std::path::{Path, PathBuf};

use cuddy_protocol::Scope;
use cuddy_protocol::state_file::StateFile;

use crate::config_dir::ConfigDir;
use crate::files::{self, FileError};

/// A state file has some 300 bytes.
const MAX_BYTES: u64 = 64 * 1024;

/// Why a state file is of no use.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StateError {
    /// It cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// It is no state file.
    #[error("{} is no state file", .path.display())]
    Form {
        /// Which.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
}

impl From<StateError> for crate::error::CliError {
    fn from(error: StateError) -> Self {
        Self::failed(error.to_string()).because(error)
    }
}

/// Returns the place of an environment's state file.
pub(crate) fn path(dir: &ConfigDir, scope: &Scope) -> PathBuf {
    dir.forwards().join(scope.tenant.as_str()).join(format!("{}.json", scope.environment))
}

/// Reads an environment's state file; none if there is none, or it speaks of another environment.
pub(crate) fn read(dir: &ConfigDir, scope: &Scope) -> Result<Option<StateFile>, StateError> {
    let found = read_at(&path(dir, scope))?;
    Ok(found.filter(|s| s.tenant == scope.tenant.as_str() && s.environment == scope.environment.as_str()))
}

/// Writes an environment's state file.
pub(crate) fn write(dir: &ConfigDir, scope: &Scope, state: &StateFile) -> Result<PathBuf, StateError> {
    let path = path(dir, scope);
    let text =
        serde_json::to_vec_pretty(state).map_err(|source| StateError::Form { path: path.clone(), source })?;
    files::replace(&path, &text)?;
    Ok(path)
}

/// Removes an environment's state file, if it is still that of this process.
pub(crate) fn remove(dir: &ConfigDir, scope: &Scope, process: u32) {
    let ours = matches!(read(dir, scope), Ok(Some(state)) if state.process_id == Some(process));
    if ours {
        let _ = fs::remove_file(path(dir, scope));
    }
}

/// Returns every state file that can be read.
pub(crate) fn all(dir: &ConfigDir) -> Vec<StateFile> {
    let folders = |path: &Path| {
        fs::read_dir(path).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path())
    };
    let mut states: Vec<StateFile> = folders(&dir.forwards())
        .flat_map(|tenant| folders(&tenant).collect::<Vec<_>>())
        .filter(|file| file.extension().is_some_and(|e| e == "json"))
        .filter_map(|file| read_at(&file).ok().flatten())
        .collect();
    states.sort_by(|a, b| (&a.tenant, &a.environment).cmp(&(&b.tenant, &b.environment)));
    states
}

fn read_at(path: &Path) -> Result<Option<StateFile>, StateError> {
    let Some(text) = files::read(path, MAX_BYTES)? else { return Ok(None) };
    let state =
        serde_json::from_str(&text).map_err(|source| StateError::Form { path: path.to_owned(), source })?;
    Ok(Some(state))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture() -> (tempfile::TempDir, ConfigDir, Scope) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        let config =
            ConfigDir::find(|name| (name == crate::env_vars::CONFIG_DIR).then(|| path.clone().into()))
                .unwrap();
        let scope = Scope { tenant: "acme".parse().unwrap(), environment: "dev".parse().unwrap() };
        (dir, config, scope)
    }

    fn state(process: u32) -> StateFile {
        StateFile {
            tenant: "acme".into(),
            environment: "dev".into(),
            kubernetes_context: "kind".into(),
            namespace: "acme".into(),
            local_port: 17100,
            scheme: "http".into(),
            log_path: None,
            process_id: Some(process),
        }
    }

    #[test]
    fn a_state_survives_and_reads_as_the_seed_has_it() {
        let (_dir, config, scope) = fixture();
        let path = write(&config, &scope, &state(7)).unwrap();
        assert!(path.ends_with("portforward/mcp/acme/dev.json"));
        assert_eq!(read(&config, &scope).unwrap().unwrap(), state(7));
        insta::assert_snapshot!(fs::read_to_string(path).unwrap(), @r#"
        {
          "tenant": "acme",
          "environment": "dev",
          "kubernetesContext": "kind",
          "namespace": "acme",
          "localPort": 17100,
          "scheme": "http",
          "processId": 7
        }
        "#);
        assert_eq!(all(&config), [state(7)]);
    }

    #[test]
    fn only_its_own_process_removes_it() {
        let (_dir, config, scope) = fixture();
        write(&config, &scope, &state(7)).unwrap();
        remove(&config, &scope, 8);
        assert!(read(&config, &scope).unwrap().is_some());
        remove(&config, &scope, 7);
        assert!(read(&config, &scope).unwrap().is_none());
    }

    #[test]
    fn a_file_of_another_environment_is_not_believed() {
        let (_dir, config, scope) = fixture();
        let foreign = StateFile { tenant: "other".into(), ..state(7) };
        write(&config, &scope, &foreign).unwrap();
        assert_eq!(read(&config, &scope).unwrap(), None);
        fs::write(path(&config, &scope), "{").unwrap();
        assert!(matches!(read(&config, &scope), Err(StateError::Form { .. })));
        assert!(all(&config).is_empty());
    }
}
