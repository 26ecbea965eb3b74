//! `cuddy env start`

use clap::Args;
use cuddy_crds::v1alpha1::Mode;
use cuddy_crds::{Environment, labels};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::{Chosen, OneArgs, waiting};
use crate::cluster::ClusterError;
use crate::context::Context;
use crate::error::CliError;
use crate::output;

/// The arguments of `env start`.
#[derive(Debug, Args)]
pub struct StartArgs {
    #[command(flatten)]
    pub one: OneArgs,
    /// Return at once, and do not wait until it is ready
    #[arg(long)]
    pub no_wait: bool,
    /// How long to wait, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub timeout: u64,
}

pub(super) async fn run(context: &Context, args: &StartArgs) -> Result<(), CliError> {
    let chosen = super::choose(context, &args.one).await?;
    ask(&chosen).await?;
    if args.no_wait {
        output::note(&format!("asked Environment {} to start", chosen.name));
        return Ok(());
    }
    waiting::until_ready(&chosen, args.timeout).await?;
    output::note(&format!("Environment {} is ready", chosen.name));
    Ok(())
}

/// Sets `spec.mode` to Running if it was Stopped, and gives a new wake id (D45).
pub(super) async fn ask(chosen: &Chosen) -> Result<Environment, CliError> {
    let action = || format!("start Environment {}", chosen.name);
    let before = chosen.api.get(&chosen.name).await.map_err(ClusterError::request(action()))?;
    let id = uuid::Uuid::new_v4().to_string();
    let mut patch = json!({ "metadata": { "annotations": { labels::WAKE: id } } });
    if before.spec.mode == Some(Mode::Stopped) {
        patch["spec"] = json!({ "mode": Mode::Running });
    }
    let patched = chosen.api.patch(&chosen.name, &PatchParams::default(), &Patch::Merge(&patch)).await;
    Ok(patched.map_err(ClusterError::request(action()))?)
}
