//! The verbs, one file each.

use std::process::ExitCode;

use crate::args::{Cli, Command};
use crate::context::Context;
use crate::error::CliError;

pub(crate) mod class;
pub(crate) mod completion;
pub(crate) mod env;
pub(crate) mod key;
pub(crate) mod local;
pub(crate) mod mcp;
pub(crate) mod open;
pub(crate) mod version;

/// Runs the verb that was asked for. Most end with success or an error; some have an exit code of their own.
pub(crate) async fn run(cli: Cli) -> Result<ExitCode, CliError> {
    let done = |()| ExitCode::SUCCESS;
    match cli.command {
        // These need neither a home folder nor anything else.
        Command::Completion(args) => completion::run(&args).map(done),
        Command::Version(args) => version::run(&args).map(done),
        Command::Key(verb) => key::run(&Context::from_environment()?, verb).map(done),
        Command::Class(verb) => class::run(&Context::from_environment()?, verb).await.map(done),
        Command::Env(verb) => env::run(&Context::from_environment()?, verb).await,
        Command::Open(args) => open::run(&Context::from_environment()?, args).await.map(done),
        Command::Mcp(verb) => mcp::run(&Context::from_environment()?, verb).await,
        Command::Local(verb) => local::run(&Context::from_environment()?, verb).await.map(done),
    }
}
