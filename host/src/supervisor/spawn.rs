//! Starting the work itself.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use cuddy_protocol::{CommandError, ErrorCode};
use rustix::io::Errno;

use super::channel::Work;

/// The three streams of a process.
pub(super) struct Streams {
    pub(super) stdin: Stdio,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// Starts the work in `folder`, in a process group of its own, and returns its pid. The descriptors given are closed here:
/// the streams must end when the work does.
pub(super) fn spawn(work: &Work, folder: &OwnedFd, streams: Streams) -> Result<i32, CommandError> {
    let Some((program, args)) = work.argv.split_first() else {
        return Err(CommandError::invalid("$.argv", "a program and its arguments"));
    };
    // The supervisor itself goes there: it has one thread and works with absolute paths. A folder as handle, unlike a path,
    // cannot be exchanged between the check and the use.
    rustix::process::fchdir(folder)
        .map_err(|error| refused("$.cwd", "the working directory", &error.into()))?;
    let child = Command::new(program)
        .args(args)
        .envs(&work.env)
        .process_group(0)
        .stdin(streams.stdin)
        .stdout(Stdio::from(streams.stdout))
        .stderr(Stdio::from(streams.stderr))
        .spawn()
        .map_err(|error| refused("$.argv[0]", &format!("the program {program:?}"), &error))?;
    Ok(child.id() as i32)
}

/// Returns the error of a start that the kernel refused.
fn refused(path: &str, what: &str, error: &io::Error) -> CommandError {
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    let (code, message) = match code {
        Some(Errno::NOENT) => (
            ErrorCode::NotFound,
            format!("{what} was not found, or the interpreter that it names is missing"),
        ),
        Some(Errno::ACCESS | Errno::PERM) => {
            (ErrorCode::Forbidden, format!("{what} may not be used: permission denied, or not executable"))
        }
        Some(Errno::TOOBIG) => (
            ErrorCode::TooLarge,
            "arguments and environment together are larger than the kernel allows".to_owned(),
        ),
        Some(Errno::AGAIN | Errno::NOMEM) => (
            ErrorCode::Busy,
            "no process can be started: the environment's limit of processes or memory is reached".to_owned(),
        ),
        Some(Errno::NOEXEC) => {
            (ErrorCode::InvalidParams, format!("{what} is neither a program for this machine nor a script"))
        }
        _ => (ErrorCode::InvalidParams, format!("{what} cannot be used: {error}")),
    };
    CommandError::new(code, message).with("path", path)
}
