//! `cuddy env restart`

use clap::Args;

use super::{OneArgs, start, stop, waiting};
use crate::context::Context;
use crate::error::CliError;
use crate::output;

/// The arguments of `env restart`.
#[derive(Debug, Args)]
pub struct RestartArgs {
    #[command(flatten)]
    pub one: OneArgs,
    /// How long the stop and the start may take together, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 420)]
    pub timeout: u64,
}

pub(super) async fn run(context: &Context, args: &RestartArgs) -> Result<(), CliError> {
    let chosen = super::choose(context, &args.one).await?;
    let since = std::time::Instant::now();
    stop::ask(&chosen, false).await?;
    // Both asked for at once could be taken for one wish: the stop is seen before the start is asked for.
    waiting::until_stopped(&chosen, args.timeout).await?;
    output::note(&format!("Environment {} is stopped; starting it", chosen.name));
    start::ask(&chosen).await?;
    let left = args.timeout.saturating_sub(since.elapsed().as_secs()).max(1);
    waiting::until_ready(&chosen, left).await?;
    output::note(&format!("Environment {} is ready", chosen.name));
    Ok(())
}
