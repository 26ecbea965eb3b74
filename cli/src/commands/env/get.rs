//! `cuddy env get`

use clap::Args;

use super::{FormatArgs, OneArgs, view};
use crate::cluster::ClusterError;
use crate::context::Context;
use crate::error::CliError;

/// The arguments of `env get`.
#[derive(Debug, Args)]
pub struct GetArgs {
    #[command(flatten)]
    pub one: OneArgs,
    #[command(flatten)]
    pub output: FormatArgs,
}

pub(super) async fn run(context: &Context, args: &GetArgs) -> Result<(), CliError> {
    let chosen = super::choose(context, &args.one).await?;
    let mut environment = chosen
        .api
        .get(&chosen.name)
        .await
        .map_err(ClusterError::request(format!("get Environment {}", chosen.name)))?;
    environment.metadata.managed_fields = None;
    view::print(&[environment], args.output.output, false, false)
}
