//! The application: admin port, election, identity, canary listeners, controller; and all of it backwards at the end.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use cuddy_edge::client::ConnectError;
use cuddy_protocol::places::{PORT_CANARY_ALLOWED, PORT_CANARY_FORBIDDEN};
use jiff::Timestamp;
use kube::client::ClientBuilder;
use tokio_util::sync::CancellationToken;

use crate::admin::{self, Readiness};
use crate::backoff::Backoff;
use crate::canary::CanaryListeners;
use crate::config::OperatorConfig;
use crate::context::Context;
use crate::control::ControlClient;
use crate::environment;
use crate::events::Events;
use crate::identity::{self, StoreError};
use crate::leader::{BootClock, ElectionError, Elector, Leadership, LeaseTimes, WriteFence};
use crate::metrics::Metrics;

/// How long reconciles under way may take after the process was asked to end. Less than the lease's renewal allows, and
/// than the pod's grace period (30 s).
const DRAIN: Duration = Duration::from_secs(10);

/// What the application is started with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where metrics and probes are answered.
    pub listen: SocketAddr,
    /// Everything else.
    pub config: OperatorConfig,
}

/// Why the application ended other than by being asked to.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// Signals cannot be waited for.
    #[error("failed to wait for signals")]
    Signal(#[source] io::Error),
    /// The admin port.
    #[error("failed to serve metrics and probes on {address}")]
    Admin {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The cluster's address or credentials.
    #[error("failed to find out where the API server is")]
    Kubeconfig(#[source] kube::config::InferConfigError),
    /// The API server's client.
    #[error("failed to make a client of the API server")]
    Client(#[source] kube::Error),
    /// The lease is gone.
    #[error("failed to keep the lease")]
    Election(#[source] ElectionError),
    /// No identity.
    #[error("failed to load the operator's identity")]
    Identity(#[source] StoreError),
    /// The canary listeners.
    #[error("failed to listen for canaries")]
    Canary(#[source] io::Error),
    /// The CA that was just loaded is not usable.
    #[error("failed to trust the operator's own CA")]
    Trust(#[source] ConnectError),
    /// The controller ended by itself.
    #[error("the controller ended unasked")]
    ControllerEnded,
}

/// Runs until `shutdown` is cancelled, or until something fails that a restart of the process has to mend.
pub async fn run(settings: Settings, shutdown: CancellationToken) -> Result<(), AppError> {
    let metrics = Metrics::default();
    let readiness = Readiness::default();
    let address = settings.listen;
    let admin_error = |source| AppError::Admin { address, source };
    let listener = admin::bind(address).await.map_err(admin_error)?;
    let stop_admin = CancellationToken::new();
    let stop_on_return = stop_admin.clone().drop_guard();
    let looked = readiness.pending("lease");
    let admin = tokio::spawn(admin::serve(listener, metrics.clone(), readiness.clone(), stop_admin));
    let result = tokio::select! {
        result = elected(settings.config, &metrics, &readiness, looked, &shutdown) => result,
        ended = admin => Err(admin_error(ended.map_err(io::Error::other).flatten().err().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into()))),
    };
    drop(stop_on_return);
    result
}

/// Takes part in the election, leads, and gives the lease back.
async fn elected(
    config: OperatorConfig,
    metrics: &Metrics,
    readiness: &Readiness,
    looked: admin::Pending,
    shutdown: &CancellationToken,
) -> Result<(), AppError> {
    let times = LeaseTimes::default();
    let leadership = Leadership::new(times.give_up, Arc::new(BootClock));
    let (client, fenced) = clients(&leadership, metrics).await?;
    let elector =
        Elector::new(client, &config.operator_namespace, &config.pod_name, times, leadership.clone());
    let looked = parking_lot::Mutex::new(Some(looked));
    let Some(held) = shutdown.run_until_cancelled(elector.acquire(|| drop(looked.lock().take()))).await
    else {
        return Ok(());
    };
    metrics.leads(true);
    let give_back = CancellationToken::new();
    let mut hold = std::pin::pin!(elector.hold(held, &give_back));
    let led = tokio::select! {
        // Loss ends the process at once: nothing that is under way may go on.
        lost = &mut hold => return lost.map_err(AppError::Election),
        led = lead(config, fenced, leadership, metrics.clone(), readiness, shutdown) => led,
    };
    give_back.cancel();
    let given_back = hold.await.map_err(AppError::Election);
    metrics.leads(false);
    led.and(given_back)
}

/// What the leader does.
async fn lead(
    config: OperatorConfig,
    client: kube::Client,
    leadership: Leadership,
    metrics: Metrics,
    readiness: &Readiness,
    shutdown: &CancellationToken,
) -> Result<(), AppError> {
    let pending = readiness.pending("identity and canary listeners");
    let identity = identity::load_or_create(&client, &config.operator_namespace, Timestamp::now())
        .await
        .map_err(AppError::Identity)?;
    let identity = Arc::new(identity);
    let listeners = CanaryListeners::bind(config.pod_ip, PORT_CANARY_ALLOWED, PORT_CANARY_FORBIDDEN)
        .await
        .map_err(AppError::Canary)?;
    let stop_canary = CancellationToken::new();
    let _stop_on_return = stop_canary.clone().drop_guard();
    let (canary, serve) = listeners.serve(metrics.clone(), stop_canary).map_err(AppError::Canary)?;
    tokio::spawn(serve);
    let sidecars = ControlClient::new(identity.clone(), canary, metrics.clone()).map_err(AppError::Trust)?;
    let context = Arc::new(Context {
        recorder: Events::new(client.clone(), &config.pod_name),
        client,
        config,
        identity,
        sidecars: Arc::new(sidecars),
        backoff: Backoff::default(),
        metrics,
        leadership,
    });
    drop(pending);
    let mut controller = std::pin::pin!(environment::controller(context, shutdown.clone()));
    tokio::select! {
        () = &mut controller => {
            return if shutdown.is_cancelled() { Ok(()) } else { Err(AppError::ControllerEnded) };
        }
        () = shutdown.cancelled() => {}
    }
    if tokio::time::timeout(DRAIN, controller).await.is_err() {
        tracing::warn!("reconciles under way were given up");
    }
    Ok(())
}

/// Returns a client for the lease alone, and one that writes only while this process leads.
async fn clients(
    leadership: &Leadership,
    metrics: &Metrics,
) -> Result<(kube::Client, kube::Client), AppError> {
    let config = kube::Config::infer().await.map_err(AppError::Kubeconfig)?;
    let plain = kube::Client::try_from(config.clone()).map_err(AppError::Client)?;
    let fence = WriteFence::new(leadership.clone(), metrics.clone());
    let fenced = ClientBuilder::try_from(config).map_err(AppError::Client)?.with_layer(&fence).build();
    Ok((plain, fenced))
}
