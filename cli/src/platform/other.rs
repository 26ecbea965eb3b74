//! Systems other than Linux: nothing is known of other processes. Untested.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;

use super::{Holder, Process};

pub(super) const KNOWS_HOLDERS: bool = false;

/// The signals that are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    Terminate,
    Kill,
}

#[cfg(unix)]
pub(super) fn is_alive(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
}

#[cfg(not(unix))]
pub(super) fn is_alive(_pid: u32) -> bool {
    false
}

pub(super) fn started(_pid: u32) -> Option<u64> {
    None
}

#[cfg(unix)]
pub(super) fn signal(process: Process, signal: Signal) -> bool {
    let signal = match signal {
        Signal::Terminate => rustix::process::Signal::TERM,
        Signal::Kill => rustix::process::Signal::KILL,
    };
    let pid = i32::try_from(process.pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::kill_process(pid, signal).is_ok())
}

#[cfg(not(unix))]
pub(super) fn signal(_process: Process, _signal: Signal) -> bool {
    false
}

pub(super) fn holder(_port: u16) -> Option<Holder> {
    None
}

pub(super) fn new_session() {
    #[cfg(unix)]
    let _ = rustix::process::setsid();
}

pub(super) fn stdout_is_closed() -> bool {
    false
}

/// Whether a lock follows its file is not known here: the process that is started takes it anew.
pub(super) fn inherited_file(_path: &Path) -> Option<File> {
    None
}

pub(super) fn inheritable_file(_file: File) -> Stdio {
    Stdio::null()
}
