//! One connection: a header, input, an answer.

use std::io;
use std::time::Duration;

use cuddy_protocol::host::{
    FRAME_PREFIX, FrameKind, Header, MAX_RESULT, VERSION, command, decode_frame_prefix, decode_header,
    encode_frames, header_len,
};
use cuddy_protocol::{CommandError, ErrorCode};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::time;
use tokio_util::sync::CancellationToken;

use super::dispatch::Host;
use crate::log;

/// How long a header may take.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the answer may take to be read.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long an answered connection stays open for its caller to read and close.
const LINGER: Duration = Duration::from_secs(2);
/// The most bytes of input, the body's bound at the doors (D21). All of it is taken in at once: a sender that waits for a
/// program to read could not be seen to close.
const MAX_STDIN: usize = 4 * 1024 * 1024;

/// Answers one connection.
pub(super) async fn attend(stream: UnixStream, host: &Host, stop: CancellationToken) {
    let (mut reader, mut writer) = stream.into_split();
    let Ok(Ok(header)) = time::timeout(HEADER_TIMEOUT, read_header(&mut reader)).await else {
        // Nobody who speaks this protocol: nothing is answered.
        return;
    };
    let call = header.call.clone();
    let outcome = answer(header, &mut reader, host, &stop).await;
    if let Err(error) = &outcome
        && error.error_code == ErrorCode::Internal
    {
        log::line(format_args!("call {call:?}: {error}"));
    }
    finish(&mut reader, &mut writer, &encode(&outcome), &stop).await;
}

/// Refuses a connection beyond the bound.
pub(super) async fn refuse(stream: UnixStream, stop: CancellationToken) {
    let (mut reader, mut writer) = stream.into_split();
    let error = CommandError::new(ErrorCode::Busy, "the host has no room for one more call");
    finish(&mut reader, &mut writer, &encode(&Err(error)), &stop).await;
}

/// Writes the answer and waits until its caller has read it: one that is still sending must not find the connection closed.
async fn finish(
    reader: &mut OwnedReadHalf,
    writer: &mut OwnedWriteHalf,
    bytes: &[u8],
    stop: &CancellationToken,
) {
    // A caller that is gone reads nothing.
    let _ = time::timeout(WRITE_TIMEOUT, writer.write_all(bytes)).await;
    let _ = writer.shutdown().await;
    let mut nowhere = tokio::io::sink();
    tokio::select! {
        _ = time::timeout(LINGER, tokio::io::copy(reader, &mut nowhere)) => {}
        () = stop.cancelled() => {}
    }
}

async fn answer(
    header: Header,
    reader: &mut OwnedReadHalf,
    host: &Host,
    stop: &CancellationToken,
) -> Result<Value, CommandError> {
    let build = host.build();
    if header.v != VERSION || (header.build != build && header.command != command::HELLO) {
        let message = format!(
            "the host is of build {build} and the sidecar of build {}; restart the environment so that they agree",
            header.build
        );
        return Err(CommandError::new(ErrorCode::Unavailable, message));
    }
    let deadline = Duration::from_millis(header.deadline_ms);
    let (input, stdin) = mpsc::unbounded_channel();
    let cancel = stop.child_token();
    let work = host.run(&header.command, header.params, stdin, &cancel);
    let frames = read_frames(reader, input);
    tokio::pin!(work, frames);
    let mut listening = true;
    let mut late = false;
    let mut fault = None;
    let expired = time::sleep(deadline);
    tokio::pin!(expired);
    let outcome = loop {
        tokio::select! {
            outcome = &mut work => break outcome,
            ended = &mut frames, if listening => {
                listening = false;
                fault = ended.err();
                cancel.cancel();
            }
            () = &mut expired, if !late => {
                late = true;
                cancel.cancel();
            }
        }
    };
    match (outcome, fault) {
        (Err(error), _) if late && error.error_code == ErrorCode::Cancelled => {
            let message = format!("the call was ended at its deadline of {} ms", deadline.as_millis());
            Err(CommandError { details: error.details, ..CommandError::new(ErrorCode::Deadline, message) })
        }
        (Err(error), Some(fault)) if error.error_code == ErrorCode::Cancelled => Err(fault),
        (outcome, _) => outcome,
    }
}

async fn read_header(reader: &mut OwnedReadHalf) -> io::Result<Header> {
    let mut prefix = [0; 4];
    reader.read_exact(&mut prefix).await?;
    let len = header_len(prefix).map_err(io::Error::other)?;
    let mut json = vec![0; len];
    reader.read_exact(&mut json).await?;
    decode_header(&json).map_err(io::Error::other)
}

/// Reads frames of input until the connection ends, which takes the call back. An empty frame ends the input alone.
async fn read_frames(
    reader: &mut OwnedReadHalf,
    input: mpsc::UnboundedSender<Vec<u8>>,
) -> Result<(), CommandError> {
    let mut input = Some(input);
    let mut total = 0;
    loop {
        let mut prefix = [0; FRAME_PREFIX];
        if reader.read_exact(&mut prefix).await.is_err() {
            return Ok(());
        }
        let (kind, len) =
            decode_frame_prefix(prefix).map_err(|error| CommandError::invalid("$", error.to_string()))?;
        if kind != FrameKind::Stdin {
            return Err(CommandError::invalid("$", "frames of input alone"));
        }
        total += len;
        if total > MAX_STDIN {
            let message = format!("more than {MAX_STDIN} bytes of input; put them into a file first");
            return Err(CommandError::new(ErrorCode::TooLarge, message));
        }
        let mut bytes = vec![0; len];
        if reader.read_exact(&mut bytes).await.is_err() {
            return Ok(());
        }
        if len == 0 {
            input = None;
        } else if let Some(input) = &input {
            // A command that takes no input has dropped its end.
            let _ = input.send(bytes);
        }
    }
}

fn encode(outcome: &Result<Value, CommandError>) -> Vec<u8> {
    let (kind, json) = match outcome {
        Ok(value) => (FrameKind::Result, serde_json::to_vec(value)),
        Err(error) => (FrameKind::Error, serde_json::to_vec(error)),
    };
    let mut bytes = Vec::new();
    match json {
        Ok(json) if json.len() <= MAX_RESULT => {
            encode_frames(kind, &json, &mut bytes);
            encode_frames(kind, &[], &mut bytes);
        }
        _ => {
            let error = CommandError::new(
                ErrorCode::TooLarge,
                format!("the result is larger than {MAX_RESULT} bytes"),
            );
            encode_frames(FrameKind::Error, &serde_json::to_vec(&error).unwrap_or_default(), &mut bytes);
            encode_frames(FrameKind::Error, &[], &mut bytes);
        }
    }
    bytes
}
