//! Reaping, and what an end looks like.

use rustix::io::Errno;
use rustix::process::{WaitOptions, WaitStatus, wait};
use serde::{Deserialize, Serialize};

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// The exit code; -1 when a signal ended it.
    pub code: i32,
    /// The signal (`SIGTERM`).
    pub signal: Option<String>,
}

impl Exit {
    /// The end of a process that could not be ended.
    pub const UNSEEN: Self = Self { code: -1, signal: None };

    /// Returns what a wait status says.
    pub fn of(status: WaitStatus) -> Self {
        match status.terminating_signal() {
            Some(signal) => Self { code: -1, signal: Some(signal_name(signal)) },
            None => Self { code: status.exit_status().unwrap_or(-1), signal: None },
        }
    }

    /// Says whether the process ended well.
    pub fn is_success(&self) -> bool {
        self.code == 0
    }
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.signal {
            Some(signal) => write!(f, "signal {signal}"),
            None => write!(f, "exit code {}", self.code),
        }
    }
}

/// Reaps every child that has ended and says whether any is left. A subreaper without children has no descendants: each
/// one's chain of living parents would begin with a child.
pub fn reap(mut ended: impl FnMut(i32, Exit)) -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => ended(pid.as_raw_nonzero().get(), Exit::of(status)),
            Ok(None) => return true,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// Returns a signal's name.
pub fn signal_name(number: i32) -> String {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
        "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
        "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    let name = usize::try_from(number - 1).ok().and_then(|index| NAMES.get(index));
    name.map_or_else(|| format!("SIG{number}"), |name| format!("SIG{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names() {
        assert_eq!([1, 9, 15, 31].map(signal_name), ["SIGHUP", "SIGKILL", "SIGTERM", "SIGSYS"]);
        assert_eq!([0, 34].map(signal_name), ["SIG0", "SIG34"]);
    }
}
