//! Starting a supervisor and hearing its answer.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::os::unix::process::CommandExt;
use std::process::Stdio;

use cuddy_protocol::{CommandError, ErrorCode};
use rustix::io::Errno;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::Command;

use crate::log;
use crate::supervisor::VERB;
use crate::supervisor::channel::{self, Reply, Request};

/// This very program, also after its file has been replaced.
const PROGRAM: &str = "/proc/self/exe";
/// The most bytes of a reply.
const MAX_REPLY: u64 = 1024 * 1024;

/// A supervisor that has been given its request.
#[derive(Debug)]
pub struct Supervisor {
    control: UnixStream,
}

impl Supervisor {
    /// Starts a supervisor and hands it the request with descriptors.
    pub async fn start(request: &Request, fds: Vec<OwnedFd>) -> Result<Self, CommandError> {
        let (ours, theirs) = StdUnixStream::pair().map_err(|e| cannot(&e))?;
        let borrowed: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        let body = channel::send_head(&ours, request, &borrowed).map_err(|e| cannot(&e))?;
        // The streams must be open nowhere else, or they would not end.
        drop(fds);
        ours.set_nonblocking(true).map_err(|e| cannot(&e))?;
        let mut command = std::process::Command::new(PROGRAM);
        command.arg0("cuddy-host").arg(VERB).stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null());
        // A job outlives the host, and with it whoever reads the host's log.
        command.stderr(if matches!(request, Request::Job(_)) { Stdio::null() } else { Stdio::inherit() });
        let mut child = Command::from(command).spawn().map_err(|e| cannot(&e))?;
        tokio::spawn(async move {
            if let Err(error) = child.wait().await {
                log::line(format_args!("wait for a supervisor: {error}"));
            }
        });
        let mut control = UnixStream::from_std(ours).map_err(|e| cannot(&e))?;
        control.write_all(&body).await.map_err(|e| cannot(&e))?;
        Ok(Self { control })
    }

    /// Asks the supervisor of a call to end it. The reply still comes.
    pub async fn end(&mut self) {
        let _ = self.control.shutdown().await;
    }

    /// Returns the supervisor's reply. Cancel safe: what has been read is kept in `buffer`.
    pub async fn reply(&mut self, buffer: &mut Vec<u8>) -> Result<Reply, CommandError> {
        loop {
            if let Some(reply) = channel::decode_reply(buffer) {
                return Ok(reply);
            }
            let got = self.control.read_buf(buffer).await.unwrap_or(0);
            if got == 0 || buffer.len() as u64 > MAX_REPLY {
                let message = "the supervisor of this command ended without an answer; what the command did is not known";
                return Err(CommandError::new(ErrorCode::OutcomeUnknown, message));
            }
        }
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
