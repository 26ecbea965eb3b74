//! `job`: the supervisor of one piece of work, a process of its own.
//!
//! The host starts one for each command, foreground or background, and speaks to it over a socket that is the supervisor's
//! standard input. It is a session leader and a subreaper: what the work starts, however it detaches itself, stays below the
//! supervisor and is ended by it. No async runtime; one thread and a poll loop.

pub mod channel;
mod foreground;
pub(crate) use foreground::GRACE;
mod job;
mod output;
mod spawn;

use std::ffi::CStr;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

use rustix::event::{PollFd, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{getpid, set_child_subreaper, setsid};

use crate::log;
use channel::{Reply, Request};

/// The verb under which this program supervises.
pub const VERB: &str = "job";
/// What `ps` shows.
const NAME: &CStr = c"cuddy-job";

/// Runs the supervisor.
pub fn run() -> ExitCode {
    match supervise() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::line(format_args!("supervisor: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn supervise() -> io::Result<()> {
    // A name for people; without it the kernel's own stands.
    let _ = rustix::thread::set_name(NAME);
    let mut control = take_stdin()?;
    // Fails where the process leads a group already, as when somebody starts it by hand from a shell.
    let _ = setsid();
    set_child_subreaper(Some(getpid()))?;
    match channel::receive(&mut control)? {
        (Request::Call(work), fds) => foreground::run(control, &work, fds),
        (Request::Job(order), fds) => job::run(control, *order, fds),
    }
}

/// Takes the control socket out of standard input, so that the work cannot inherit it.
fn take_stdin() -> io::Result<UnixStream> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    let null = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(socket.into())
}

/// Answers the host. Failing is the caller's to judge: the host may be gone.
fn answer(control: &mut UnixStream, reply: &Reply) -> io::Result<()> {
    channel::send_reply(control, reply)
}

/// Polls, a bounded time where one is given; a signal ends it early like an event.
fn wait_for(fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> io::Result<()> {
    let timeout = timeout.map(|t| Timespec {
        tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(t.subsec_nanos()),
    });
    match poll(fds, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
