//! `exec_job_cancel`

use std::thread;
use std::time::{Duration, Instant};

use cuddy_commands::exec::job_cancel::{Cancel, ExecJobCancelOutput, ExecJobCancelParams, SIGNALS};
use cuddy_protocol::CommandError;
use rustix::process::Signal;

use super::id::JobId;
use super::store::Store;
use crate::process::reap::signal_name;
use crate::process::{Identity, Process};
use crate::tree::{self, Ending};

/// How long the work has to act upon the signal before it is killed.
const GRACE: Duration = Duration::from_secs(5);
/// How long the supervisor has to record the end once nothing of the job lives.
const RECORD: Duration = Duration::from_secs(5);
/// How often that is looked for.
const LOOK: Duration = Duration::from_millis(10);

/// Ends a job: the work and all that it started, never the supervisor, which records the outcome.
pub fn run(store: &Store, params: &ExecJobCancelParams) -> Result<ExecJobCancelOutput, CommandError> {
    let id = JobId::given(&params.id)?;
    let signal = signal(params.signal.as_deref().unwrap_or("TERM"))?;
    let name = signal_name(signal.as_raw());
    let (stored, job) = store.get_stored(&id)?;
    let Some(stored) = stored else {
        let cancel = Cancel { job, signalled: false, signal: name, target_pid: None, survivors: Vec::new() };
        return Ok(ExecJobCancelOutput { cancel });
    };
    // The record lies where the agent can write it: whatever it says, this very process is never a job's supervisor.
    if stored.supervisor.pid == std::process::id() as i32 || stored.supervisor.pid <= 1 {
        return Err(CommandError::invalid("$.id", "a job whose record names a supervisor of its own"));
    }
    let ending = if signal == Signal::KILL {
        Ending::hard(stored.supervisor)
    } else {
        Ending::soft(stored.supervisor, signal, GRACE)
    };
    let survivors = ending.run(|| {});
    recorded(stored.supervisor);
    let (_, after) = store.get_stored(&id)?;
    let target_pid = job.child_pid;
    Ok(ExecJobCancelOutput {
        cancel: Cancel { job: after, signalled: true, signal: name, target_pid, survivors },
    })
}

/// Waits, a bounded time, until the supervisor has recorded the end and gone.
fn recorded(supervisor: Identity) {
    let until = Instant::now() + RECORD;
    while supervisor.is_alive() && Instant::now() < until {
        // One that somebody stopped would record nothing.
        if let Some(process) = Process::read(supervisor.pid).filter(|p| p.start == supervisor.start) {
            tree::send(&process, Signal::CONT);
        }
        thread::sleep(LOOK);
    }
}

fn signal(text: &str) -> Result<Signal, CommandError> {
    let upper = text.trim().to_ascii_uppercase();
    match upper.strip_prefix("SIG").unwrap_or(&upper) {
        "TERM" => Ok(Signal::TERM),
        "INT" => Ok(Signal::INT),
        "HUP" => Ok(Signal::HUP),
        "KILL" => Ok(Signal::KILL),
        _ => Err(CommandError::invalid("$.signal", format!("one of {}", SIGNALS.join(", ")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_signals_in_any_spelling() {
        for (text, expected) in
            [("TERM", Signal::TERM), ("sigkill", Signal::KILL), ("SigHup", Signal::HUP), ("int", Signal::INT)]
        {
            assert_eq!(signal(text).unwrap(), expected);
        }
        for text in ["USR1", "", "SIG", "SIGSIGTERM", "9"] {
            assert!(signal(text).is_err(), "{text}");
        }
    }
}
