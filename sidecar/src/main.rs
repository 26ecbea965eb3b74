//! `cuddy-sidecar`: settings, log, signals, application, exit code.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use cuddy_edge::process::{logging, signal};
use cuddy_sidecar::app;
use cuddy_sidecar::cli::{Cli, Verb};
use cuddy_sidecar::config::Settings;
use tokio_util::sync::CancellationToken;

/// The exit code of unusable settings (`EX_USAGE`).
const EXIT_USAGE: u8 = 64;
/// The exit code for a port that somebody else has taken (the number of `EADDRINUSE`): the pod has to be replaced.
const EXIT_PORT_TAKEN: u8 = 98;
/// Threads that run tasks.
const WORKERS: usize = 2;
/// Threads that wait for the disk. They are started at the start and kept: later there may be no process id left, which
/// hostile code of the same pod can see to.
const BLOCKING: usize = 2;
/// The stack of a thread, in bytes.
const STACK: usize = 1024 * 1024;

fn main() -> ExitCode {
    let Verb::Serve(args) = Cli::parse().verb;
    let settings = match Settings::parse(args) {
        Ok(settings) => settings,
        Err(mistakes) => {
            for mistake in mistakes {
                eprintln!("cuddy-sidecar: {mistake}");
            }
            return ExitCode::from(EXIT_USAGE);
        }
    };
    if let Err(error) = logging::init(settings.log_format, &settings.log) {
        eprintln!("cuddy-sidecar: CUDDY_LOG: {error}");
        return ExitCode::from(EXIT_USAGE);
    }
    match serve(settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "the sidecar ends");
            let taken = error.downcast_ref::<app::AppError>().is_some_and(app::AppError::is_port_taken);
            if taken { ExitCode::from(EXIT_PORT_TAKEN) } else { ExitCode::FAILURE }
        }
    }
}

fn serve(settings: Settings) -> anyhow::Result<()> {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o007));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .max_blocking_threads(BLOCKING)
        .thread_keep_alive(Duration::MAX)
        .thread_stack_size(STACK)
        .enable_all()
        .build()
        .context("start the threads")?;
    let served = runtime.block_on(async {
        warm_up().await;
        let shutdown = CancellationToken::new();
        let termination = signal::termination().context("wait for signals")?;
        let token = shutdown.clone();
        tokio::spawn(async move {
            let signal = termination.await;
            tracing::info!(signal, "ending");
            token.cancel();
        });
        app::run(settings, shutdown).await.map_err(anyhow::Error::from)
    });
    runtime.shutdown_timeout(Duration::from_millis(500));
    served
}

/// Starts the threads for the disk: as many at once as there may be, so that each is needed.
async fn warm_up() {
    let barrier = std::sync::Arc::new(std::sync::Barrier::new(BLOCKING));
    let waiting = (0..BLOCKING).map(|_| {
        let barrier = std::sync::Arc::clone(&barrier);
        tokio::task::spawn_blocking(move || barrier.wait().is_leader())
    });
    for started in futures::future::join_all(waiting).await {
        if let Err(error) = started {
            tracing::warn!(%error, "a thread for the disk");
        }
    }
}
