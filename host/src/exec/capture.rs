//! Keeping the beginning of a stream and counting the rest.

use std::io;

use cuddy_commands::exec::raw::STREAM_LIMIT_BYTES;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::jobs::page::unfinished;

/// How much is read at once.
const CHUNK: usize = 64 * 1024;

/// A stream as far as it is kept.
#[derive(Debug, Default)]
pub struct Capture {
    kept: Vec<u8>,
    total: u64,
    chunk: Vec<u8>,
}

impl Capture {
    /// Reads to the end. Cancel safe: what has been read stays.
    pub async fn read(&mut self, mut stream: impl AsyncRead + Unpin) -> io::Result<()> {
        self.chunk.resize(CHUNK, 0);
        loop {
            let len = match stream.read(&mut self.chunk).await {
                Ok(0) => break,
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.total += len as u64;
            let room = (STREAM_LIMIT_BYTES - self.kept.len()).min(len);
            self.kept.extend_from_slice(&self.chunk[..room]);
        }
        Ok(())
    }

    /// Returns how many bytes there were.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns what is kept. Where it was cut, it ends between characters.
    pub fn finish(mut self) -> Captured {
        let truncated = self.total > self.kept.len() as u64;
        if truncated {
            self.kept.truncate(self.kept.len() - unfinished(&self.kept));
        }
        Captured { bytes: self.kept, total: self.total, truncated }
    }
}

/// A stream that has ended.
#[derive(Debug)]
pub struct Captured {
    /// The beginning.
    pub bytes: Vec<u8>,
    /// How many bytes there were.
    pub total: u64,
    /// Whether some are missing.
    pub truncated: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture(content: &[u8]) -> Captured {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut capture = Capture::default();
        runtime.block_on(capture.read(content)).unwrap();
        capture.finish()
    }

    #[test]
    fn the_beginning_is_kept_and_the_rest_counted() {
        let short = capture(b"abc");
        assert_eq!((short.bytes.as_slice(), short.total, short.truncated), (&b"abc"[..], 3, false));
        let exact = capture(&vec![b'x'; STREAM_LIMIT_BYTES]);
        assert_eq!((exact.bytes.len(), exact.truncated), (STREAM_LIMIT_BYTES, false));
        let long = capture(&vec![b'x'; STREAM_LIMIT_BYTES * 3 + 1]);
        assert_eq!((long.bytes.len(), long.total), (STREAM_LIMIT_BYTES, STREAM_LIMIT_BYTES as u64 * 3 + 1));
        assert!(long.truncated);
    }

    #[test]
    fn a_cut_never_splits_a_character() {
        let mut text = "x".to_owned();
        while text.len() <= STREAM_LIMIT_BYTES {
            text.push('é');
        }
        let cut = capture(text.as_bytes());
        assert_eq!(cut.bytes.len(), STREAM_LIMIT_BYTES - 1);
        assert!(String::from_utf8(cut.bytes).is_ok());
    }
}
