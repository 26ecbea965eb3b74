//! `cuddy class`

use clap::Subcommand;

use crate::context::Context;
use crate::error::CliError;

mod init;

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Make the class that Environments use, with your key in it
    Init(init::InitArgs),
}

impl Verb {
    pub(crate) const fn wants_json(&self) -> bool {
        match self {
            Self::Init(args) => args.output.is_json(),
        }
    }
}

pub(super) async fn run(context: &Context, verb: Verb) -> Result<(), CliError> {
    match verb {
        Verb::Init(args) => init::run(context, &args).await,
    }
}
