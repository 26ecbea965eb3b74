//! `host`: answers the sidecar over a unix socket.
//!
//! One thread, one connection per request; the connection's end is the call's end. What may block (the folder of records,
//! `/proc`) runs beside it on a few threads.

mod connection;
mod dispatch;
mod listener;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cuddy_protocol::{CommandError, ErrorCode};
use rustix::process::{getpid, set_child_subreaper};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tokio::time;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::log;
use crate::settings::Settings;
use dispatch::Host;

/// The most connections at a time; the sidecar's own bounds are below it.
const MAX_CONNECTIONS: usize = 128;
/// The most threads for what may block: a cancel may take one for ten seconds, and reading must go on beside many. They come
/// when needed and go a second later.
const BLOCKING_THREADS: usize = 32;
/// How long calls have to end once the host is asked to stop.
const DRAIN: Duration = Duration::from_secs(6);
/// How long the listener rests after the kernel refused a connection, so that it does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Why the host cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// No runtime.
    #[error("start the runtime")]
    Runtime(#[source] io::Error),
    /// No socket.
    #[error("bind the socket {}", path.display())]
    Bind {
        /// Where.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// No signals.
    #[error("listen to signals")]
    Signals(#[source] io::Error),
}

/// Serves until TERM or INT.
pub fn run(settings: Settings) -> Result<(), ServeError> {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o007));
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_keep_alive(Duration::from_secs(1))
        .build()
        .map_err(ServeError::Runtime)?;
    runtime.block_on(serve(settings))
}

async fn serve(settings: Settings) -> Result<(), ServeError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(ServeError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Signals)?;
    // What a killed supervisor leaves behind comes to the host; where that is not to be had, to `init`.
    if let Err(errno) = set_child_subreaper(Some(getpid())) {
        log::line(format_args!("become the parent of orphans: {errno}"));
    }
    let path = settings.socket_dir.join(cuddy_protocol::places::HOST_SOCKET);
    let listener = listener::bind(&path).map_err(|source| ServeError::Bind { path: path.clone(), source })?;
    let host = Arc::new(Host::new(settings));
    let (calls, stop) = (TaskTracker::new(), CancellationToken::new());
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let refusals = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    log::line(format_args!("build {} answers at {}", host.build(), path.display()));
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    log::line(format_args!("accept a connection: {error}"));
                    time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
        };
        match Arc::clone(&room).try_acquire_owned() {
            Ok(permit) => {
                let (host, stop) = (Arc::clone(&host), stop.child_token());
                calls.spawn(async move {
                    connection::attend(stream, &host, stop).await;
                    drop(permit);
                });
            }
            // Beyond this bound nobody is told why: the connection is closed.
            Err(_) => {
                if let Ok(permit) = Arc::clone(&refusals).try_acquire_owned() {
                    let stop = stop.child_token();
                    calls.spawn(async move {
                        connection::refuse(stream, stop).await;
                        drop(permit);
                    });
                }
            }
        }
    }
    drop(listener);
    stop.cancel();
    calls.close();
    if time::timeout(DRAIN, calls.wait()).await.is_err() {
        log::line("calls are still being ended");
    }
    Ok(())
}

/// Runs what may block on a thread of its own.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CommandError> + Send + 'static,
) -> Result<T, CommandError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| {
        Err(CommandError::new(ErrorCode::Internal, "a task of the host ended without a result"))
    })
}
