//! `cuddy env explain`

use clap::Args;
use jiff::Timestamp;
use serde_json::json;

use super::{OneArgs, explanation};
use crate::args::OutputArgs;
use crate::cluster::ClusterError;
use crate::context::Context;
use crate::error::CliError;
use crate::output;

/// The arguments of `env explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    #[command(flatten)]
    pub one: OneArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

pub(super) async fn run(context: &Context, args: &ExplainArgs) -> Result<(), CliError> {
    let chosen = super::choose(context, &args.one).await?;
    let action = format!("get Environment {}", chosen.name);
    let environment = chosen.api.get(&chosen.name).await.map_err(ClusterError::request(action))?;
    let sentences = explanation::of(&environment, Timestamp::now());
    if args.output.is_json() {
        let conditions = environment.status.as_ref().map(|s| s.conditions.clone()).unwrap_or_default();
        return output::json(&json!({
            "environment": chosen.name,
            "namespace": chosen.place.namespace,
            "sentences": sentences,
            "conditions": conditions,
        }));
    }
    output::line(&output::clean(&sentences.join("\n")))
}
