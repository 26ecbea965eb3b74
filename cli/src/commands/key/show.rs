//! `cuddy key show`

use clap::Args;

use super::KeyArgs;
use crate::args::OutputArgs;
use crate::context::Context;
use crate::error::CliError;

/// The arguments of `key show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    #[command(flatten)]
    pub key: KeyArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

pub(super) fn run(context: &Context, args: &ShowArgs) -> Result<(), CliError> {
    let store = context.keys(args.key.key.as_deref());
    let key = store.load()?;
    super::print(&store, &key, args.output)
}
