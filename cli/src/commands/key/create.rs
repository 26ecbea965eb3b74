//! `cuddy key create`

use clap::Args;

use super::KeyArgs;
use crate::args::OutputArgs;
use crate::context::Context;
use crate::error::CliError;
use crate::output;

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
    let key = if args.force {
        store.create(true)?
    } else {
        let (key, is_new) = store.load_or_create()?;
        if !is_new {
            output::note("already there, and kept; `--force` replaces it");
        }
        key
    };
    super::print(&store, &key, args.output)
}
