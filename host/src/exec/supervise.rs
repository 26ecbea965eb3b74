//! Starting a supervisor and hearing its answer.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use cuddy_protocol::{CommandError, ErrorCode};
use rustix::io::Errno;
use rustix::process::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::task::JoinHandle;
use tokio::time;

use super::supervisors::Supervisors;
use crate::process::{Identity, Process};
use crate::supervisor::VERB;
use crate::supervisor::channel::{self, Reply, Request};
use crate::tree::{self, HARD_LIMIT};

/// This very program, also after its file has been replaced.
const PROGRAM: &str = "/proc/self/exe";
/// The most bytes of a reply.
const MAX_REPLY: usize = 1024 * 1024;
/// How long the end of what a killed supervisor left behind may take.
const AFTERMATH: Duration = HARD_LIMIT.saturating_add(Duration::from_secs(2));

/// How long a supervisor that has replied may take to be gone; a machine without time to spare makes it long.
const LEAVING: Duration = Duration::from_secs(2);

/// A supervisor that has been given its request.
#[derive(Debug)]
pub struct Supervisor {
    control: UnixStream,
    identity: Option<Identity>,
    attended: JoinHandle<()>,
}

impl Supervisor {
    /// Starts a supervisor and hands it the request with descriptors.
    pub async fn start(
        all: &Supervisors,
        request: &Request,
        fds: Vec<OwnedFd>,
    ) -> Result<Self, CommandError> {
        let (ours, theirs) = StdUnixStream::pair().map_err(|e| cannot(&e))?;
        let borrowed: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        let body = channel::send_head(&ours, request, &borrowed).map_err(|e| cannot(&e))?;
        // The streams must be open nowhere else, or they would not end.
        drop(fds);
        ours.set_nonblocking(true).map_err(|e| cannot(&e))?;
        let mut command = Command::new(PROGRAM);
        command.arg0("cuddy-host").arg(VERB).stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null());
        // A job outlives the host, and with it whoever reads the host's log.
        command.stderr(if matches!(request, Request::Job(_)) { Stdio::null() } else { Stdio::inherit() });
        let (pid, child) = all.start(command).map_err(|e| cannot(&e))?;
        let identity = Identity::of(pid);
        let attended = tokio::spawn(all.clone().attend(pid, child));
        let mut control = UnixStream::from_std(ours).map_err(|e| cannot(&e))?;
        // One that is gone already is told by its reply.
        let _ = control.write_all(&body).await;
        Ok(Self { control, identity, attended })
    }

    /// Asks the supervisor of a call to end it. The reply still comes.
    pub async fn end(&mut self) {
        let _ = self.control.shutdown().await;
    }

    /// Waits until the supervisor that has replied is gone too: what a call started is over when the call is answered, and
    /// the supervisor is part of that.
    pub async fn gone(&mut self) {
        if !self.attended.is_finished() {
            let _ = time::timeout(LEAVING, &mut self.attended).await;
        }
    }

    /// Kills a supervisor that does not do what it is for. What it supervised is ended by the host then.
    pub fn kill(&self) {
        let this = |process: &Process| self.identity.is_some_and(|identity| identity.start == process.start);
        if let Some(process) = self.identity.and_then(|i| Process::read(i.pid)).filter(this) {
            tree::send(&process, Signal::KILL);
        }
    }

    /// Returns the supervisor's reply. Cancel safe: what has been read is kept in `buffer`.
    ///
    /// Errors: the supervisor was killed. What it left behind has been ended by then.
    pub async fn reply(&mut self, buffer: &mut Vec<u8>) -> Result<Reply, CommandError> {
        loop {
            if let Some(reply) = channel::decode_reply(buffer) {
                return Ok(reply);
            }
            let got = self.control.read_buf(buffer).await.unwrap_or(0);
            if got == 0 || buffer.len() > MAX_REPLY {
                break;
            }
        }
        if !self.attended.is_finished() {
            // Only its end hands its children on; the socket is closed a moment before.
            let _ = time::timeout(AFTERMATH, &mut self.attended).await;
        }
        let message = "the supervisor of this command was killed; the command was ended, what it did before is not known";
        Err(CommandError::new(ErrorCode::OutcomeUnknown, message))
    }
}

fn cannot(error: &io::Error) -> CommandError {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE) => CommandError::new(
            ErrorCode::Busy,
            "no process can be started: the environment's limit of processes, memory or open files is reached",
        ),
        _ => CommandError::new(ErrorCode::Internal, format!("a supervisor cannot be started: {error}")),
    }
}
