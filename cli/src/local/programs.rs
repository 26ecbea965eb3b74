//! Finding the sidecar's and the host's programs.

use std::path::{Path, PathBuf};

use crate::env_vars;
use crate::error::CliError;

/// The two programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Programs {
    /// The sidecar's.
    pub(crate) sidecar: PathBuf,
    /// The host's.
    pub(crate) host: PathBuf,
}

/// Finds both: where a variable says, or beside this program, or on the path.
pub(crate) fn find() -> Result<Programs, CliError> {
    Ok(Programs {
        sidecar: one("cuddy-sidecar", env_vars::SIDECAR_BIN)?,
        host: one("cuddy-host", env_vars::HOST_BIN)?,
    })
}

fn one(name: &str, variable: &str) -> Result<PathBuf, CliError> {
    if let Some(path) = std::env::var_os(variable).filter(|v| !v.is_empty()).map(PathBuf::from) {
        return if is_program(&path) {
            Ok(path)
        } else {
            Err(CliError::usage(format!("{variable} names no program: {}", path.display())))
        };
    }
    // The name this program was started by may be a link: its own folder comes first, then that of what it points to.
    let own = std::env::current_exe().ok();
    let real = own.as_deref().and_then(|path| path.canonicalize().ok());
    let beside = [&own, &real].into_iter().flatten().filter_map(|path| path.parent().map(Path::to_owned));
    let on_path = std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    beside
        .chain(on_path.into_iter().flatten())
        .map(|folder| folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX)))
        .find(|path| is_program(path))
        .ok_or_else(|| {
            CliError::failed(format!("there is no program {name} beside this one, nor on the path"))
                .hint(format!("point {variable} at it"))
        })
}

fn is_program(path: &Path) -> bool {
    path.is_file()
}
