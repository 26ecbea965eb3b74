//! `cuddy env stop`

use clap::Args;
use cuddy_crds::labels;
use cuddy_crds::v1alpha1::Mode;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{Chosen, OneArgs, waiting};
use crate::cluster::ClusterError;
use crate::context::Context;
use crate::error::CliError;
use crate::output;

/// The arguments of `env stop`.
#[derive(Debug, Args)]
pub struct StopArgs {
    #[command(flatten)]
    pub one: OneArgs,
    /// Keep it stopped: no call starts it until `cuddy env start` (sets spec.mode)
    #[arg(long)]
    pub hold: bool,
    /// Wait until it is stopped
    #[arg(long)]
    pub wait: bool,
    /// How long to wait, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    pub timeout: u64,
}

pub(super) async fn run(context: &Context, args: &StopArgs) -> Result<(), CliError> {
    let chosen = super::choose(context, &args.one).await?;
    ask(&chosen, args.hold).await?;
    if args.wait {
        waiting::until_stopped(&chosen, args.timeout).await?;
        output::note(&format!("Environment {} is stopped; its workspace is kept", chosen.name));
        return Ok(());
    }
    let then = if args.hold {
        "and stays stopped until `cuddy env start`"
    } else {
        "and the next tool call starts it again"
    };
    output::note(&format!("asked Environment {} to stop; its workspace is kept, {then}", chosen.name));
    Ok(())
}

/// Asks for a stop: once by an opaque id, or for good by the mode.
pub(super) async fn ask(chosen: &Chosen, hold: bool) -> Result<(), CliError> {
    let patch: Value = if hold {
        json!({ "spec": { "mode": Mode::Stopped } })
    } else {
        json!({ "metadata": { "annotations": { labels::STOP: uuid::Uuid::new_v4().to_string() } } })
    };
    chosen
        .api
        .patch(&chosen.name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .map_err(ClusterError::request(format!("stop Environment {}", chosen.name)))?;
    Ok(())
}
