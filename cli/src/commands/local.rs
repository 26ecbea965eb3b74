//! `cuddy local`

use clap::Subcommand;

use crate::context::Context;
use crate::error::CliError;

mod down;
mod status;
mod up;

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Start sidecar and host on this machine, without a cluster and without root
    Up(up::UpArgs),
    /// End a local environment; the workspace stays
    Down(down::DownArgs),
    /// Show the local environments
    Status(status::StatusArgs),
}

impl Verb {
    pub(crate) const fn wants_json(&self) -> bool {
        match self {
            Self::Status(args) => args.output.is_json(),
            Self::Up(_) | Self::Down(_) => false,
        }
    }
}

pub(super) async fn run(context: &Context, verb: Verb) -> Result<(), CliError> {
    match verb {
        Verb::Up(args) => up::run(context, &args).await,
        Verb::Down(args) => down::run(context, &args).await,
        Verb::Status(args) => status::run(context, &args),
    }
}
