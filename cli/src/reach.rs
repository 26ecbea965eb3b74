//! How an environment is reached: through the local end that its state file names if that answers, otherwise through a
//! port-forward of this very process to the pod, woken first if the caller's purpose allows it.

use std::sync::Arc;

use cuddy_edge::client::ConnectError;
use parking_lot::Mutex;
use secrecy::SecretString;

use crate::bearer::{Facts, Minter};
use crate::cluster::{ClusterArgs, ClusterError};
use crate::config_dir::ConfigDir;
use crate::error::{CliError, Kind};
use crate::target::Target;

pub(crate) mod availability;
pub(crate) mod local;
pub(crate) mod pod;
mod route;
pub(crate) mod wake;

pub(crate) use route::{Route, RouteError, Sent};

/// Whether a stopped environment may be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wake {
    /// Yes: a tool is called.
    Yes,
    /// No: somebody only looks.
    No,
}

/// Where words about the way there go: "the environment starts".
pub(crate) type Notice<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// Why an environment is not reached. Nothing was done in it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReachError {
    /// No cluster, and no local end that answers.
    #[error("{scope} is not open on this machine, and there is no kubeconfig")]
    NoWay {
        /// Which.
        scope: String,
    },
    /// The cluster refuses or does not answer.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// There is no such Environment.
    #[error("there is no Environment {name} in namespace {namespace}")]
    NotFound {
        /// Its name.
        name: String,
        /// The namespace.
        namespace: String,
    },
    /// `spec.mode: Stopped` holds it.
    #[error("Environment {name} is held stopped (spec.mode: Stopped), and calls do not start it")]
    Held {
        /// Its name.
        name: String,
        /// The namespace.
        namespace: String,
    },
    /// It is stopped, and this is no reason to start it.
    #[error("Environment {name} is stopped ({reason})")]
    Stopped {
        /// Its name.
        name: String,
        /// The condition's reason.
        reason: String,
    },
    /// It cannot come up as it is.
    #[error("Environment {name} cannot start ({reason}): {message}")]
    Broken {
        /// Its name.
        name: String,
        /// The condition's reason.
        reason: String,
        /// The condition's message.
        message: String,
    },
    /// It did not come up in time.
    #[error("Environment {name} was not ready within {seconds} s ({reason}): {message}")]
    NotReady {
        /// Its name.
        name: String,
        /// How long was waited.
        seconds: u64,
        /// The condition's reason.
        reason: String,
        /// The condition's message.
        message: String,
    },
    /// The pod's port cannot be reached, or is not the environment's.
    #[error("cannot reach the pod of Environment {name}")]
    Connect {
        /// Its name.
        name: String,
        /// Why.
        source: ConnectError,
    },
    /// The API server forwards no port.
    #[error("cannot forward a port to the pod of Environment {name}: {message}")]
    Forward {
        /// Its name.
        name: String,
        /// Why.
        message: String,
    },
    /// The local end is dead.
    #[error("the local end on port {port} does not answer")]
    LocalEnd {
        /// The port.
        port: u16,
        /// Why.
        message: String,
    },
}

impl From<ReachError> for CliError {
    fn from(error: ReachError) -> Self {
        match error {
            ReachError::Cluster(error) => error.into(),
            ReachError::NoWay { .. } => Self::unreachable(error.to_string())
                .hint("start an environment on this machine with `cuddy local up --workspace DIR`")
                .hint("or point --kubeconfig or $KUBECONFIG at its cluster"),
            ReachError::NotFound { ref namespace, .. } => {
                let hint = format!("`cuddy env list --namespace {namespace}` lists them");
                Self::unreachable(error.to_string()).hint(hint)
            }
            ReachError::Held { ref name, ref namespace } => {
                let hint = format!("start it with `cuddy env start {name} --namespace {namespace}`");
                Self::unreachable(error.to_string()).hint(hint)
            }
            ReachError::Stopped { ref name, .. } => {
                let hint = format!("a tool call starts it, and so does `cuddy env start {name}`");
                Self::unreachable(error.to_string()).hint(hint)
            }
            ReachError::Broken { ref name, .. } | ReachError::NotReady { ref name, .. } => {
                let hint = format!("`cuddy env explain {name}` says what it waits for");
                Self::unreachable(error.to_string()).hint(hint)
            }
            ReachError::LocalEnd { .. } => {
                Self::unreachable(error.to_string()).hint("`cuddy open` makes it anew")
            }
            ReachError::Connect { .. } | ReachError::Forward { .. } => {
                Self::unreachable(error.to_string()).because(error)
            }
        }
    }
}

/// An environment, and the way that was found to it last.
pub(crate) struct Reach {
    dir: ConfigDir,
    target: Target,
    cluster: ClusterArgs,
    minter: Minter,
    issuer: Option<String>,
    wake_timeout: std::time::Duration,
    client: tokio::sync::OnceCell<kube::Client>,
    route: Mutex<Option<Arc<Route>>>,
}

/// What a [`Reach`] is made of.
#[derive(Debug)]
pub(crate) struct Options {
    /// The user's folder.
    pub(crate) dir: ConfigDir,
    /// Which environment.
    pub(crate) target: Target,
    /// Which cluster.
    pub(crate) cluster: ClusterArgs,
    /// Who signs.
    pub(crate) minter: Minter,
    /// The issuer, if the caller names one.
    pub(crate) issuer: Option<String>,
    /// How long an environment may take to come up.
    pub(crate) wake_timeout: std::time::Duration,
}

impl Reach {
    /// Returns a reach that knows no way yet.
    pub(crate) fn new(options: Options) -> Self {
        Self {
            dir: options.dir,
            target: options.target,
            cluster: options.cluster,
            minter: options.minter,
            issuer: options.issuer,
            wake_timeout: options.wake_timeout,
            client: tokio::sync::OnceCell::new(),
            route: Mutex::new(None),
        }
    }

    /// Returns a way to the environment: the one that worked last, or a new one.
    pub(crate) async fn route(&self, wake: Wake, notice: Notice<'_>) -> Result<Arc<Route>, CliError> {
        if let Some(route) = self.route.lock().clone() {
            return Ok(route);
        }
        let route = Arc::new(self.find(wake, notice).await?);
        *self.route.lock() = Some(Arc::clone(&route));
        Ok(route)
    }

    /// Forgets a way that turned out to be none, if nobody has found a new one meanwhile.
    pub(crate) fn forget(&self, route: &Arc<Route>) {
        let mut last = self.route.lock();
        if last.as_ref().is_some_and(|known| Arc::ptr_eq(known, route)) {
            *last = None;
        }
    }

    /// Returns a bearer made now.
    pub(crate) fn bearer(&self, route: &Route) -> Result<SecretString, CliError> {
        self.minter.mint(&self.facts(route.facts()))
    }

    fn facts(&self, known: &Facts) -> Facts {
        Facts { issuer: self.issuer.clone().or_else(|| known.issuer.clone()), uid: known.uid.clone() }
    }

    async fn find(&self, wake: Wake, notice: Notice<'_>) -> Result<Route, CliError> {
        match self.find_local().await {
            Ok(Some(route)) => return Ok(route),
            Ok(None) => {}
            // Without a cluster the local end is the only way, and its failure the answer. A refusal is one in any case:
            // the environment was reached.
            Err(error) if self.target.place.is_none() || error.kind == Kind::Refused => return Err(error),
            Err(error) => tracing::info!(error = %error.chain(), "the local end does not serve"),
        }
        let Some(place) = &self.target.place else {
            return Err(ReachError::NoWay { scope: self.target.scope.to_string() }.into());
        };
        let client = self.client.get_or_try_init(|| crate::cluster::client(&self.cluster)).await?;
        let request = wake::Request {
            client,
            namespace: &place.namespace,
            name: self.target.scope.environment.as_str(),
            wake,
            timeout: self.wake_timeout,
        };
        let up = wake::until_up(&request, notice).await?;
        Ok(Route::pod(pod::PodRoute::new(client.clone(), &place.namespace, up)?))
    }

    async fn find_local(&self) -> Result<Option<Route>, CliError> {
        let Some(state) = local::find(&self.dir, &self.target)? else { return Ok(None) };
        let facts = self.facts(&Facts::default());
        let bearer = self.minter.mint(&facts)?;
        local::probe(&state, &bearer).await?;
        Ok(Some(Route::local(state.local_port)))
    }
}
