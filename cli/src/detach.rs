//! Going on in the background: the program starts itself again, in a session of its own, with its output in a file.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::env_vars;
use crate::error::CliError;
use crate::files::{self, FileError};
use crate::platform;

/// How much of a log is quoted, in bytes.
const TAIL_BYTES: u64 = 2048;

/// Says whether this process is the one in the background, and leaves the terminal if so.
pub(crate) fn is_background() -> bool {
    let detached = std::env::var_os(env_vars::DETACHED).is_some();
    if detached {
        platform::new_session();
    }
    detached
}

/// Starts this program again with arguments, its output going to `log`.
pub(crate) fn start(arguments: &[OsString], log: &Path, input: Stdio) -> Result<Child, CliError> {
    if let Some(folder) = log.parent() {
        files::make_private_folder(folder)?;
    }
    let failed = |source| FileError::Write { path: log.to_owned(), source };
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let output = options.open(log).map_err(failed)?;
    let errors = output.try_clone().map_err(failed)?;
    let program = std::env::current_exe()
        .map_err(|e| CliError::failed("cannot find this program's own file").because(e))?;
    Command::new(program)
        .args(arguments)
        .env(env_vars::DETACHED, "1")
        .stdin(input)
        .stdout(output)
        .stderr(errors)
        .spawn()
        .map_err(|e| CliError::failed("cannot start the process in the background").because(e))
}

/// Returns the end of a log, for an error.
pub(crate) fn tail(log: &Path) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = std::fs::File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    };
    read().unwrap_or_default()
}
