//! Which environment a command is about.
//!
//! What the caller names decides. What is left out comes from the kubeconfig's context: its namespace, and the only
//! Environment in it. Without a cluster, or without an Environment there, the only environment that is open on this machine
//! is meant. Two candidates are never chosen between.

use std::time::Duration;

use clap::Args;
use cuddy_crds::Environment;
use cuddy_protocol::Scope;
use cuddy_protocol::ids::NameError;
use cuddy_protocol::state_file::StateFile;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use crate::cluster::{self, ClusterArgs, ClusterError, Place};
use crate::config_dir::ConfigDir;
use crate::env_vars;
use crate::error::CliError;
use crate::state;

/// The tenant of environments that run on this machine.
pub(crate) const LOCAL_TENANT: &str = "local";
/// How long the cluster may take to say which Environments there are.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);

/// Which environment.
#[derive(Debug, Clone, Default, Args)]
pub struct TargetArgs {
    /// The tenant [default: the namespace]
    #[arg(long, value_name = "NAME", env = env_vars::TENANT, hide_env = true)]
    pub tenant: Option<String>,
    /// The environment [default: the only one in the namespace]
    #[arg(long, short, value_name = "NAME", env = env_vars::ENVIRONMENT, hide_env = true)]
    pub environment: Option<String>,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// An environment, and where its resource is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// Tenant and environment.
    pub(crate) scope: Scope,
    /// Context and namespace; none where there is no cluster.
    pub(crate) place: Option<Place>,
    /// Whether the caller named cluster or namespace: an environment of this machine is not meant then.
    pub(crate) in_cluster: bool,
}

/// Finds the environment that is meant.
pub(crate) async fn resolve(args: &TargetArgs, dir: &ConfigDir) -> Result<Target, CliError> {
    let states = state::all(dir);
    let mut place = cluster::place(&args.cluster)?;
    let explicit = args.cluster.is_explicit();
    if let (Some(place), Some(tenant), None) = (&mut place, &args.tenant, &args.cluster.namespace) {
        // A tenant is a namespace unless the operator says otherwise; then the namespace is named too.
        place.namespace.clone_from(tenant);
    }
    if !explicit
        && args.tenant.as_deref() == Some(LOCAL_TENANT)
        && has_local(&states, args.environment.as_deref())
    {
        place = None;
    }
    if let Some(environment) = &args.environment {
        let tenant = match (&args.tenant, &place) {
            (Some(tenant), _) => tenant.clone(),
            (None, Some(place)) => place.namespace.clone(),
            (None, None) => only_tenant(&states, environment)?,
        };
        return Ok(Target { scope: scope(&tenant, environment)?, place, in_cluster: explicit });
    }
    let listed = match &place {
        Some(place) => list(&args.cluster, place).await,
        None => Ok(Vec::new()),
    };
    match (listed, &place) {
        (Ok(found), Some(at)) if !found.is_empty() => {
            let tenant = args.tenant.clone();
            let (name, its_tenant) = only(found, at)?;
            let scope = scope(&tenant.unwrap_or(its_tenant), &name)?;
            Ok(Target { scope, place, in_cluster: true })
        }
        (Err(error), _) if explicit => Err(error),
        (listed, _) => match only_state(&states, args.tenant.as_deref(), place.as_ref(), explicit) {
            Some(state) => {
                let scope = scope(&state.tenant, &state.environment)?;
                Ok(Target {
                    scope,
                    place: place.filter(|_| !state.kubernetes_context.is_empty()),
                    in_cluster: false,
                })
            }
            None => Err(listed.err().unwrap_or_else(|| nothing(place.as_ref(), &states))),
        },
    }
}

/// Returns tenant and environment from their names.
pub(crate) fn scope(tenant: &str, environment: &str) -> Result<Scope, CliError> {
    let bad = |error: NameError| CliError::usage(error.to_string());
    Ok(Scope { tenant: tenant.parse().map_err(bad)?, environment: environment.parse().map_err(bad)? })
}

fn has_local(states: &[StateFile], environment: Option<&str>) -> bool {
    states
        .iter()
        .filter(|s| s.tenant == LOCAL_TENANT && s.kubernetes_context.is_empty())
        .any(|s| environment.is_none_or(|name| s.environment == name))
}

fn only_tenant(states: &[StateFile], environment: &str) -> Result<String, CliError> {
    let found: Vec<&StateFile> = states.iter().filter(|s| s.environment == environment).collect();
    match found.as_slice() {
        [one] => Ok(one.tenant.clone()),
        [] => Err(nothing(None, states)),
        _ => Err(CliError::usage(format!("environments of several tenants are called {environment}"))
            .hint("name one with --tenant")),
    }
}

fn only_state<'s>(
    states: &'s [StateFile],
    tenant: Option<&str>,
    place: Option<&Place>,
    explicit: bool,
) -> Option<&'s StateFile> {
    let fits = |state: &&StateFile| {
        tenant.is_none_or(|t| t == state.tenant)
            && match (state.kubernetes_context.as_str(), place) {
                ("", _) => !explicit,
                (context, Some(place)) => context == place.context && state.namespace == place.namespace,
                (_, None) => true,
            }
    };
    let mut found = states.iter().filter(fits);
    found.next().filter(|_| found.next().is_none())
}

async fn list(args: &ClusterArgs, place: &Place) -> Result<Vec<(String, String)>, CliError> {
    let action = format!("list the Environments of namespace {}", place.namespace);
    let request = async {
        let api: Api<Environment> = Api::namespaced(cluster::client(args).await?, &place.namespace);
        api.list(&ListParams::default()).await.map_err(ClusterError::request(action.clone()))
    };
    let list = tokio::time::timeout(LIST_TIMEOUT, request)
        .await
        .map_err(|_| CliError::unreachable(format!("cannot {action}: the cluster does not answer")))??;
    let tenant = |e: &Environment| e.status.as_ref().and_then(|s| s.tenant.clone());
    Ok(list
        .items
        .iter()
        .map(|e| (e.name_any(), tenant(e).unwrap_or_else(|| place.namespace.clone())))
        .collect())
}

fn only(mut found: Vec<(String, String)>, place: &Place) -> Result<(String, String), CliError> {
    match found.len() {
        1 => Ok(found.remove(0)),
        count => {
            let names: Vec<&str> = found.iter().take(10).map(|(name, _)| name.as_str()).collect();
            let more = if count > names.len() { ", ..." } else { "" };
            Err(CliError::usage(format!("namespace {} holds {count} Environments", place.namespace))
                .hint(format!("name one with --environment: {}{more}", names.join(", "))))
        }
    }
}

fn nothing(place: Option<&Place>, states: &[StateFile]) -> CliError {
    let message = match (place, states.len()) {
        (Some(place), _) => {
            format!("there is no Environment in namespace {} (context {})", place.namespace, place.context)
        }
        (None, 0) => "there is no environment: no kubeconfig, and none is open on this machine".to_owned(),
        (None, _) => "several environments are open on this machine, or none of that name".to_owned(),
    };
    let error = CliError::usage(message);
    match (place, states.len()) {
        (Some(_), _) => {
            error.hint("make one with `cuddy env create NAME`, or choose another with --namespace")
        }
        (None, 0) => {
            error.hint("start one with `cuddy local up --workspace DIR`, or point $KUBECONFIG at a cluster")
        }
        (None, _) => {
            let names: Vec<String> =
                states.iter().map(|s| format!("{}/{}", s.tenant, s.environment)).collect();
            error.hint(format!("name one with --tenant and --environment: {}", names.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(tenant: &str, environment: &str, context: &str) -> StateFile {
        StateFile {
            tenant: tenant.into(),
            environment: environment.into(),
            kubernetes_context: context.into(),
            namespace: tenant.into(),
            local_port: 17000,
            scheme: "http".into(),
            log_path: None,
            process_id: None,
        }
    }

    #[test]
    fn two_candidates_are_never_chosen_between() {
        let two = [state("local", "a", ""), state("acme", "b", "kind")];
        assert_eq!(only_state(&two, None, None, false), None);
        assert_eq!(only_state(&two, Some("local"), None, false), Some(&two[0]));
        assert!(only_tenant(&[state("x", "dev", ""), state("y", "dev", "")], "dev").is_err());
        let place = Place { context: "kind".into(), namespace: "acme".into() };
        let error = only(vec![("a".into(), "t".into()), ("b".into(), "t".into())], &place).unwrap_err();
        assert_eq!(error.kind.exit_code(), 2);
        assert!(error.hints[0].contains("a, b"));
    }

    #[test]
    fn a_named_cluster_rules_this_machine_out() {
        let local = [state("local", "a", "")];
        let place = Place { context: "kind".into(), namespace: "acme".into() };
        assert_eq!(only_state(&local, None, Some(&place), false), Some(&local[0]));
        assert_eq!(only_state(&local, None, Some(&place), true), None);
        let other = [state("acme", "a", "other-cluster")];
        assert_eq!(
            only_state(&other, None, Some(&place), false),
            None,
            "a forward to another cluster is not meant"
        );
    }

    #[test]
    fn names_are_checked_before_anything_is_asked() {
        assert_eq!(scope("acme", "Not A Name").unwrap_err().kind.exit_code(), 2);
        assert_eq!(scope("../x", "dev").unwrap_err().kind.exit_code(), 2);
    }
}
