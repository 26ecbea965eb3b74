//! Signals as bytes in a socket, so that a plain poll loop wakes up for them.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;
use signal_hook::{flag, low_level::pipe};

/// The signals that `init` and the supervisor listen to: the end of a child, and the request to stop.
#[derive(Debug)]
pub struct Signals {
    wake: UnixStream,
    stop: Arc<AtomicBool>,
}

impl Signals {
    /// Starts to listen. Handlers are reset in programs that are started later, by the kernel.
    pub fn listen() -> io::Result<Self> {
        let (wake, writer) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [Signal::TERM, Signal::INT] {
            // The flag first: whoever is woken must find it set.
            flag::register(signal.as_raw(), Arc::clone(&stop))?;
            pipe::register(signal.as_raw(), writer.try_clone()?)?;
        }
        pipe::register(Signal::CHILD.as_raw(), writer)?;
        Ok(Self { wake, stop })
    }

    /// Returns what to poll.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Takes the bytes out, so that the next poll waits for the next signal.
    pub fn clear(&self) {
        let mut bytes = [0_u8; 256];
        while matches!((&self.wake).read(&mut bytes), Ok(n) if n > 0) {}
    }

    /// Says whether TERM or INT has come.
    pub fn stop_asked(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }
}
