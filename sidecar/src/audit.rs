//! The trail: JSON lines on the volume (DESIGN section 11). What changes something is on the disk before it happens, many
//! entries with one sync; what reads is written without waiting.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};

use cuddy_commands::Command;
use cuddy_commands::Declaration;
use cuddy_commands::exec::raw::{ExecRaw, ExecRawOutput, ExecRawParams};
use cuddy_edge::audit::{Audit, AuditEntry};
use cuddy_protocol::{CommandError, ErrorCode};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::disk::Disk;

mod file;
mod redact;
mod writer;

pub use writer::AuditError;
use writer::Line;

/// How many entries wait at most: two seconds of the most that one environment has been seen to write.
const QUEUE: usize = 4096;
/// How many lines a second callers without a bearer may cause; they could fill the disk otherwise.
const UNPROVED_PER_SECOND: f64 = 50.0;

/// The trail's end that entries are given to.
pub struct AuditLog {
    lines: SyncSender<Line>,
    dropped: Arc<AtomicU64>,
    unproved: Mutex<(f64, Instant)>,
}

impl fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditLog").field("dropped", &self.dropped()).finish_non_exhaustive()
    }
}

impl AuditLog {
    /// Opens the trail in a state folder and starts its threads. With `echo`, lines go to standard output too. Blocks.
    pub fn start(state_dir: &Path, disk: Arc<Disk>, echo: bool) -> Result<Self, AuditError> {
        let dropped = Arc::new(AtomicU64::new(0));
        let (lines, waiting) = sync_channel(QUEUE);
        writer::start(state_dir, disk, waiting, echo, Arc::clone(&dropped))?;
        let unproved = Mutex::new((UNPROVED_PER_SECOND, Instant::now()));
        Ok(Self { lines, dropped, unproved })
    }

    /// Returns how many entries were dropped since the start.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Waits until everything that was given before is on the disk.
    pub async fn flush(&self) -> Result<(), CommandError> {
        self.durable(Vec::new()).await
    }

    async fn durable(&self, bytes: Vec<u8>) -> Result<(), CommandError> {
        let (done, written) = oneshot::channel();
        if self.lines.try_send(Line { bytes, done: Some(done) }).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            let message = "the audit trail cannot keep up, so nothing was run: try again";
            return Err(CommandError::new(ErrorCode::Busy, message));
        }
        match written.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(true)) => Err(CommandError::new(
                ErrorCode::DiskFull,
                "no space is left for the audit trail, so nothing was run: delete something first",
            )),
            Ok(Err(false)) | Err(_) => Err(CommandError::new(
                ErrorCode::Internal,
                "the audit trail cannot be written, so nothing was run",
            )),
        }
    }

    /// Says whether an entry may be written: those of callers without a bearer are counted.
    fn allows(&self, entry: &AuditEntry) -> bool {
        if entry.kid.is_some() {
            return true;
        }
        let mut unproved = self.unproved.lock();
        let now = Instant::now();
        let gained = now.duration_since(unproved.1).as_secs_f64() * UNPROVED_PER_SECOND;
        *unproved = ((unproved.0 + gained).min(UNPROVED_PER_SECOND), now);
        if unproved.0 < 1.0 {
            return false;
        }
        unproved.0 -= 1.0;
        true
    }
}

fn line(entry: &AuditEntry) -> Result<Vec<u8>, CommandError> {
    let mut bytes = serde_json::to_vec(entry).map_err(|e| {
        CommandError::new(ErrorCode::Internal, format!("an audit entry that cannot be written: {e}"))
    })?;
    bytes.push(b'\n');
    Ok(bytes)
}

impl Audit for AuditLog {
    fn begin(&self, entry: AuditEntry) -> BoxFuture<'_, Result<(), CommandError>> {
        Box::pin(async move {
            if !self.allows(&entry) {
                let message = "more than 50 calls a second without a bearer: try again in a moment";
                return Err(CommandError::new(ErrorCode::Busy, message));
            }
            self.durable(line(&entry)?).await
        })
    }

    fn end(&self, entry: AuditEntry) {
        let bytes = if self.allows(&entry) { line(&entry).ok() } else { None };
        let sent = bytes.map(|bytes| self.lines.try_send(Line { bytes, done: None }));
        if !matches!(sent, Some(Ok(()))) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            if let Some(Err(TrySendError::Disconnected(_))) = sent {
                tracing::error!("the audit trail has ended");
            }
        }
    }

    fn detail(&self, declaration: &Declaration, arguments: &Value, result: Option<&Value>) -> Option<Value> {
        if declaration.name != ExecRaw::DECLARATION.name {
            return None;
        }
        let params: ExecRawParams = serde_json::from_value(arguments.clone()).ok()?;
        let mut detail = json!({ "argv": redact::argv(&params.argv) });
        if let Some(cwd) = params.cwd {
            detail["cwd"] = crate::text::one_line(&cwd, 1000).into();
        }
        if let Some(output) = result.and_then(|r| serde_json::from_value::<ExecRawOutput>(r.clone()).ok()) {
            detail["exitCode"] = output.exit_code.into();
            if let Some(job) = output.job_id {
                detail["jobId"] = crate::text::one_line(&job, crate::text::NAME).into();
            }
        }
        Some(detail)
    }
}

#[cfg(test)]
mod tests;
