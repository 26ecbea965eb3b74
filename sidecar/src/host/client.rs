//! Asking the host: one connection per request, a deadline, and a bound on everything that comes back (D1, D37).

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cuddy_edge::handler::{Progress, ProgressStep};
use cuddy_protocol::host::{
    FRAME_PREFIX, FrameError, FrameKind, Header, Hello, HostActivity, MAX_RESULT, ProcessAnswer,
    ProcessQuery, VERSION, command, decode_frame_prefix, encode_frames, encode_header,
};
use cuddy_protocol::{CommandError, ErrorCode};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{reply, socket};
use crate::build_info;
use crate::leases::Processes;
use crate::text;

/// Results up to this size are read freely, 64 calls at once.
const SMALL: usize = 256 * 1024;
/// How many larger ones are read at once: each may take [`MAX_RESULT`], and the sidecar has 128 MiB.
const LARGE_AT_ONCE: usize = 2;
/// The largest answer to a question of the sidecar's own.
const MAX_OWN_RESULT: usize = 256 * 1024;
/// How long the host may take to answer one.
const OWN_DEADLINE: Duration = Duration::from_secs(1);
/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(2);

/// Why the host gave no result.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// It cannot be reached; nothing has been asked.
    #[error("connect to the host")]
    Connect(#[source] io::Error),
    /// The request cannot be sent, because of its size.
    #[error("write the request")]
    Request(#[source] FrameError),
    /// The connection broke after the request had been sent.
    #[error("read the host's answer")]
    Broken(#[source] io::Error),
    /// It does not keep to the protocol.
    #[error("understand the host's frame")]
    Frame(#[source] FrameError),
    /// It says too much.
    #[error("take a result over {max} bytes")]
    TooLarge {
        /// The bound.
        max: usize,
    },
    /// It takes too long.
    #[error("get an answer within {} ms", .0.as_millis())]
    Deadline(Duration),
    /// The caller took the call back.
    #[error("finish before the call was taken back")]
    Cancelled,
    /// It answered with an error.
    #[error("run the command")]
    Refused(#[source] CommandError),
}

impl HostError {
    /// Returns the error as callers read it. `changes` says whether the command may have changed something: then a broken
    /// connection leaves the outcome unknown, and a second try could run it twice.
    pub fn into_command_error(self, changes: bool) -> CommandError {
        match self {
            Self::Connect(error) => {
                tracing::debug!(%error, "the host cannot be reached");
                CommandError::new(
                    ErrorCode::Unavailable,
                    "the program inside the environment does not answer; it is started again by itself, try again in a moment",
                )
            }
            Self::Broken(error) if changes => {
                tracing::warn!(%error, "the host went away during a call");
                CommandError::new(
                    ErrorCode::OutcomeUnknown,
                    "the program inside the environment ended before it answered: the command may have run or not; look \
                     before you call again",
                )
            }
            Self::Broken(_) => CommandError::new(
                ErrorCode::Unavailable,
                "the program inside the environment ended before it answered; it is started again by itself, try again",
            ),
            Self::Request(FrameError::Length { max, .. }) => {
                let message = format!("the arguments are too large: {max} bytes at most, stdin apart");
                CommandError::new(ErrorCode::TooLarge, message)
            }
            Self::Request(error) | Self::Frame(error) => reply::not_understood(&error.to_string()),
            Self::TooLarge { max } => reply::not_understood(&format!("over {max} bytes")),
            Self::Deadline(time) if changes => {
                let message = format!(
                    "the program inside the environment did not answer within {} s: the command may have run or not; look \
                     before you call again",
                    time.as_secs()
                );
                CommandError::new(ErrorCode::OutcomeUnknown, message)
            }
            Self::Deadline(time) => {
                let message =
                    format!("the program inside the environment did not answer within {} s", time.as_secs());
                CommandError::new(ErrorCode::Deadline, message)
            }
            Self::Cancelled => CommandError::new(ErrorCode::Cancelled, "the call was taken back"),
            Self::Refused(error) => error,
        }
    }
}

/// One request.
#[derive(Debug)]
pub struct Ask<'a> {
    /// The command.
    pub command: &'a str,
    /// Its parameters.
    pub params: Value,
    /// What the process reads.
    pub stdin: Vec<u8>,
    /// How long it may take.
    pub deadline: Duration,
    /// An id for logs.
    pub call: &'a str,
    /// Where progress goes.
    pub progress: Progress,
    /// Ends it: the connection is closed.
    pub cancel: CancellationToken,
    /// The largest result, in bytes.
    pub max_result: usize,
}

/// The way to the host.
#[derive(Debug)]
pub struct HostClient {
    folder: PathBuf,
    build: String,
    large: Arc<Semaphore>,
}

#[derive(Deserialize)]
struct Step {
    progress: f64,
    #[serde(default)]
    total: Option<f64>,
    #[serde(default)]
    message: Option<String>,
}

impl HostClient {
    /// Returns the way to the host whose socket is in `folder`.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, build: build_info::build(), large: Arc::new(Semaphore::new(LARGE_AT_ONCE)) }
    }

    /// Sends a request and returns the JSON of its result. Dropping the future closes the connection, which ends the work.
    pub async fn ask(&self, ask: Ask<'_>) -> Result<Vec<u8>, HostError> {
        let (deadline, cancel) = (ask.deadline, ask.cancel.clone());
        tokio::select! {
            answer = tokio::time::timeout(deadline, self.exchange(ask)) => {
                answer.unwrap_or(Err(HostError::Deadline(deadline)))
            }
            () = cancel.cancelled() => Err(HostError::Cancelled),
        }
    }

    /// Returns the host's build and boot.
    pub async fn hello(&self) -> Result<Hello, CommandError> {
        self.own(command::HELLO, Value::Object(serde_json::Map::new())).await
    }

    /// Returns what runs in the runtime container.
    pub async fn activity(&self) -> Result<HostActivity, CommandError> {
        self.own(command::ACTIVITY, Value::Object(serde_json::Map::new())).await
    }

    async fn own<T: serde::de::DeserializeOwned>(
        &self,
        command: &str,
        params: Value,
    ) -> Result<T, CommandError> {
        let json = self
            .ask(Ask {
                command,
                params,
                stdin: Vec::new(),
                deadline: OWN_DEADLINE,
                call: command,
                progress: Progress::none(),
                cancel: CancellationToken::new(),
                max_result: MAX_OWN_RESULT,
            })
            .await
            .map_err(|error| error.into_command_error(false))?;
        reply::parse(&json)
    }

    async fn exchange(&self, ask: Ask<'_>) -> Result<Vec<u8>, HostError> {
        let header = encode_header(&Header {
            v: VERSION,
            build: self.build.clone(),
            call: ask.call.to_owned(),
            command: ask.command.to_owned(),
            params: ask.params,
            deadline_ms: u64::try_from(ask.deadline.as_millis()).unwrap_or(u64::MAX),
        })
        .map_err(HostError::Request)?;
        let timed_out = || HostError::Connect(io::ErrorKind::TimedOut.into());
        let stream = tokio::time::timeout(CONNECT, socket::connect(&self.folder))
            .await
            .map_err(|_| timed_out())?
            .map_err(HostError::Connect)?;
        let (mut from, mut to) = stream.into_split();
        let sending = async move {
            let mut bytes = header;
            if !ask.stdin.is_empty() {
                encode_frames(FrameKind::Stdin, &ask.stdin, &mut bytes);
            }
            encode_frames(FrameKind::Stdin, &[], &mut bytes);
            // A host that has heard enough may answer without reading on: what counts is its answer.
            if let Err(error) = to.write_all(&bytes).await {
                tracing::debug!(%error, "the host did not read all of a request");
            }
            // The write half stays open: its end would be a cancel.
            to
        };
        let reading = self.read(&mut from, ask.max_result, &ask.progress);
        let mut sending = std::pin::pin!(sending);
        let mut reading = std::pin::pin!(reading);
        tokio::select! {
            answer = &mut reading => answer,
            _open = &mut sending => reading.await,
        }
    }

    async fn read(
        &self,
        from: &mut tokio::net::unix::OwnedReadHalf,
        max: usize,
        progress: &Progress,
    ) -> Result<Vec<u8>, HostError> {
        let max = max.min(MAX_RESULT);
        let mut large = None;
        let (mut ending, mut json) = (None, Vec::new());
        loop {
            let mut prefix = [0; FRAME_PREFIX];
            from.read_exact(&mut prefix).await.map_err(HostError::Broken)?;
            let (kind, len) = decode_frame_prefix(prefix).map_err(HostError::Frame)?;
            match kind {
                FrameKind::Result | FrameKind::Error if len == 0 && ending.is_none_or(|k| k == kind) => {
                    return if kind == FrameKind::Result {
                        Ok(json)
                    } else {
                        Err(HostError::Refused(reply::error(&json)))
                    };
                }
                FrameKind::Result | FrameKind::Error => {
                    let max = if kind == FrameKind::Result { max } else { reply::MAX_ERROR };
                    if *ending.get_or_insert(kind) != kind || json.len() + len > max {
                        return Err(HostError::TooLarge { max });
                    }
                    if json.len() + len > SMALL && large.is_none() {
                        large = self.large.acquire().await.ok();
                    }
                    let start = json.len();
                    json.resize(start + len, 0);
                    from.read_exact(&mut json[start..]).await.map_err(HostError::Broken)?;
                }
                FrameKind::Progress | FrameKind::Stdout | FrameKind::Stderr | FrameKind::Stdin => {
                    let mut bytes = vec![0; len];
                    from.read_exact(&mut bytes).await.map_err(HostError::Broken)?;
                    if kind == FrameKind::Progress && progress.is_wanted() {
                        report(progress, &bytes);
                    }
                }
            }
        }
    }
}

/// Hands a step of progress on, if it is one.
fn report(progress: &Progress, json: &[u8]) {
    if let Ok(step) = serde_json::from_slice::<Step>(json)
        && step.progress.is_finite()
    {
        progress.report(ProgressStep {
            progress: step.progress,
            total: step.total.filter(|total| total.is_finite()),
            message: step.message.map(|message| text::one_line(&message, 1000)),
        });
    }
}

impl Processes for HostClient {
    fn identity(&self, pid: i32) -> BoxFuture<'_, Result<Option<String>, CommandError>> {
        Box::pin(async move {
            let params = serde_json::to_value(ProcessQuery { pid })
                .map_err(|e| CommandError::new(ErrorCode::Internal, e.to_string()))?;
            let answer: ProcessAnswer = self.own(command::PROCESS, params).await?;
            Ok(answer.identity.map(|identity| text::one_line(&identity, 200)))
        })
    }
}

#[cfg(test)]
mod tests;
