//! Where the user's files are: Go's `os.UserConfigDir`, because the seed's clients look there (seed, "Endpoint discovery").

use std::ffi::OsString;
use std::path::PathBuf;

use crate::env_vars;
use crate::error::CliError;

/// The folder below the user's configuration.
const FOLDER: &str = "erun";

/// Why the folder cannot be told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConfigDirError {
    /// The variable that names it is not set.
    #[error("neither {0} is set: there is no folder for keys and state")]
    Unset(&'static str),
    /// XDG asks for an absolute path.
    #[error("{0} holds a relative path")]
    Relative(&'static str),
}

impl From<ConfigDirError> for CliError {
    fn from(error: ConfigDirError) -> Self {
        Self::usage(error.to_string()).hint(format!("set {} to an absolute path", env_vars::CONFIG_DIR))
    }
}

/// The folder of keys and state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigDir(PathBuf);

impl ConfigDir {
    /// Finds the folder; `variable` reads the environment.
    pub(crate) fn find(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, ConfigDirError> {
        if let Some(dir) = variable(env_vars::CONFIG_DIR).filter(|v| !v.is_empty()) {
            return absolute(dir.into(), env_vars::CONFIG_DIR).map(Self);
        }
        user_config_dir(std::env::consts::OS, variable).map(|dir| Self(dir.join(FOLDER)))
    }

    /// Returns the folder of the key pair.
    pub(crate) fn identity(&self) -> PathBuf {
        self.0.join("identity")
    }

    /// Returns the folder of state files, tenants below it.
    pub(crate) fn forwards(&self) -> PathBuf {
        self.0.join("portforward").join("mcp")
    }

    /// Returns the folder of the local environments.
    pub(crate) fn local(&self) -> PathBuf {
        self.0.join("local")
    }

    /// Returns the folder of the logs of what runs in the background.
    pub(crate) fn logs(&self) -> PathBuf {
        self.0.join("log")
    }
}

/// Go's `os.UserConfigDir`, of `os.go` in its package os.
fn user_config_dir(os: &str, variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, ConfigDirError> {
    let get = |name: &str| variable(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    match os {
        "windows" => get("AppData").ok_or(ConfigDirError::Unset("%AppData%")),
        "macos" => get("HOME")
            .map(|home| home.join("Library/Application Support"))
            .ok_or(ConfigDirError::Unset("$HOME")),
        _ => match get("XDG_CONFIG_HOME") {
            Some(dir) => absolute(dir, "$XDG_CONFIG_HOME"),
            None => get("HOME")
                .map(|home| home.join(".config"))
                .ok_or(ConfigDirError::Unset("$XDG_CONFIG_HOME nor $HOME")),
        },
    }
}

fn absolute(dir: PathBuf, name: &'static str) -> Result<PathBuf, ConfigDirError> {
    if dir.is_absolute() { Ok(dir) } else { Err(ConfigDirError::Relative(name)) }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn from(os: &str, variables: &[(&str, &str)]) -> Result<PathBuf, ConfigDirError> {
        user_config_dir(os, |name| {
            variables.iter().find(|(n, _)| *n == name).map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn it_is_gos_user_config_dir() {
        assert_eq!(from("linux", &[("HOME", "/h")]).unwrap(), Path::new("/h/.config"));
        assert_eq!(from("linux", &[("HOME", "/h"), ("XDG_CONFIG_HOME", "/x")]).unwrap(), Path::new("/x"));
        assert_eq!(
            from("linux", &[("HOME", "/h"), ("XDG_CONFIG_HOME", "")]).unwrap(),
            Path::new("/h/.config")
        );
        assert!(matches!(from("linux", &[("XDG_CONFIG_HOME", "x")]), Err(ConfigDirError::Relative(_))));
        assert!(matches!(from("linux", &[]), Err(ConfigDirError::Unset(_))));
        assert_eq!(from("macos", &[("HOME", "/h")]).unwrap(), Path::new("/h/Library/Application Support"));
        assert_eq!(from("windows", &[("AppData", "C:/a")]).unwrap(), Path::new("C:/a"));
    }

    #[test]
    fn the_override_replaces_all_of_it() {
        let dir = ConfigDir::find(|name| (name == env_vars::CONFIG_DIR).then(|| "/c".into())).unwrap();
        assert_eq!(dir.identity(), Path::new("/c/identity"));
        let plain = ConfigDir::find(|name| (name == "XDG_CONFIG_HOME").then(|| "/x".into()));
        if std::env::consts::OS == "linux" {
            assert_eq!(plain.unwrap().forwards(), Path::new("/x/erun/portforward/mcp"));
        }
    }
}
