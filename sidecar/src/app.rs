//! The parts put together, and the time they live.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use cuddy_commands::TABLE;
use cuddy_edge::caller::{Caller, Door};
use cuddy_edge::dispatch::{DispatchSettings, Dispatcher, MissingHandler};
use cuddy_edge::doors::{self, Access, DoorSettings, Limits, ServerInfo};
use cuddy_edge::server::{ConnectionLimits, serve_plain, serve_tls};
use cuddy_protocol::{Capabilities, Capability, places};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::activity::Activity;
use crate::admin::{self, Admin};
use crate::admission::Doorkeeper;
use crate::anchor::{Anchor, AnchorFolder};
use crate::audit::{AuditError, AuditLog};
use crate::build_info;
use crate::clock::Clock;
use crate::config::{Auth, Listen, Settings};
use crate::control::{self, Control};
use crate::disk::{Disk, RESERVE};
use crate::gate::{Gate, GateError};
use crate::handlers::{self, Parts};
use crate::host::client::HostClient;
use crate::host::watch::HostWatch;
use crate::leases::Leases;
use crate::listen::{self, ListenError};
use crate::metrics::Metrics;
use crate::probe::Probe;

/// How long requests that run may go on at the end.
const DRAIN: Duration = Duration::from_secs(4);
/// How long the end may take in all: the kubelet kills after ten seconds (D10).
const END: Duration = Duration::from_secs(5);
/// The pause before an anchor that could not be read is tried again.
const ANCHOR_PAUSE: Duration = Duration::from_secs(2);
/// The pause before a full disk is looked at again.
const DISK_PAUSE: Duration = Duration::from_secs(10);

/// Why the sidecar does not run.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// A port cannot be had.
    #[error("listen")]
    Listen(#[from] ListenError),
    /// The gate's state cannot be told.
    #[error("look at the gate")]
    Gate(#[from] GateError),
    /// There is no trail.
    #[error("open the audit trail")]
    Audit(#[from] AuditError),
    /// Commands and handlers do not go together.
    #[error("put commands and handlers together")]
    Commands(#[from] MissingHandler),
}

impl AppError {
    /// Says whether a port is taken by somebody else.
    pub fn is_port_taken(&self) -> bool {
        matches!(self, Self::Listen(error) if error.is_taken())
    }
}

/// The listeners, bound.
struct Listeners {
    tls: Option<TcpListener>,
    control: Option<TcpListener>,
    probe: Option<TcpListener>,
    metrics: Option<TcpListener>,
    plain: Option<TcpListener>,
}

impl Listeners {
    /// Binds all at once: in a pod this happens before the runtime container exists.
    fn bind(listen: &Listen) -> Result<Self, ListenError> {
        let on = |name, address: Option<SocketAddr>| address.map(|at| listen::on(name, at)).transpose();
        Ok(Self {
            tls: on("tls", listen.tls)?,
            control: on("control", listen.control)?,
            probe: on("probe", listen.probe)?,
            metrics: on("metrics", listen.metrics)?,
            plain: on("plain", listen.plain)?,
        })
    }
}

/// What is there before the anchor has been read.
struct Base {
    settings: Settings,
    gate: Arc<Gate>,
    activity: Arc<Activity>,
    disk: Arc<Disk>,
    audit: Arc<AuditLog>,
    host: Arc<HostClient>,
    leases: Arc<Leases>,
    watch: Arc<HostWatch>,
    metrics: Arc<Metrics>,
    probe: Probe,
}

/// Serves until the token is cancelled.
pub async fn run(settings: Settings, shutdown: CancellationToken) -> Result<(), AppError> {
    let listeners = Listeners::bind(&settings.listen)?;
    let base = Base::new(settings)?;
    let tasks = TaskTracker::new();
    let known = Arc::new(OnceLock::new());
    if let Some(listener) = listeners.metrics {
        let router = admin::router(Arc::new(base.admin(Arc::clone(&known))));
        tasks.spawn(serve_plain(listener, router, limits(), shutdown.clone()));
    }
    if let Some(listener) = listeners.probe {
        let (gate, shutdown) = (Arc::clone(&base.gate), shutdown.clone());
        let until = async move {
            tokio::select! {
                () = gate.opened() => {}
                () = shutdown.cancelled() => {}
            }
        };
        tasks.spawn(base.probe.clone().listen(listener, until));
    }
    tasks.spawn(Arc::clone(&base.watch).watch_until(shutdown.clone()));
    tasks.spawn(look_after_disk(Arc::clone(&base.disk), shutdown.clone()));

    let read = shutdown.run_until_cancelled(anchor_of(&base.settings)).await;
    if let Some(folder) = read {
        let anchor = Arc::new(Anchor::load(folder.document, &base.settings.state_dir));
        let trusted = anchor.trust().current();
        if !anchor.is_closed() {
            base.leases.revoke(|issuer, kid| trusted.trusts(issuer, kid)).await;
        }
        let _ = known.set(Arc::clone(&anchor));
        let doors = base.doors(&anchor)?;
        if let Some(listener) = listeners.control {
            let router = control::router(Arc::new(base.control(&anchor)));
            tasks.spawn(serve_tls(listener, Arc::clone(&folder.tls), router, limits(), shutdown.clone()));
        }
        if let Some(listener) = listeners.tls.filter(|_| base.settings.auth == Auth::Bearer) {
            tasks.spawn(serve_tls(listener, folder.tls, doors.clone(), limits(), shutdown.clone()));
        }
        if let Some(listener) = listeners.plain {
            tasks.spawn(serve_plain(listener, doors, limits(), shutdown.clone()));
        }
        tracing::info!(scope = %anchor.scope(), build = build_info::build(), "serving");
        shutdown.cancelled().await;
    }
    tasks.close();
    let ending = async {
        tasks.wait().await;
        base.audit.flush().await
    };
    match tokio::time::timeout(END, ending).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::error!(%error, "the end of the audit trail"),
        Err(_) => tracing::warn!("not everything ended in time"),
    }
    Ok(())
}

impl Base {
    fn new(settings: Settings) -> Result<Self, AppError> {
        let gate = Gate::load(&settings.pod_uid, &settings.pod_state_dir, &settings.agent_socket_dir)?;
        let activity = Activity::new(Clock::start(), settings.policy);
        if settings.gate_open {
            gate.open(&settings.pod_uid)?;
        }
        if gate.is_open() {
            activity.open();
        }
        let disk = Arc::new(Disk::new(&settings.state_dir, RESERVE));
        disk.prepare();
        let audit = Arc::new(AuditLog::start(&settings.state_dir, Arc::clone(&disk), true)?);
        let host = Arc::new(HostClient::new(settings.host_socket_dir.clone()));
        let leases =
            Arc::new(Leases::load(&settings.state_dir, Arc::clone(&activity), Arc::clone(&host) as _));
        let watch = HostWatch::new(Arc::clone(&host), Arc::clone(&activity), Arc::clone(&leases));
        Ok(Self {
            settings,
            gate: Arc::new(gate),
            activity,
            disk,
            audit,
            host,
            leases,
            watch,
            metrics: Arc::new(Metrics::default()),
            probe: Probe::default(),
        })
    }

    fn admin(&self, anchor: Arc<OnceLock<Arc<Anchor>>>) -> Admin {
        Admin {
            metrics: Arc::clone(&self.metrics),
            gate: Arc::clone(&self.gate),
            watch: Arc::clone(&self.watch),
            activity: Arc::clone(&self.activity),
            leases: Arc::clone(&self.leases),
            audit: Arc::clone(&self.audit),
            disk: Arc::clone(&self.disk),
            anchor,
        }
    }

    fn control(&self, anchor: &Arc<Anchor>) -> Control {
        Control {
            boot_id: uuid::Uuid::new_v4().to_string(),
            anchor: Arc::clone(anchor),
            gate: Arc::clone(&self.gate),
            probe: self.probe.clone(),
            activity: Arc::clone(&self.activity),
            leases: Arc::clone(&self.leases),
            watch: Arc::clone(&self.watch),
            clock: cuddy_edge::clock::system(),
        }
    }

    fn doors(&self, anchor: &Arc<Anchor>) -> Result<Router, MissingHandler> {
        let keeper = Arc::new(Doorkeeper {
            gate: Arc::clone(&self.gate),
            anchor: Arc::clone(anchor),
            disk: Arc::clone(&self.disk),
            activity: Arc::clone(&self.activity),
        });
        let dispatcher = Dispatcher::new(DispatchSettings {
            scope: anchor.scope(),
            table: TABLE,
            visible: |_| true,
            handlers: handlers::all(&Parts {
                activity: Arc::clone(&self.activity),
                leases: Arc::clone(&self.leases),
                host: Arc::clone(&self.host),
                watch: Arc::clone(&self.watch),
            }),
            admission: Arc::clone(&keeper) as _,
            audit: Arc::clone(&self.audit) as _,
            metrics: self.metrics.doors(),
            clock: cuddy_edge::clock::system(),
        })?;
        let mut hosts = self.settings.hosts.clone();
        hosts.push(places::server_name(anchor.environment_uid()));
        Ok(doors::router(DoorSettings {
            dispatcher,
            access: match self.settings.auth {
                Auth::Bearer => Access::Bearer(Arc::clone(anchor.trust())),
                Auth::None => Access::None(environment_itself()),
            },
            hosts,
            server_info: ServerInfo { name: "cuddy".to_owned(), version: build_info::VERSION.to_owned() },
            clock: cuddy_edge::clock::system(),
            limits: Limits::default(),
            gate: Arc::new(move || keeper.is_open()),
        }))
    }
}

/// Returns whom callers without a bearer count as: they cannot be told from the code inside (DESIGN section 6).
fn environment_itself() -> Caller {
    Caller {
        issuer: "cuddy".to_owned(),
        subject: "environment".to_owned(),
        kid: None,
        capabilities: Capabilities::up_to(Capability::Operate),
        issued_at: 0,
        door: Door::Mcp,
        session: None,
    }
}

fn limits() -> ConnectionLimits {
    ConnectionLimits { drain: DRAIN, ..ConnectionLimits::default() }
}

/// Reads the anchor until it can be understood. Meanwhile the ports are held, and nobody is served.
async fn anchor_of(settings: &Settings) -> AnchorFolder {
    loop {
        let folder = settings.anchor_dir.clone();
        match tokio::task::spawn_blocking(move || AnchorFolder::read(&folder)).await {
            Ok(Ok(read)) => return read,
            Ok(Err(error)) => {
                tracing::error!(error = &error as &dyn std::error::Error, "no anchor: nobody is served");
            }
            Err(error) => tracing::error!(%error, "no anchor: nobody is served"),
        }
        tokio::time::sleep(ANCHOR_PAUSE).await;
    }
}

async fn look_after_disk(disk: Arc<Disk>, shutdown: CancellationToken) {
    let looking = async {
        loop {
            tokio::time::sleep(DISK_PAUSE).await;
            if disk.is_full() {
                let disk = Arc::clone(&disk);
                let _ = tokio::task::spawn_blocking(move || disk.prepare()).await;
            }
        }
    };
    shutdown.run_until_cancelled(looking).await;
}
