//! `cuddy mcp proxy`

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use futures::FutureExt;
use tokio::io::BufReader;

use super::AccessArgs;
use crate::context::Context;
use crate::error::CliError;
use crate::{proxy, shutdown};

/// The arguments of `mcp proxy`.
#[derive(Debug, Args)]
#[command(after_help = "An MCP client starts this by itself; `cuddy mcp config` prints the entry for it.")]
pub struct ProxyArgs {
    /// How long a call may wait for an environment that is busy or must be woken, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub wake_timeout: u64,
    #[command(flatten)]
    pub access: AccessArgs,
}

pub(super) async fn run(context: &Context, args: &ProxyArgs) -> Result<(), CliError> {
    let mut signals = shutdown::signals()?;
    let shared = Arc::new((context.clone(), args.access.clone(), args.wake_timeout));
    let finder = Box::new(move || {
        let shared = Arc::clone(&shared);
        async move { shared.1.reach(&shared.0, shared.2).await }.boxed()
    });
    let patience = Duration::from_secs(args.wake_timeout);
    let input = BufReader::with_capacity(64 * 1024, tokio::io::stdin());
    proxy::serve(finder, patience, input, tokio::io::stdout(), async move { signals.recv().await }).await;
    Ok(())
}
