//! Ending a process with all that it started.
//!
//! The root is a subreaper, so whatever descends from it stays below it, however often it forks, calls setsid or renames
//! itself. A process is signalled by handle, after its start time has been compared: a look-alike never is.

use std::collections::HashSet;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::process::{Identity, Process, stat};

/// How long a hard end may take before what is left is named instead of waited for.
pub const HARD_LIMIT: Duration = Duration::from_secs(5);
/// How often the whole tree is looked for while it is being stopped. A tree that forks faster than it can be stopped is
/// killed as far as it is known, and looked for again.
const STOP_ROUNDS: usize = 50;
/// How often an end that is under way looks again.
pub const STEP: Duration = Duration::from_millis(5);

/// Returns what is to be ended, dead or alive, or nothing at all where it cannot be seen.
pub type Look = Box<dyn Fn() -> Option<Vec<Process>> + Send>;

/// An end under way. [`Ending::step`] is called until it is done, at intervals of about [`STEP`].
pub struct Ending {
    look: Look,
    soft: Option<(Signal, Instant)>,
    hard_until: Instant,
    signalled: HashSet<Identity>,
}

/// Where an end is.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Something lives.
    Pending,
    /// Nothing lives, or what does cannot be ended and is named.
    Done(Vec<String>),
}

impl Ending {
    /// Returns an end of all below the root that asks by a signal and kills what is left after a while.
    pub fn soft(root: Identity, signal: Signal, grace: Duration) -> Self {
        let soft_until = Instant::now() + grace;
        Self { soft: Some((signal, soft_until)), hard_until: soft_until + HARD_LIMIT, ..Self::hard(root) }
    }

    /// Returns an end of all below the root that kills at once.
    pub fn hard(root: Identity) -> Self {
        Self::of(Box::new(move || below(root)))
    }

    /// Returns an end of whatever a look finds that kills at once.
    pub fn of(look: Look) -> Self {
        Self { look, soft: None, hard_until: Instant::now() + HARD_LIMIT, signalled: HashSet::new() }
    }

    /// Returns the same end with another bound.
    pub fn within(self, limit: Duration) -> Self {
        Self { hard_until: Instant::now() + limit, ..self }
    }

    /// Looks once, signals what has to be, and says whether anything lives.
    pub fn step(&mut self) -> Step {
        let now = Instant::now();
        let Some(living) = self.living() else {
            // What cannot be seen is not gone.
            let given_up = now >= self.hard_until;
            return if given_up { Step::Done(vec!["unknown (/proc)".to_owned()]) } else { Step::Pending };
        };
        if living.is_empty() {
            return Step::Done(Vec::new());
        }
        match self.soft {
            Some((signal, until)) if now < until => self.ask(&living, signal),
            _ if now < self.hard_until => self.kill(living),
            _ => return Step::Done(living.iter().map(Process::label).collect()),
        }
        Step::Pending
    }

    /// Ends the tree and returns the survivors. `meanwhile` runs between the steps: whoever is the parent reaps there.
    pub fn run(mut self, mut meanwhile: impl FnMut()) -> Vec<String> {
        loop {
            meanwhile();
            if let Step::Done(survivors) = self.step() {
                // What died since the last time is reaped, too.
                meanwhile();
                return survivors;
            }
            thread::sleep(STEP);
        }
    }

    /// Returns what lives. An empty answer is asked for twice: while a snapshot is taken, a process may be handed from a
    /// parent not read yet to the root.
    fn living(&self) -> Option<Vec<Process>> {
        let look = || {
            let mut found = (self.look)()?;
            found.retain(|p| !p.dead);
            Some(found)
        };
        let living = look()?;
        if living.is_empty() { look() } else { Some(living) }
    }

    /// Sends the signal once to each process, and CONT so that a stopped one can act upon it.
    fn ask(&mut self, living: &[Process], signal: Signal) {
        for process in living {
            if self.signalled.insert(Identity { pid: process.pid, start: process.start }) {
                send(process, signal);
                send(process, Signal::CONT);
            }
        }
    }

    /// Stops everything until a look finds nothing new, then kills all: what is stopped cannot fork away.
    fn kill(&self, mut living: Vec<Process>) {
        let mut stopped = HashSet::new();
        for _ in 0..STOP_ROUNDS {
            let mut found_new = false;
            for process in &living {
                if stopped.insert((process.pid, process.start)) {
                    found_new = true;
                    send(process, Signal::STOP);
                }
            }
            if !found_new {
                break;
            }
            living = self.living().unwrap_or(living);
        }
        for process in &living {
            send(process, Signal::KILL);
        }
    }
}

/// Returns what descends from this very process. One that is gone has no descendants any more: they have been handed on, and
/// its pid may be another's.
fn below(root: Identity) -> Option<Vec<Process>> {
    if !root.is_alive() {
        return Some(Vec::new());
    }
    Some(stat::descendants(&stat::all().ok()?, root.pid))
}

/// Signals this very process, by handle. One that is gone needs none.
pub fn send(process: &Process, signal: Signal) {
    let Some(pid) = Pid::from_raw(process.pid) else { return };
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    // The handle keeps the pid from being used again; what it names now is what the start time says.
    if Process::read(process.pid).is_some_and(|now| now.start == process.start) {
        let _ = pidfd_send_signal(&handle, signal);
    }
}
