//! `exec_job_await`

use std::sync::Arc;
use std::time::{Duration, Instant};

use cuddy_commands::exec::job_await::{
    DEFAULT_TIMEOUT_SECONDS, ExecJobAwaitOutput, ExecJobAwaitParams, MAX_TIMEOUT_SECONDS,
};
use cuddy_protocol::job::{JobRecord, JobState};
use cuddy_protocol::{CommandError, ErrorCode};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time;
use tokio_util::sync::CancellationToken;

use super::id::JobId;
use super::store::Store;
use crate::process::Identity;
use crate::serve::blocking;

/// How often a record is read anew although nothing was heard of its supervisor.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Waits for a job, a bounded time. A caller that goes away ends the wait, not the job.
pub async fn run(
    store: Arc<Store>,
    params: ExecJobAwaitParams,
    cancel: &CancellationToken,
) -> Result<ExecJobAwaitOutput, CommandError> {
    let id = JobId::given(&params.id)?;
    let timeout_seconds = bound(params.timeout_seconds)?;
    let begin = Instant::now();
    let end = begin + Duration::from_secs(timeout_seconds);
    loop {
        let (stored, job) = {
            let (store, id) = (Arc::clone(&store), id.clone());
            blocking(move || store.get_stored(&id)).await?
        };
        let Some(stored) = stored else { return Ok(answer(job, begin, timeout_seconds, false)) };
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(answer(job, begin, timeout_seconds, true));
        }
        tokio::select! {
            () = ended(stored.supervisor) => {}
            () = time::sleep(left.min(LOOK_AGAIN)) => {}
            () = cancel.cancelled() => return Err(CommandError::new(ErrorCode::Cancelled, "the caller went away")),
        }
    }
}

fn bound(asked: Option<u64>) -> Result<u64, CommandError> {
    match asked {
        None | Some(0) => Ok(DEFAULT_TIMEOUT_SECONDS),
        Some(seconds) if seconds <= MAX_TIMEOUT_SECONDS => Ok(seconds),
        Some(_) => {
            let expected = format!("at most {MAX_TIMEOUT_SECONDS}; call again to keep waiting");
            Err(CommandError::invalid("$.timeoutSeconds", expected))
        }
    }
}

fn answer(job: JobRecord, begin: Instant, timeout_seconds: u64, timed_out: bool) -> ExecJobAwaitOutput {
    debug_assert!(timed_out == (job.state == JobState::Running));
    let waited_seconds = (begin.elapsed().as_secs_f64() * 1000.0).round() / 1000.0;
    ExecJobAwaitOutput { job, timed_out, waited_seconds, timeout_seconds }
}

/// Returns when this process has ended; at once when it has already.
async fn ended(supervisor: Identity) {
    let Some(handle) =
        Pid::from_raw(supervisor.pid).and_then(|pid| pidfd_open(pid, PidfdFlags::NONBLOCK).ok())
    else {
        return;
    };
    if !supervisor.is_alive() {
        return;
    }
    #[expect(deprecated, reason = "its successor is unsafe; an OwnedFd is what the deprecation asks for")]
    let watched = AsyncFd::with_interest(handle, Interest::READABLE);
    match watched {
        Ok(handle) => {
            let _ = handle.readable().await;
        }
        // No descriptor left to watch with: the caller looks again by itself.
        Err(_) => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_bounded() {
        assert_eq!(bound(None).unwrap(), 30);
        assert_eq!(bound(Some(0)).unwrap(), 30);
        assert_eq!(bound(Some(600)).unwrap(), 600);
        assert_eq!(bound(Some(601)).unwrap_err().error_code, ErrorCode::InvalidParams);
        assert_eq!(bound(Some(7200)).unwrap_err().error_code, ErrorCode::InvalidParams);
    }
}
