//! What host and supervisor say to each other: a request with file descriptors, then replies.
//!
//! Both sides are the same program, so unknown fields are a fault. Frames: `u32` length (big endian), JSON.

use std::collections::BTreeMap;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use cuddy_protocol::CommandError;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

use crate::process::reap::Exit;

/// The largest message, in bytes: 64 KiB of arguments, JSON-escaped at worst, and as much environment.
const MAX_MESSAGE: usize = 1024 * 1024;
/// The most descriptors that come with a request.
const MAX_FDS: usize = 4;

/// What to run. Where: a descriptor of the folder comes with the request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Work {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// What is added to the environment.
    pub env: BTreeMap<String, String>,
}

/// A background job.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JobOrder {
    /// The handle, sanitised.
    pub id: String,
    /// What people see.
    pub name: String,
    /// What to run.
    pub work: Work,
    /// The folder it runs in, for the record.
    pub dir: String,
    /// Where records and output go.
    pub jobs_dir: PathBuf,
    /// Where the beat goes.
    pub beats_dir: PathBuf,
}

/// What the supervisor is for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Request {
    /// A foreground call. Descriptors: folder, stdin, stdout, stderr.
    Call(Work),
    /// A background job. Descriptors: folder, and stdin where there is input.
    Job(Box<JobOrder>),
}

/// What the supervisor answers, once.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Reply {
    /// A job: it runs, and its record is on the disk.
    Started {
        /// The supervisor's process.
        pid: i32,
    },
    /// A call: it is over, and so is everything that it started.
    Ended {
        /// How the program itself ended.
        exit: Exit,
        /// What could not be ended.
        survivors: Vec<String>,
    },
    /// Nothing was run.
    Failed(CommandError),
}

fn length(json: &[u8]) -> io::Result<[u8; 4]> {
    match u32::try_from(json.len()) {
        Ok(len) if json.len() <= MAX_MESSAGE => Ok(len.to_be_bytes()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "message over its bound")),
    }
}

/// Sends the length of a message and the descriptors; the message itself, which is returned, follows. On a fresh socket this
/// never blocks.
pub fn send_head(socket: &UnixStream, request: &Request, fds: &[BorrowedFd<'_>]) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(request)?;
    let head = length(&json)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if fds.len() > MAX_FDS || !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors"));
    }
    let sent = sendmsg(socket, &[IoSlice::new(&head)], &mut ancillary, SendFlags::NOSIGNAL)?;
    if sent == head.len() { Ok(json) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Receives a request and its descriptors.
pub fn receive(socket: &mut UnixStream) -> io::Result<(Request, Vec<OwnedFd>)> {
    let mut head = [0_u8; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(
        socket.as_fd(),
        &mut [IoSliceMut::new(&mut head)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL,
    )?;
    if got.bytes != head.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut fds = Vec::with_capacity(MAX_FDS);
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            fds.extend(received);
        }
    }
    let request = serde_json::from_slice(&body(socket, head)?)?;
    Ok((request, fds))
}

fn body(socket: &mut UnixStream, head: [u8; 4]) -> io::Result<Vec<u8>> {
    let len = u32::from_be_bytes(head) as usize;
    if len > MAX_MESSAGE {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "message over its bound"));
    }
    let mut json = vec![0; len];
    socket.read_exact(&mut json)?;
    Ok(json)
}

/// Sends a reply.
pub fn send_reply(socket: &mut UnixStream, reply: &Reply) -> io::Result<()> {
    let json = serde_json::to_vec(reply)?;
    let mut message = length(&json)?.to_vec();
    message.extend_from_slice(&json);
    socket.write_all(&message)
}

/// Returns a reply from its bytes, length first, as far as they are all there.
pub fn decode_reply(bytes: &[u8]) -> Option<Reply> {
    let (head, json) = bytes.split_first_chunk::<4>()?;
    let len = u32::from_be_bytes(*head) as usize;
    serde_json::from_slice(json.get(..len)?).ok()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_request_carries_descriptors() {
        let (here, mut there) = UnixStream::pair().unwrap();
        let null = File::open("/dev/null").unwrap();
        let root = File::open("/").unwrap();
        let work = Work { argv: vec!["a".to_owned()], env: BTreeMap::new() };
        let json = send_head(&here, &Request::Call(work), &[root.as_fd(), null.as_fd()]).unwrap();
        (&here).write_all(&json).unwrap();
        let (request, fds) = receive(&mut there).unwrap();
        assert!(matches!(request, Request::Call(work) if work.argv == ["a"]));
        let inodes: Vec<u64> = fds.into_iter().map(|fd| File::from(fd).metadata().unwrap().ino()).collect();
        assert_eq!(inodes, [root, null].map(|f| f.metadata().unwrap().ino()));
    }

    #[test]
    fn a_reply_is_whole_or_none() {
        let (mut here, mut there) = UnixStream::pair().unwrap();
        send_reply(&mut here, &Reply::Started { pid: 7 }).unwrap();
        drop(here);
        let mut bytes = Vec::new();
        there.read_to_end(&mut bytes).unwrap();
        assert!(matches!(decode_reply(&bytes), Some(Reply::Started { pid: 7 })));
        assert!(decode_reply(&bytes[..bytes.len() - 1]).is_none() && decode_reply(&[]).is_none());
    }
}
