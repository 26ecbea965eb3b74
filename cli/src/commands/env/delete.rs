//! `cuddy env delete`

use std::io::{BufRead, IsTerminal, Write};

use clap::Args;
use kube::ResourceExt;
use kube::api::{DeleteParams, Preconditions};

use super::OneArgs;
use super::waiting::{self, Goal};
use crate::cluster::ClusterError;
use crate::context::Context;
use crate::error::CliError;
use crate::output;

/// The arguments of `env delete`.
#[derive(Debug, Args)]
pub struct DeleteArgs {
    #[command(flatten)]
    pub one: OneArgs,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
    /// Return at once, and do not wait until it is gone
    #[arg(long)]
    pub no_wait: bool,
    /// How long to wait, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    pub timeout: u64,
}

pub(super) async fn run(context: &Context, args: &DeleteArgs) -> Result<(), CliError> {
    let chosen = super::choose(context, &args.one).await?;
    let action = || format!("delete Environment {}", chosen.name);
    let environment = chosen.api.get(&chosen.name).await.map_err(ClusterError::request(action()))?;
    if !args.yes {
        confirm(&chosen.name, &chosen.place.namespace)?;
    }
    // What was confirmed is this object, and not another one that got its name in between.
    let preconditions = Preconditions { uid: environment.uid(), resource_version: None };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    chosen.api.delete(&chosen.name, &params).await.map_err(ClusterError::request(action()))?;
    if !args.no_wait {
        waiting::until(&chosen, &Goal::Gone, args.timeout).await?;
    }
    output::note(&format!("deleted Environment {} of namespace {}", chosen.name, chosen.place.namespace));
    Ok(())
}

fn confirm(name: &str, namespace: &str) -> Result<(), CliError> {
    if !std::io::stdin().is_terminal() {
        return Err(CliError::refused(format!(
            "deleting Environment {name} deletes its workspace, and nobody can be asked"
        ))
        .hint("--yes does it without asking"));
    }
    let mut terminal = std::io::stderr().lock();
    write!(
        terminal,
        "This deletes Environment {name} of namespace {namespace} and everything in its workspace.\nType its name to go on: "
    )?;
    terminal.flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    if answer.trim() == name { Ok(()) } else { Err(CliError::refused("not confirmed; nothing was deleted")) }
}
