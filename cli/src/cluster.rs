//! The cluster that the caller's kubeconfig names, without kubectl.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use crate::env_vars;
use crate::error::{CliError, Kind};

/// Under which these arguments stand in help texts.
const HEADING: &str = "Cluster";
/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Which cluster and namespace.
#[derive(Debug, Clone, Default, Args)]
pub struct ClusterArgs {
    /// The kubeconfig file [default: $KUBECONFIG, else ~/.kube/config]
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub kubeconfig: Option<PathBuf>,
    /// The kubeconfig's context [default: the current one]
    #[arg(long, value_name = "NAME", env = env_vars::CONTEXT, hide_env = true, help_heading = HEADING)]
    pub context: Option<String>,
    /// The namespace [default: the context's]
    #[arg(long, short, value_name = "NAME", env = env_vars::NAMESPACE, hide_env = true, help_heading = HEADING)]
    pub namespace: Option<String>,
}

impl ClusterArgs {
    /// Says whether the caller named a cluster or namespace.
    pub(crate) const fn is_explicit(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some() || self.namespace.is_some()
    }
}

/// A context and a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// The context's name.
    pub(crate) context: String,
    /// The namespace.
    pub(crate) namespace: String,
}

/// Why the cluster does not serve.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClusterError {
    /// There is no kubeconfig.
    #[error("there is no kubeconfig")]
    NoConfig,
    /// The kubeconfig cannot be used.
    #[error("the kubeconfig cannot be used")]
    Config(#[source] Box<KubeconfigError>),
    /// The client cannot be made.
    #[error("cannot prepare the connection to the cluster")]
    Client(#[source] Box<kube::Error>),
    /// A request failed.
    #[error("cannot {action}")]
    Request {
        /// What was tried.
        action: String,
        /// Why it failed.
        source: Box<kube::Error>,
    },
}

impl ClusterError {
    /// Returns what makes an error of a request out of kube's.
    pub(crate) fn request(action: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let action = action.into();
        move |source| Self::Request { action, source: Box::new(source) }
    }

    /// Returns the API server's status code, if it answered.
    pub(crate) fn status(&self) -> Option<u16> {
        match self {
            Self::Request { source, .. } => match source.as_ref() {
                kube::Error::Api(status) => Some(status.code),
                _ => None,
            },
            _ => None,
        }
    }
}

impl From<ClusterError> for CliError {
    fn from(error: ClusterError) -> Self {
        match error {
            ClusterError::NoConfig => Self::unreachable("there is no kubeconfig")
                .hint("point --kubeconfig or $KUBECONFIG at one")
                .hint("without a cluster: `cuddy local up --workspace DIR`"),
            ClusterError::Request { action, source } => match *source {
                // The API server's own words; the type's Display says them twice, once as Debug.
                kube::Error::Api(status) => {
                    let kind = match status.code {
                        401 | 403 | 409 | 422 => Kind::Refused,
                        503 | 504 => Kind::Unreachable,
                        _ => Kind::Failed,
                    };
                    let message = if status.message.is_empty() { &status.reason } else { &status.message };
                    Self::new(kind, format!("cannot {action}: {message}"))
                }
                kube::Error::SerdeError(source) => {
                    Self::failed(format!("cannot {action}: the cluster's answer cannot be read"))
                        .because(source)
                }
                other => Self::unreachable(format!("cannot {action}"))
                    .because(other)
                    .hint("does `kubectl get --raw /readyz` answer with the same kubeconfig and context?"),
            },
            ClusterError::Config(source) => Self::usage("the kubeconfig cannot be used").because(source),
            ClusterError::Client(_) => Self::unreachable(error.to_string()).because(error),
        }
    }
}

/// Returns the context and namespace that the arguments and the kubeconfig name; none without a kubeconfig.
pub(crate) fn place(args: &ClusterArgs) -> Result<Option<Place>, ClusterError> {
    let config = match read(args) {
        Err(ClusterError::NoConfig) if args.kubeconfig.is_none() => return Ok(None),
        other => other?,
    };
    let Some(context) = args.context.clone().or_else(|| config.current_context.clone()) else {
        return Ok(None);
    };
    let own = config.contexts.iter().find(|c| c.name == context).and_then(|c| c.context.as_ref());
    let namespace = args
        .namespace
        .clone()
        .or_else(|| own.and_then(|c| c.namespace.clone()).filter(|n| !n.is_empty()))
        .unwrap_or_else(|| "default".to_owned());
    Ok(Some(Place { context, namespace }))
}

/// Returns a client of the cluster.
pub(crate) async fn client(args: &ClusterArgs) -> Result<Client, ClusterError> {
    let options = KubeConfigOptions { context: args.context.clone(), ..KubeConfigOptions::default() };
    let mut config = Config::from_custom_kubeconfig(read(args)?, &options)
        .await
        .map_err(|e| ClusterError::Config(Box::new(e)))?;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    Client::try_from(config).map_err(|e| ClusterError::Client(Box::new(e)))
}

/// Returns kube's error in words; its own Display of an API error says all of it twice, once as Debug.
pub(crate) fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => other.to_string(),
    }
}

fn read(args: &ClusterArgs) -> Result<Kubeconfig, ClusterError> {
    let config = match &args.kubeconfig {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    config.map_err(|error| match error {
        KubeconfigError::FindPath => ClusterError::NoConfig,
        KubeconfigError::ReadConfig(source, _) if source.kind() == std::io::ErrorKind::NotFound => {
            ClusterError::NoConfig
        }
        other => ClusterError::Config(Box::new(other)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KUBECONFIG: &str = "
apiVersion: v1
kind: Config
current-context: one
clusters: [{name: c, cluster: {server: https://127.0.0.1:1}}]
users: [{name: u, user: {token: t}}]
contexts:
- {name: one, context: {cluster: c, user: u, namespace: acme}}
- {name: two, context: {cluster: c, user: u}}
";

    fn args(dir: &tempfile::TempDir, context: Option<&str>, namespace: Option<&str>) -> ClusterArgs {
        let path = dir.path().join("config");
        std::fs::write(&path, KUBECONFIG).unwrap();
        ClusterArgs {
            kubeconfig: Some(path),
            context: context.map(str::to_owned),
            namespace: namespace.map(str::to_owned),
        }
    }

    #[test]
    fn the_place_is_the_contexts_unless_named() {
        let dir = tempfile::tempdir().unwrap();
        let at = |context, namespace| {
            let place = place(&args(&dir, context, namespace)).unwrap().unwrap();
            (place.context, place.namespace)
        };
        assert_eq!(at(None, None), ("one".into(), "acme".into()));
        assert_eq!(at(Some("two"), None), ("two".into(), "default".into()));
        assert_eq!(at(None, Some("n")), ("one".into(), "n".into()));
    }

    #[test]
    fn a_kubeconfig_that_was_named_must_exist() {
        let args = ClusterArgs { kubeconfig: Some("/nonexistent/config".into()), ..ClusterArgs::default() };
        assert!(matches!(place(&args), Err(ClusterError::NoConfig)));
    }
}
