//! What `init` starts, and whom it asks to stop.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::process::{Process, stat};
use crate::settings::Settings;
use crate::supervisor::VERB;

/// This very program, also after its file has been replaced.
const PROGRAM: &str = "/proc/self/exe";

/// What is started.
pub(super) enum Child<'c> {
    Host(&'c Settings),
    User(&'c [OsString]),
}

/// Starts it and returns its pid; whoever reaps hears of its end.
pub(super) fn start(child: &Child<'_>) -> io::Result<i32> {
    let mut command = match child {
        Child::Host(settings) => {
            let mut command = Command::new(PROGRAM);
            command.arg0("cuddy-host").arg("host");
            // Flags given to `init` count for the host, too.
            command.arg("--home").arg(&settings.home);
            command.arg("--tenant").arg(settings.tenant.as_str());
            command.arg("--environment").arg(settings.environment.as_str());
            command.arg("--socket-dir").arg(&settings.socket_dir);
            command.arg("--agent-dir").arg(&settings.agent_dir);
            command.arg("--beats-dir").arg(&settings.beats_dir);
            command
        }
        Child::User(argv) => {
            let Some((program, args)) = argv.split_first() else {
                return Err(io::ErrorKind::InvalidInput.into());
            };
            let mut command = Command::new(program);
            command.args(args);
            command
        }
    };
    // A group of its own, so that a signal to the group of one does not reach the other.
    command.process_group(0);
    Ok(command.spawn()?.id() as i32)
}

/// Returns whom to ask: everything below this process, but of a job its supervisor alone, which asks the work. The first
/// process of a container also finds what came in from outside.
pub(super) fn to_be_asked(own: i32) -> Vec<Process> {
    let all = stat::all().unwrap_or_default();
    let below = if own == 1 {
        all.iter().filter(|p| p.pid != 1).cloned().collect()
    } else {
        stat::descendants(&all, own)
    };
    let supervisors: Vec<i32> = below.iter().filter(|p| is_supervisor(p.pid)).map(|p| p.pid).collect();
    let supervised: Vec<i32> = supervisors
        .iter()
        .flat_map(|supervisor| stat::descendants(&all, *supervisor))
        .map(|process| process.pid)
        .collect();
    below.into_iter().filter(|p| !supervised.contains(&p.pid)).collect()
}

fn is_supervisor(pid: i32) -> bool {
    let same_program = || {
        let (own, other) = (fs::metadata(PROGRAM).ok()?, fs::metadata(format!("/proc/{pid}/exe")).ok()?);
        Some(own.dev() == other.dev() && own.ino() == other.ino())
    };
    let verb = fs::read(format!("/proc/{pid}/cmdline"))
        .is_ok_and(|line| line.split(|byte| *byte == 0).nth(1) == Some(VERB.as_bytes()));
    verb && same_program().unwrap_or(false)
}
