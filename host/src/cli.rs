//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use cuddy_protocol::places;

use crate::settings::Settings;
use crate::{init, install, log, serve, supervisor};

/// The program inside the user's container.
#[derive(Debug, Parser)]
#[command(name = "cuddy-host", version)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Copies this program into a folder and makes the volume's folders.
    Install {
        /// Where the program goes.
        #[arg(long, default_value = places::BIN_DIR)]
        bin_dir: PathBuf,
        /// The root of the volume.
        #[arg(long)]
        volume: Option<PathBuf>,
    },
    /// Is the container's first process: starts the host and, once the gate is open, the user's own command.
    Init {
        #[command(flatten)]
        settings: Settings,
        /// The user's own command.
        #[arg(last = true)]
        command: Vec<OsString>,
    },
    /// Answers the sidecar.
    Host {
        #[command(flatten)]
        settings: Settings,
    },
    /// Supervises one piece of work; started by the host alone, which speaks to it over standard input.
    Job,
}

/// Runs the program.
pub fn run() -> ExitCode {
    // The supervisor is started for every command, so it does without the parser.
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|verb| verb == supervisor::VERB) && args.next().is_none() {
        return supervisor::run();
    }
    match Cli::parse().verb {
        Verb::Install { bin_dir, volume } => report(install::run(&bin_dir, volume.as_deref())),
        Verb::Init { settings, command } => report(init::run(&settings, &command)),
        Verb::Host { settings } => report(serve::run(settings)),
        Verb::Job => supervisor::run(),
    }
}

fn report<E: std::error::Error>(outcome: Result<(), E>) -> ExitCode {
    let Err(error) = outcome else { return ExitCode::SUCCESS };
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    log::line(format_args!("failed to {text}"));
    ExitCode::FAILURE
}
