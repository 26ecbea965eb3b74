//! A foreground call: run, wait, end all that was started, report.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::Signal;

use super::channel::{Reply, Work};
use super::spawn::{Streams, spawn};
use super::{answer, wait_for};
use crate::process::reap::{Exit, reap};
use crate::process::{Identity, stat};
use crate::signals::Signals;
use crate::tree::{Ending, STEP, Step};

/// How long what the program left behind may take to end by itself: the rest of a pipeline does.
const SETTLE: Duration = Duration::from_millis(100);

/// How long a command may take to clean up after SIGTERM, when its time is up or nobody waits for it any more: git removes
/// its lock files then.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// Where the call is.
enum Phase {
    Running,
    Settling(Instant),
    Ending(Ending),
}

/// Runs the work and answers with its end. The host ends the call by closing its side: then
/// everything is asked to end, and killed after [`GRACE`].
pub(super) fn run(mut control: UnixStream, work: &Work, fds: Vec<OwnedFd>) -> io::Result<()> {
    let Ok([folder, stdin, stdout, stderr]) = <[OwnedFd; 4]>::try_from(fds) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a call comes with four descriptors"));
    };
    let signals = Signals::listen()?;
    let own =
        Identity::of(std::process::id() as i32).ok_or_else(|| io::Error::other("/proc cannot be read"))?;
    let pid = match spawn(work, &folder, Streams { stdin: Stdio::from(stdin), stdout, stderr }) {
        Ok(pid) => pid,
        Err(error) => return answer(&mut control, &Reply::Failed(error)),
    };
    drop(folder);

    let mut exit = None;
    let mut phase = Phase::Running;
    let survivors = loop {
        let closed = {
            let mut fds =
                [PollFd::new(&control, PollFlags::IN), PollFd::from_borrowed_fd(signals.fd(), PollFlags::IN)];
            // Once the call is being ended, a closed control socket is no news.
            let fds = if matches!(phase, Phase::Ending(_)) { &mut fds[1..] } else { &mut fds[..] };
            let timeout = match &phase {
                Phase::Running => None,
                Phase::Settling(until) => Some(stat::left(*until)),
                Phase::Ending(_) => Some(STEP),
            };
            wait_for(fds, timeout)?;
            fds.len() == 2 && !fds[0].revents().is_empty()
        };
        signals.clear();
        let children = reap(|ended, how| {
            if ended == pid {
                exit = Some(how);
            }
        });
        if !children {
            break Vec::new();
        }
        phase = match phase {
            Phase::Ending(mut ending) => match ending.step() {
                Step::Pending => Phase::Ending(ending),
                // Nothing lives, but something has not been reaped yet: the next round does, and finds no children.
                Step::Done(survivors) if survivors.is_empty() => Phase::Ending(ending),
                Step::Done(survivors) => break survivors,
            },
            Phase::Running if closed || signals.stop_asked() => {
                Phase::Ending(Ending::soft(own, Signal::TERM, GRACE))
            }
            Phase::Settling(_) if closed || signals.stop_asked() => Phase::Ending(Ending::hard(own)),
            Phase::Running if exit.is_some() => Phase::Settling(Instant::now() + SETTLE),
            Phase::Settling(until) if Instant::now() >= until => Phase::Ending(Ending::hard(own)),
            other => other,
        };
    };
    let exit = exit.unwrap_or(Exit::UNSEEN);
    answer(&mut control, &Reply::Ended { exit, survivors })
}
