//! `init`: the container's first process.
//!
//! Starts the host and starts it again, reaps every orphan, runs the user's own command once the gate is open, and at TERM
//! ends everything in good time. One thread, a poll loop, no runtime.

mod children;
mod gate;
mod restart;

use std::ffi::OsString;
use std::io;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getpid, set_child_subreaper};

use crate::log;
use crate::process::reap::reap;
use crate::process::{Identity, stat};
use crate::settings::Settings;
use crate::signals::Signals;
use crate::tree::{self, Ending};
use children::Child;
use gate::Gate;
use restart::Restart;

/// How long everything may take to end by itself after TERM: jobs give their work five seconds and then write their record.
const STOP_GRACE: Duration = Duration::from_secs(8);
/// How often the end is looked for meanwhile.
const STOP_LOOK: Duration = Duration::from_millis(20);
/// The longest pause of the loop: what is not told by a signal is found at last by looking.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// Why the container cannot start.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// No signals.
    #[error("listen to signals")]
    Signals(#[source] io::Error),
    /// Orphans would not be ours.
    #[error("become the parent of orphans")]
    Subreaper(#[source] io::Error),
    /// The loop broke.
    #[error("wait for events")]
    Poll(#[source] io::Error),
}

/// Runs until TERM or INT.
pub fn run(settings: &Settings, command: &[OsString]) -> Result<(), InitError> {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o007));
    let signals = Signals::listen().map_err(InitError::Signals)?;
    if std::process::id() != 1 {
        // As first process this is so anyway.
        set_child_subreaper(Some(getpid())).map_err(|errno| InitError::Subreaper(errno.into()))?;
    }
    let mut init = Init {
        host: None,
        restart: Restart::default(),
        user: (!command.is_empty()).then(|| User::Waiting(Gate::watch(&settings.agent_dir))),
        command,
        settings,
    };
    while !signals.stop_asked() {
        init.start_what_is_due();
        init.pause(&signals).map_err(InitError::Poll)?;
        signals.clear();
        init.reap();
    }
    stop(&signals);
    Ok(())
}

/// The user's own command.
enum User {
    Waiting(Gate),
    Running(i32),
    Over,
}

struct Init<'s> {
    settings: &'s Settings,
    command: &'s [OsString],
    host: Option<i32>,
    restart: Restart,
    user: Option<User>,
}

impl Init<'_> {
    fn start_what_is_due(&mut self) {
        if self.host.is_none() && self.restart.is_due(Instant::now()) {
            match children::start(&Child::Host(self.settings)) {
                Ok(pid) => {
                    self.restart.started(Instant::now());
                    self.host = Some(pid);
                }
                Err(error) => {
                    log::line(format_args!("the host cannot be started: {error}"));
                    self.restart.ended(Instant::now());
                }
            }
        }
        if let Some(User::Waiting(gate)) = &mut self.user
            && gate.is_open()
        {
            self.user = Some(match children::start(&Child::User(self.command)) {
                Ok(pid) => {
                    log::line(format_args!("the gate is open; the user's command runs as process {pid}"));
                    User::Running(pid)
                }
                Err(error) => {
                    log::line(format_args!(
                        "the user's command {} cannot be started: {error}",
                        self.command[0].display()
                    ));
                    User::Over
                }
            });
        }
    }

    fn pause(&self, signals: &Signals) -> io::Result<()> {
        let mut timeout = LONGEST_PAUSE;
        if self.host.is_none() {
            timeout = timeout.min(self.restart.left(Instant::now()));
        }
        let mut fds = vec![PollFd::from_borrowed_fd(signals.fd(), PollFlags::IN)];
        if let Some(User::Waiting(gate)) = &self.user {
            timeout = timeout.min(gate.look_again());
            fds.extend(gate.fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        }
        wait_for(&mut fds, timeout)
    }

    fn reap(&mut self) {
        let (host, restart, user) = (&mut self.host, &mut self.restart, &mut self.user);
        reap(|pid, exit| {
            if *host == Some(pid) {
                *host = None;
                restart.ended(Instant::now());
                log::line(format_args!("the host ended with {exit}; it is started again"));
            } else if matches!(user, Some(User::Running(running)) if *running == pid) {
                *user = Some(User::Over);
                log::line(format_args!("the user's command ended with {exit}; the environment goes on"));
            }
        });
    }
}

/// Ends everything: asks the supervisors of jobs, which ask their work and record its end, and all others themselves.
fn stop(signals: &Signals) {
    log::line("asked to stop");
    let own = Identity::of(std::process::id() as i32).unwrap_or(Identity { pid: 1, start: 0 });
    let until = Instant::now() + STOP_GRACE;
    for process in children::to_be_asked(own.pid) {
        tree::send(&process, Signal::TERM);
        tree::send(&process, Signal::CONT);
    }
    while reap(|_, _| {}) && Instant::now() < until {
        let mut fds = [PollFd::from_borrowed_fd(signals.fd(), PollFlags::IN)];
        if wait_for(&mut fds, STOP_LOOK.min(stat::left(until))).is_err() {
            break;
        }
        signals.clear();
    }
    let survivors = Ending::hard(own).within(Duration::from_secs(1)).run(|| {
        reap(|_, _| {});
    });
    if !survivors.is_empty() {
        log::line(format_args!("could not be ended: {}", survivors.join(", ")));
    }
    log::line("stopped");
}

fn wait_for(fds: &mut [PollFd<'_>], timeout: Duration) -> io::Result<()> {
    let timeout = Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    };
    match poll(fds, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
