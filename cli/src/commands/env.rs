//! `cuddy env`

use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use cuddy_crds::Environment;
use kube::Api;

use crate::cluster::{self, ClusterArgs, Place};
use crate::context::Context;
use crate::error::CliError;
use crate::target::{self, TargetArgs};

mod apply;
mod create;
mod delete;
mod explain;
mod explanation;
mod get;
mod list;
mod restart;
mod start;
mod stop;
mod trust;
mod view;
mod wait;
mod waiting;

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Make your key, an Environment and a local port to it, in one step
    Create(create::CreateArgs),
    /// List Environments
    #[command(visible_alias = "ls")]
    List(list::ListArgs),
    /// Show one Environment
    Get(get::GetArgs),
    /// Apply Environments from a file
    Apply(apply::ApplyArgs),
    /// Wait for a condition
    Wait(wait::WaitArgs),
    /// Start an Environment that is stopped
    Start(start::StartArgs),
    /// Stop an Environment now; its workspace stays
    Stop(stop::StopArgs),
    /// Stop an Environment and start it again, with what has changed
    Restart(restart::RestartArgs),
    /// Delete an Environment with its workspace
    Delete(delete::DeleteArgs),
    /// Say why an Environment is (not) ready, and when it stops
    Explain(explain::ExplainArgs),
}

impl Verb {
    pub(crate) const fn wants_json(&self) -> bool {
        match self {
            Self::Create(args) => args.output.is_json(),
            Self::List(args) => args.output.is_json(),
            Self::Get(args) => args.output.is_json(),
            Self::Explain(args) => args.output.is_json(),
            _ => false,
        }
    }
}

/// One Environment of one namespace.
#[derive(Debug, Clone, Args)]
pub struct OneArgs {
    /// The Environment [default: the only one in the namespace]
    #[arg(value_name = "ENV")]
    pub name: Option<String>,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// The forms in which Environments are shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table
    #[default]
    Text,
    /// A table with pod, image and tenant
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// Names alone
    Name,
}

/// The form of the result.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct FormatArgs {
    /// The form of the result: text, wide, json, yaml or name
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t, hide_possible_values = true)]
    pub output: Format,
}

impl FormatArgs {
    /// Says whether JSON is wanted.
    pub const fn is_json(self) -> bool {
        matches!(self.output, Format::Json)
    }
}

/// An Environment that was chosen.
struct Chosen {
    api: Api<Environment>,
    name: String,
    place: Place,
}

/// Finds the Environment that is meant.
async fn choose(context: &Context, args: &OneArgs) -> Result<Chosen, CliError> {
    let wanted = TargetArgs { tenant: None, environment: args.name.clone(), cluster: args.cluster.clone() };
    let place = require_place(&args.cluster)?;
    let name = match &args.name {
        Some(name) => target::scope(&place.namespace, name)?.environment.to_string(),
        None => target::resolve(&wanted, &context.dir).await?.scope.environment.to_string(),
    };
    let api = Api::namespaced(cluster::client(&args.cluster).await?, &place.namespace);
    Ok(Chosen { api, name, place })
}

/// Returns context and namespace, or the error that there is no cluster.
fn require_place(args: &ClusterArgs) -> Result<Place, CliError> {
    Ok(cluster::place(args)?.ok_or(cluster::ClusterError::NoConfig)?)
}

/// Returns the flags that name the same place again, for the commands that are suggested; nothing where the context's own
/// namespace serves.
fn same_place(args: &ClusterArgs) -> String {
    let flag = |name: &str, value: &Option<String>| {
        value.as_ref().map(|v| format!(" --{name} {v}")).unwrap_or_default()
    };
    let file = args.kubeconfig.as_ref().map(|p| format!(" --kubeconfig {}", p.display())).unwrap_or_default();
    format!("{file}{}{}", flag("context", &args.context), flag("namespace", &args.namespace))
}

pub(crate) use trust::key_name;

pub(super) async fn run(context: &Context, verb: Verb) -> Result<ExitCode, CliError> {
    match verb {
        Verb::Create(args) => create::run(context, &args).await,
        Verb::List(args) => list::run(&args).await,
        Verb::Get(args) => get::run(context, &args).await,
        Verb::Apply(args) => apply::run(context, &args).await,
        Verb::Wait(args) => wait::run(context, &args).await,
        Verb::Start(args) => start::run(context, &args).await,
        Verb::Stop(args) => stop::run(context, &args).await,
        Verb::Restart(args) => restart::run(context, &args).await,
        Verb::Delete(args) => delete::run(context, &args).await,
        Verb::Explain(args) => explain::run(context, &args).await,
    }
    .map(|()| ExitCode::SUCCESS)
}
