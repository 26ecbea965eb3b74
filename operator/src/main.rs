//! `cuddy-operator`: settings, log, signals, application, exit code.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use cuddy_operator::app::{self, AppError};
use cuddy_operator::chain::Chain;
use cuddy_operator::cli::{Cli, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

/// The exit code of unusable settings (`EX_USAGE`).
const USAGE: u8 = 64;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let code = if error.use_stderr() { USAGE } else { 0 };
            // Nobody is left to tell when the terminal is gone.
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    match cli.command {
        Command::Crd => crd(),
        Command::Run(args) => match args.settings() {
            Ok(settings) => run(settings),
            Err(mistakes) => {
                for mistake in mistakes {
                    eprintln!("cuddy-operator: {mistake}");
                }
                ExitCode::from(USAGE)
            }
        },
    }
}

/// Prints the CRDs.
fn crd() -> ExitCode {
    let printed = cuddy_operator::crd::yaml()
        .map_err(|error| error.to_string())
        .and_then(|yaml| std::io::stdout().write_all(yaml.as_bytes()).map_err(|error| error.to_string()));
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cuddy-operator: failed to print the CRDs: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the operator until a signal or the loss of its lease.
fn run(settings: app::Settings) -> ExitCode {
    // kube takes the process's provider; there is one only if it is named.
    let _ = rustls::crypto::ring::default_provider().install_default();
    log();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "failed to start threads");
            return ExitCode::FAILURE;
        }
    };
    let result = runtime.block_on(until_signal(settings));
    // Who has lost the lease must not wait for anything that is under way.
    runtime.shutdown_background();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = %Chain(&error), "the operator ends");
            ExitCode::FAILURE
        }
    }
}

async fn until_signal(settings: app::Settings) -> Result<(), AppError> {
    let shutdown = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate()).map_err(AppError::Signal)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(AppError::Signal)?;
    let application = app::run(settings, shutdown.clone());
    let signals = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("asked to end");
        shutdown.cancel();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        result = application => result,
        () = signals => Ok(()),
    }
}

/// Logs JSON lines to stderr; `CUDDY_LOG` has the levels.
fn log() {
    let filter = EnvFilter::try_from_env("CUDDY_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    // This module prints a whole answer, a Secret too, when it is not of the expected shape.
    let filter = match "kube_client::client=error".parse() {
        Ok(directive) => filter.add_directive(directive),
        Err(_) => filter,
    };
    tracing_subscriber::fmt().json().with_env_filter(filter).with_writer(std::io::stderr).init();
}
