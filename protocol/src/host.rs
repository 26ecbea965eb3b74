//! How the sidecar asks the host for work (D1, D37): one unix connection per request, closing it cancels.
//!
//! ```text
//! sidecar -> host   u32 length, JSON Header; then frames of stdin, the last one empty
//! host -> sidecar   frames; the last is a result or an error
//! frame             u8 kind, u32 length (big endian), bytes
//! ```
//!
//! Pure: bytes in, bytes out. Each side of the connection brings its own IO and deadlines.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of this protocol.
pub const VERSION: u32 = 1;
/// The largest header, in bytes: 64 KiB of arguments and as much of variables, each byte escaped at worst (6 bytes for 1),
/// must fit, since a command that its schema allows may not fail here.
pub const MAX_HEADER: usize = 1024 * 1024;
/// The largest frame, in bytes.
pub const MAX_FRAME: usize = 64 * 1024;
/// The bytes before a frame's payload.
pub const FRAME_PREFIX: usize = 5;
/// The largest result or error, all its frames together, in bytes. Two streams of 1 MiB, JSON-escaped at worst (6 bytes
/// for 1) plus base64 for what is not UTF-8.
pub const MAX_RESULT: usize = 16 * 1024 * 1024;

/// The first thing on a connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Header {
    /// Always [`VERSION`].
    pub v: u32,
    /// The sidecar's build; another one than the host's is refused, except by `hello`.
    pub build: String,
    /// An id for logs.
    pub call: String,
    /// What to do: a [`HostCommand`]'s name.
    pub command: String,
    /// Its parameters.
    pub params: Value,
    /// How long the sidecar waits, in milliseconds; the host ends the work then.
    pub deadline_ms: u64,
}

/// Says which commands the host knows besides those of the registry that run there under their own names.
pub mod command {
    /// Answers [`super::Hello`].
    pub const HELLO: &str = "hello";
    /// Answers [`super::HostActivity`].
    pub const ACTIVITY: &str = "activity";
    /// Takes [`super::ProcessQuery`], answers [`super::ProcessAnswer`].
    pub const PROCESS: &str = "process";
}

/// The answer to `hello`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hello {
    /// The host's build.
    pub build: String,
    /// The host's boot: changes when `init` starts the host anew.
    pub boot_id: String,
}

/// One running job, as far as idle is concerned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunningJob {
    /// The job's id.
    pub id: String,
    /// What people see.
    pub name: String,
    /// When it started, RFC 3339.
    pub started_at: String,
    /// The supervisor's process.
    pub pid: i32,
}

/// What runs in the runtime container. Hostile: it keeps an environment up for at most `maxBusySeconds`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostActivity {
    /// The running jobs, at most 100.
    pub jobs: Vec<RunningJob>,
    /// Seconds since the last input to a terminal that was opened with `kubectl exec`; absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal_idle_seconds: Option<u64>,
}

/// Asks whether a process lives, to reclaim the lease it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProcessQuery {
    /// The process id, as the runtime container counts.
    pub pid: i32,
}

/// The answer: the identity of the process, by which a later process of the same number is told apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessAnswer {
    /// `<pid>:<start time>:<boot id>`; absent when there is no such process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
}

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// Input of the process; an empty one ends it.
    Stdin = 1,
    /// Output of the process.
    Stdout = 2,
    /// Errors of the process.
    Stderr = 3,
    /// Progress: JSON.
    Progress = 4,
    /// A part of the result's JSON; an empty one ends it, and the connection.
    Result = 5,
    /// A part of the error's JSON; an empty one ends it, and the connection.
    Error = 6,
}

/// Why bytes are not a frame or a header. The connection is closed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The kind is none of the six.
    #[error("frame of unknown kind {0}")]
    Kind(u8),
    /// The length is over the bound.
    #[error("{what} of {len} bytes, over the bound of {max}")]
    Length { what: &'static str, len: usize, max: usize },
    /// The header is not the JSON it should be.
    #[error("header that cannot be read: {0}")]
    Header(String),
}

impl TryFrom<u8> for FrameKind {
    type Error = FrameError;
    fn try_from(byte: u8) -> Result<Self, FrameError> {
        Ok(match byte {
            1 => Self::Stdin,
            2 => Self::Stdout,
            3 => Self::Stderr,
            4 => Self::Progress,
            5 => Self::Result,
            6 => Self::Error,
            other => return Err(FrameError::Kind(other)),
        })
    }
}

/// Returns the bytes of a header, its length first.
pub fn encode_header(header: &Header) -> Result<Vec<u8>, FrameError> {
    let json = serde_json::to_vec(header).map_err(|e| FrameError::Header(e.to_string()))?;
    let len = header_len(u32::try_from(json.len()).unwrap_or(u32::MAX).to_be_bytes())?;
    let mut bytes = Vec::with_capacity(4 + len);
    bytes.extend_from_slice(&(len as u32).to_be_bytes());
    bytes.extend_from_slice(&json);
    Ok(bytes)
}

/// Returns the length that a header's first four bytes announce.
pub fn header_len(prefix: [u8; 4]) -> Result<usize, FrameError> {
    let len = u32::from_be_bytes(prefix) as usize;
    if len > MAX_HEADER {
        return Err(FrameError::Length { what: "header", len, max: MAX_HEADER });
    }
    Ok(len)
}

/// Returns a header from its JSON.
pub fn decode_header(json: &[u8]) -> Result<Header, FrameError> {
    serde_json::from_slice(json).map_err(|e| FrameError::Header(e.to_string()))
}

/// Appends frames of one kind for all of `payload`, each at most [`MAX_FRAME`] long. An empty payload makes one empty frame.
pub fn encode_frames(kind: FrameKind, payload: &[u8], out: &mut Vec<u8>) {
    let mut push = |chunk: &[u8]| {
        out.push(kind as u8);
        out.extend_from_slice(&(chunk.len() as u32).to_be_bytes());
        out.extend_from_slice(chunk);
    };
    if payload.is_empty() {
        push(payload);
    }
    payload.chunks(MAX_FRAME).for_each(push);
}

/// Returns kind and length from a frame's first five bytes.
pub fn decode_frame_prefix(prefix: [u8; FRAME_PREFIX]) -> Result<(FrameKind, usize), FrameError> {
    let kind = FrameKind::try_from(prefix[0])?;
    let len = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
    if len > MAX_FRAME {
        return Err(FrameError::Length { what: "frame", len, max: MAX_FRAME });
    }
    Ok((kind, len))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_header_survives_the_wire() {
        let header = Header {
            v: VERSION,
            build: "0.1.0".to_owned(),
            call: "c1".to_owned(),
            command: command::HELLO.to_owned(),
            params: Value::Null,
            deadline_ms: 1000,
        };
        let bytes = encode_header(&header).unwrap();
        let len = header_len([bytes[0], bytes[1], bytes[2], bytes[3]]).unwrap();
        assert_eq!(len, bytes.len() - 4);
        assert_eq!(decode_header(&bytes[4..]).unwrap(), header);
    }

    #[test]
    fn bounds_are_kept() {
        assert!(header_len((MAX_HEADER as u32 + 1).to_be_bytes()).is_err());
        assert_eq!(decode_frame_prefix([9, 0, 0, 0, 0]), Err(FrameError::Kind(9)));
        assert!(decode_frame_prefix([2, 0, 1, 0, 1]).is_err());
        assert_eq!(decode_frame_prefix([2, 0, 1, 0, 0]), Ok((FrameKind::Stdout, MAX_FRAME)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn frames_add_up(payload in proptest::collection::vec(any::<u8>(), 0..150_000)) {
            let mut bytes = Vec::new();
            encode_frames(FrameKind::Stdout, &payload, &mut bytes);
            let (mut rest, mut got) = (bytes.as_slice(), Vec::new());
            while !rest.is_empty() {
                let (kind, len) = decode_frame_prefix(rest[..FRAME_PREFIX].try_into().unwrap()).unwrap();
                prop_assert_eq!(kind, FrameKind::Stdout);
                got.extend_from_slice(&rest[FRAME_PREFIX..FRAME_PREFIX + len]);
                rest = &rest[FRAME_PREFIX + len..];
            }
            prop_assert_eq!(got, payload);
        }
    }
}
