//! `cuddy env list`

use clap::Args;
use cuddy_crds::Environment;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use super::{Format, FormatArgs, view};
use crate::cluster::{self, ClusterArgs, ClusterError};
use crate::error::CliError;
use crate::output;

/// How many Environments are asked for at once.
const PAGE: u32 = 500;

/// The arguments of `env list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Of all namespaces
    #[arg(long, short = 'A')]
    pub all_namespaces: bool,
    /// Only those with these labels
    #[arg(long, short = 'l', value_name = "SELECTOR")]
    pub selector: Option<String>,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub output: FormatArgs,
}

pub(super) async fn run(args: &ListArgs) -> Result<(), CliError> {
    let place = super::require_place(&args.cluster)?;
    let client = cluster::client(&args.cluster).await?;
    let (api, whose): (Api<Environment>, String) = if args.all_namespaces {
        (Api::all(client), "of all namespaces".to_owned())
    } else {
        (Api::namespaced(client, &place.namespace), format!("of namespace {}", place.namespace))
    };
    let mut all = Vec::new();
    let mut next: Option<String> = None;
    loop {
        let mut params = ListParams::default().limit(PAGE);
        params.label_selector.clone_from(&args.selector);
        params.continue_token = next.take();
        let page = api
            .list(&params)
            .await
            .map_err(ClusterError::request(format!("list the Environments {whose}")))?;
        next = page.metadata.continue_.clone().filter(|token| !token.is_empty());
        all.extend(page.items);
        if next.is_none() {
            break;
        }
    }
    all.sort_by_key(|e| (e.namespace(), e.name_any()));
    if all.is_empty() && matches!(args.output.output, Format::Text | Format::Wide) {
        output::note(&format!("there are no Environments {whose} (context {})", place.context));
        return Ok(());
    }
    view::print(&all, args.output.output, args.all_namespaces, true)
}
