//! A command in the foreground: streams, time limit, and an end of everything it started.

use std::os::fd::OwnedFd;
use std::time::Duration;

use cuddy_commands::exec::raw::{ExecRawOutput, ExecRawParams};
use cuddy_protocol::{CommandError, ErrorCode};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio::time;
use tokio_util::sync::CancellationToken;

use super::Context;
use super::capture::{Capture, Captured};
use super::supervise::Supervisor;
use crate::home::Folder;
use crate::jobs::output::text;
use crate::process::reap::Exit;
use crate::supervisor::GRACE;
use crate::supervisor::channel::{Reply, Request, Work};
use crate::tree::HARD_LIMIT;

/// How long streams may take to end once everything that could write to them is dead. Only a survivor holds them longer.
const DRAIN: Duration = Duration::from_millis(500);
/// How long the supervisor has to end everything and say so.
const END: Duration = HARD_LIMIT.saturating_add(GRACE).saturating_add(Duration::from_secs(2));

/// Why a call was ended before the command was.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cut {
    TimeLimit,
    Cancelled,
}

/// Runs the command and returns once it, and all that it started, is over.
pub async fn run(
    context: &Context,
    params: ExecRawParams,
    folder: Folder,
    limit: Duration,
    stdin: mpsc::UnboundedReceiver<Vec<u8>>,
    cancel: &CancellationToken,
) -> Result<ExecRawOutput, CommandError> {
    let (their_stdin, our_stdin) = channel()?;
    let (our_stdout, their_stdout) = channel()?;
    let (our_stderr, their_stderr) = channel()?;
    let our_stdin = pipe::Sender::from_owned_fd(our_stdin).map_err(|e| pipes(&e))?;
    let our_stdout = pipe::Receiver::from_owned_fd(our_stdout).map_err(|e| pipes(&e))?;
    let our_stderr = pipe::Receiver::from_owned_fd(our_stderr).map_err(|e| pipes(&e))?;

    let mut env = params.env.unwrap_or_default();
    env.extend(context.variables.iter().cloned());
    let request = Request::Call(Work { argv: params.argv, env });
    let fds = vec![folder.handle, their_stdin, their_stdout, their_stderr];
    let mut supervisor = Supervisor::start(&context.supervisors, &request, fds).await?;

    let (mut stdout, mut stderr) = (Capture::default(), Capture::default());
    let (reply, cut) = {
        let streams = async { tokio::join!(stdout.read(our_stdout), stderr.read(our_stderr)) };
        let feeding = feed(our_stdin, params.stdin, stdin);
        let work = attend(&mut supervisor, limit, cancel);
        tokio::pin!(streams, feeding, work);
        let (mut streaming, mut fed) = (true, false);
        let outcome = loop {
            tokio::select! {
                outcome = &mut work => break outcome,
                _ = &mut streams, if streaming => streaming = false,
                () = &mut feeding, if !fed => fed = true,
            }
        };
        if streaming {
            let _ = time::timeout(DRAIN, &mut streams).await;
        }
        outcome
    };
    supervisor.gone().await;
    match (reply?, cut) {
        (Reply::Ended { exit, survivors }, cut) => {
            if cut == Some(Cut::Cancelled) {
                return Err(CommandError::new(
                    ErrorCode::Cancelled,
                    "the call was taken back; the command was ended",
                )
                .with("survivors", survivors));
            }
            Ok(output(exit, survivors, cut.is_some(), stdout.finish(), stderr.finish()))
        }
        (Reply::Failed(error), _) => Err(error),
        (Reply::Started { .. }, _) => {
            Err(CommandError::new(ErrorCode::Internal, "a call was answered like a job"))
        }
    }
}

/// Waits for the end, and brings it about when time is up or the caller goes away.
async fn attend(
    supervisor: &mut Supervisor,
    limit: Duration,
    cancel: &CancellationToken,
) -> (Result<Reply, CommandError>, Option<Cut>) {
    let mut buffer = Vec::new();
    let cut = tokio::select! {
        reply = supervisor.reply(&mut buffer) => return (reply, None),
        () = time::sleep(limit) => Cut::TimeLimit,
        () = cancel.cancelled() => Cut::Cancelled,
    };
    supervisor.end().await;
    let Ok(reply) = time::timeout(END, supervisor.reply(&mut buffer)).await else {
        // It has been stopped, or worse, by what it supervises.
        supervisor.kill();
        return (supervisor.reply(&mut buffer).await, Some(cut));
    };
    (reply, Some(cut))
}

/// Feeds the text of the parameters, then what comes after. A command that reads nothing is no error.
async fn feed(mut pipe: pipe::Sender, text: Option<String>, mut more: mpsc::UnboundedReceiver<Vec<u8>>) {
    if let Some(text) = text
        && pipe.write_all(text.as_bytes()).await.is_err()
    {
        return;
    }
    while let Some(bytes) = more.recv().await {
        if pipe.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

fn output(
    exit: Exit,
    survivors: Vec<String>,
    timed_out: bool,
    stdout: Captured,
    stderr: Captured,
) -> ExecRawOutput {
    let truncated = stdout.truncated || stderr.truncated;
    let notes: Vec<String> = [("stdout", &stdout), ("stderr", &stderr)]
        .into_iter()
        .filter(|(_, stream)| stream.truncated)
        .map(|(name, s)| format!("[cuddy: {name} was cut: {} of {} bytes are shown]", s.bytes.len(), s.total))
        .collect();
    let (stdout, stdout_base64) = text(stdout.bytes);
    let (mut stderr, stderr_base64) = text(stderr.bytes);
    for note in notes {
        if !stderr.is_empty() && !stderr.ends_with('\n') {
            stderr.push('\n');
        }
        stderr.push_str(&note);
        stderr.push('\n');
    }
    ExecRawOutput {
        stdout: Some(stdout),
        stderr: Some(stderr),
        stdout_base64,
        stderr_base64,
        exit_code: Some(if timed_out { -1 } else { exit.code }),
        signal: exit.signal,
        truncated: Some(truncated),
        timed_out: Some(timed_out),
        survivors,
        ..ExecRawOutput::default()
    }
}

fn channel() -> Result<(OwnedFd, OwnedFd), CommandError> {
    pipe_with(PipeFlags::CLOEXEC).map_err(|errno| pipes(&errno.into()))
}

fn pipes(error: &std::io::Error) -> CommandError {
    CommandError::new(ErrorCode::Busy, format!("no more pipes can be opened: {error}"))
}
