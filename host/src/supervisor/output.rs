//! A job's output: the pipe that the work writes to, and the file that keeps the beginning of it.

use std::fs::File;
use std::io::{self, Read, Write};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// How much is read at once.
const CHUNK: usize = 64 * 1024;
/// How many chunks are read before other things have their turn.
const CHUNKS_PER_TURN: usize = 16;

/// Output on its way from the pipe to the file.
pub(super) struct Output {
    pipe: File,
    file: File,
    limit: u64,
    kept: u64,
    printed: u64,
    fault: Option<String>,
    open: bool,
    chunk: Box<[u8]>,
}

impl Output {
    /// Returns an output that keeps the first `limit` bytes of the pipe in the file.
    pub(super) fn new(pipe: File, file: File, limit: u64) -> io::Result<Self> {
        fcntl_setfl(&pipe, fcntl_getfl(&pipe)? | OFlags::NONBLOCK)?;
        let chunk = vec![0; CHUNK].into_boxed_slice();
        Ok(Self { pipe, file, limit, kept: 0, printed: 0, fault: None, open: true, chunk })
    }

    /// Returns the pipe while somebody may write to it.
    pub(super) fn pipe(&self) -> Option<&File> {
        self.open.then_some(&self.pipe)
    }

    /// Returns how many bytes have been printed.
    pub(super) fn printed(&self) -> u64 {
        self.printed
    }

    /// Says whether some were dropped.
    pub(super) fn is_truncated(&self) -> bool {
        self.kept < self.printed
    }

    /// Returns why the file could not be written, if it could not.
    pub(super) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Takes in what the pipe holds, a bounded amount, and says whether there may be more.
    pub(super) fn take(&mut self) -> bool {
        for _ in 0..CHUNKS_PER_TURN {
            match self.pipe.read(&mut self.chunk) {
                Ok(0) => {
                    self.open = false;
                    return false;
                }
                Ok(len) => self.keep(len),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Err(_) => {
                    self.open = false;
                    return false;
                }
            }
        }
        true
    }

    /// Takes in everything that is left after the last writer has ended.
    pub(super) fn drain(&mut self) {
        while self.open && self.take() {}
    }

    fn keep(&mut self, len: usize) {
        self.printed += len as u64;
        let room = usize::try_from(self.limit - self.kept).unwrap_or(usize::MAX).min(len);
        // After a fault nothing more is kept: the file has no gaps, so that offsets mean what they say.
        if room == 0 || self.fault.is_some() {
            return;
        }
        match self.file.write_all(&self.chunk[..room]) {
            Ok(()) => self.kept += room as u64,
            Err(error) => {
                self.kept = self.file.metadata().map_or(self.kept, |m| m.len());
                self.fault = Some(error.to_string());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_beginning_is_kept_and_all_is_counted() {
        let (reader, writer) = io::pipe().unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut output =
            Output::new(File::from(std::os::fd::OwnedFd::from(reader)), file.reopen().unwrap(), 5).unwrap();
        (&writer).write_all(b"abc").unwrap();
        assert!(!output.take() && output.pipe().is_some());
        assert!(!output.is_truncated());
        (&writer).write_all(b"defgh").unwrap();
        drop(writer);
        output.drain();
        assert_eq!((output.printed(), output.is_truncated(), output.fault()), (8, true, None));
        assert!(output.pipe().is_none());
        assert_eq!(std::fs::read(file.path()).unwrap(), b"abcde");
    }

    #[test]
    fn a_full_disk_is_told_and_leaves_no_gap() {
        let (reader, writer) = io::pipe().unwrap();
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut output = Output::new(File::from(std::os::fd::OwnedFd::from(reader)), full, 100).unwrap();
        (&writer).write_all(b"abc").unwrap();
        drop(writer);
        output.drain();
        assert!(output.fault().unwrap().contains("No space left"));
        assert!(output.is_truncated());
        assert_eq!(output.printed(), 3);
    }
}
