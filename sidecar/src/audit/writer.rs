//! The thread that writes the trail: it takes everything that waits, appends it, and syncs once for all who wait for it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use tokio::sync::oneshot;

use super::file::{MAX_FILE, TrailFile};
use crate::disk::Disk;
use crate::store;

/// The file within the state folder.
const FILE: &str = "audit.log";
/// How many lines are taken at once.
const BATCH: usize = 512;
/// How many batches wait for a reader of standard output; more are dropped and counted.
const ECHO_QUEUE: usize = 64;
/// The stack of these threads, in bytes: they do little.
const STACK: usize = 256 * 1024;

/// Why there is no trail.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The file cannot be opened.
    #[error("open {path}")]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The thread cannot be started.
    #[error("start the thread of the audit trail")]
    Thread(#[source] io::Error),
}

/// One entry on its way; `done` hears once it is on the disk, or whether it failed for want of space.
pub(super) struct Line {
    pub(super) bytes: Vec<u8>,
    pub(super) done: Option<oneshot::Sender<Result<(), bool>>>,
}

/// Opens the file and starts the threads. They end when nobody can send lines any more.
pub(super) fn start(
    state_dir: &Path,
    disk: Arc<Disk>,
    lines: Receiver<Line>,
    echo: bool,
    dropped: Arc<AtomicU64>,
) -> Result<(), AuditError> {
    let path = state_dir.join(FILE);
    let trail =
        TrailFile::open(path.clone(), MAX_FILE).map_err(|source| AuditError::Open { path, source })?;
    let echo = echo.then(|| start_echo().map_err(AuditError::Thread)).transpose()?;
    let mut writer = Writer { trail, disk, echo, dropped };
    named("audit").spawn(move || writer.run(&lines)).map_err(AuditError::Thread)?;
    Ok(())
}

fn named(name: &str) -> thread::Builder {
    thread::Builder::new().name(name.to_owned()).stack_size(STACK)
}

/// Standard output is a pipe that somebody else may stop reading: it has a thread of its own.
fn start_echo() -> io::Result<SyncSender<Vec<u8>>> {
    let (batches, waiting) = sync_channel::<Vec<u8>>(ECHO_QUEUE);
    named("audit-echo").spawn(move || {
        while let Ok(batch) = waiting.recv() {
            let mut stdout = io::stdout().lock();
            if stdout.write_all(&batch).and_then(|()| stdout.flush()).is_err() {
                return;
            }
        }
    })?;
    Ok(batches)
}

struct Writer {
    trail: TrailFile,
    disk: Arc<Disk>,
    echo: Option<SyncSender<Vec<u8>>>,
    dropped: Arc<AtomicU64>,
}

impl Writer {
    fn run(&mut self, lines: &Receiver<Line>) {
        while let Ok(first) = lines.recv() {
            let (mut bytes, mut waiting, mut count) = (Vec::new(), Vec::new(), 0);
            let more = std::iter::from_fn(|| lines.try_recv().ok());
            for line in std::iter::once(first).chain(more).take(BATCH) {
                bytes.extend(line.bytes);
                waiting.extend(line.done);
                count += 1;
            }
            let written = self.write(&bytes, !waiting.is_empty());
            if let Err(error) = &written {
                self.dropped.fetch_add(count, Ordering::Relaxed);
                tracing::error!(%error, count, "audit entries not written");
            }
            let outcome = written.map_err(|error| store::is_full(&error));
            for done in waiting {
                // Whoever went away does not want to know.
                let _ = done.send(outcome);
            }
            if let Some(echo) = &self.echo
                && !bytes.is_empty()
                && echo.try_send(bytes).is_err()
            {
                self.dropped.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    fn write(&mut self, bytes: &[u8], sync: bool) -> io::Result<()> {
        let mut once = || {
            self.trail.append(bytes)?;
            if sync { self.trail.sync() } else { Ok(()) }
        };
        match once() {
            Err(error) if store::is_full(&error) => {
                self.disk.fill();
                once()
            }
            other => other,
        }
    }
}
