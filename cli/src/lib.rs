//! The command line of Cuddy.
//!
//! One file per verb below `commands`, thin over the modules beside it: `key_store` and `state` keep files, `reach` finds
//! the way to an environment, `mcp_client` speaks to it, `proxy` serves a client that speaks MCP on stdio. Text goes out
//! through `output` alone, and failures end as one [`error::CliError`] whose kind is the exit code.

use std::process::ExitCode;

use clap::Parser;

pub mod args;
mod bearer;
mod cluster;
mod commands;
mod config_dir;
mod context;
mod detach;
pub mod env_vars;
pub mod error;
mod exchange;
mod files;
mod forward;
mod key_store;
mod local;
mod mcp_client;
mod ordered_json;
mod output;
mod platform;
mod ports;
mod proxy;
mod reach;
mod shutdown;
mod state;
mod target;

/// Runs the program: parses, acts, reports, and returns the exit code.
pub fn main() -> ExitCode {
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return output::usage(&error),
    };
    output::start_logging(cli.verbose);
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            return output::report(&error::CliError::failed(format!("cannot start: {error}")), false);
        }
    };
    let json = cli.wants_json();
    let result = runtime.block_on(commands::run(cli));
    // A read of stdin that still blocks must not keep the program from ending.
    runtime.shutdown_background();
    match result {
        Ok(code) => code,
        Err(error) => output::report(&error, json),
    }
}
