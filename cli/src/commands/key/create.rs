//! `cuddy key create`

use clap::Args;

use super::KeyArgs;
use crate::args::OutputArgs;
use crate::context::Context;
use crate::error::CliError;

/// The arguments of `key create`.
#[derive(Debug, Args)]
pub struct CreateArgs {
    /// Replace the key that is there; what trusts that one alone can then no longer be reached
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub key: KeyArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

pub(super) fn run(context: &Context, args: &CreateArgs) -> Result<(), CliError> {
    let store = context.keys(args.key.key.as_deref());
    let key = store.create(args.force)?;
    super::print(&store, &key, args.output)
}
