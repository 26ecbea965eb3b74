//! The parts of the sidecar, put together: which holds which, and the routers that stand on them.

use std::sync::{Arc, OnceLock};

use axum::Router;
use cuddy_commands::TABLE;
use cuddy_edge::caller::{Caller, Door};
use cuddy_edge::dispatch::{DispatchSettings, Dispatcher, MissingHandler};
use cuddy_edge::doors::{self, Access, DoorSettings, Limits, ServerInfo};
use cuddy_protocol::anchor::AnchorDocument;
use cuddy_protocol::{Capabilities, Capability, places};

use crate::activity::Activity;
use crate::admin::{self, Admin};
use crate::admission::Doorkeeper;
use crate::anchor::Anchor;
use crate::audit::{AuditError, AuditLog};
use crate::build_info;
use crate::clock::Clock;
use crate::config::{Auth, Settings};
use crate::control::{self, Control};
use crate::disk::{Disk, RESERVE};
use crate::gate::{Gate, GateError};
use crate::handlers::{self, Parts};
use crate::host::client::HostClient;
use crate::host::watch::HostWatch;
use crate::leases::Leases;
use crate::metrics::Metrics;
use crate::probe::Probe;
use crate::proved::Proved;

/// Why a part cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum AssemblyError {
    /// The gate's state cannot be told.
    #[error("look at the gate")]
    Gate(#[from] GateError),
    /// There is no trail.
    #[error("open the audit trail")]
    Audit(#[from] AuditError),
}

/// The parts that are there before the anchor has been read; those that need it are made from it.
#[derive(Debug)]
pub struct Assembly {
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

impl Assembly {
    /// Makes the parts; reads what the last sidecar left behind. Blocks.
    pub fn new(settings: Settings) -> Result<Self, AssemblyError> {
        let gate = Gate::load(&settings.pod_uid, &settings.pod_state_dir, &settings.agent_socket_dir)?;
        let activity = Activity::new(Clock::start(), settings.policy);
        let proved = Proved::load(&settings.pod_state_dir, &settings.pod_uid);
        match proved.kept().filter(|_| gate.is_open()) {
            Some(at) => activity.open_again(at),
            None if gate.is_open() => activity.open(),
            None => {}
        }
        if settings.gate_open {
            gate.open(&settings.pod_uid)?;
            activity.open();
        }
        let disk = Arc::new(Disk::new(&settings.state_dir, RESERVE));
        disk.prepare();
        let audit = Arc::new(AuditLog::start(&settings.state_dir, Arc::clone(&disk), settings.audit_stdout)?);
        let host = Arc::new(HostClient::new(settings.host_socket_dir.clone()));
        let leases =
            Arc::new(Leases::load(&settings.state_dir, Arc::clone(&activity), Arc::clone(&host) as _));
        let watch = HostWatch::new(Arc::clone(&host), Arc::clone(&activity), Arc::clone(&leases), proved);
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

    /// Puts the keys of an anchor in force. Leases of keys that went while nobody served go, too.
    pub async fn put_in_force(&self, document: AnchorDocument) -> Arc<Anchor> {
        let anchor = Arc::new(Anchor::load(document, &self.settings.state_dir));
        if !anchor.is_closed() {
            let trusted = anchor.trust().current();
            self.leases.revoke(|issuer, kid| trusted.trusts(issuer, kid)).await;
        }
        anchor
    }

    /// Returns the routes of metrics and probes.
    pub fn admin(&self, anchor: Arc<OnceLock<Arc<Anchor>>>) -> Router {
        admin::router(Arc::new(Admin {
            metrics: Arc::clone(&self.metrics),
            gate: Arc::clone(&self.gate),
            watch: Arc::clone(&self.watch),
            activity: Arc::clone(&self.activity),
            leases: Arc::clone(&self.leases),
            audit: Arc::clone(&self.audit),
            disk: Arc::clone(&self.disk),
            anchor,
        }))
    }

    /// Returns the operator's routes.
    pub fn control(&self, anchor: &Arc<Anchor>) -> Router {
        control::router(Arc::new(Control {
            boot_id: uuid::Uuid::new_v4().to_string(),
            anchor: Arc::clone(anchor),
            gate: Arc::clone(&self.gate),
            probe: self.probe.clone(),
            activity: Arc::clone(&self.activity),
            leases: Arc::clone(&self.leases),
            watch: Arc::clone(&self.watch),
            clock: cuddy_edge::clock::system(),
        }))
    }

    /// Returns the doors.
    pub fn doors(&self, anchor: &Arc<Anchor>) -> Result<Router, MissingHandler> {
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

    /// Returns the settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the gate.
    pub fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// Returns the idle clock.
    pub fn activity(&self) -> &Arc<Activity> {
        &self.activity
    }

    /// Returns the disk.
    pub fn disk(&self) -> &Arc<Disk> {
        &self.disk
    }

    /// Returns the trail.
    pub fn audit(&self) -> &Arc<AuditLog> {
        &self.audit
    }

    /// Returns what is known of the host.
    pub fn watch(&self) -> &Arc<HostWatch> {
        &self.watch
    }

    /// Returns the rounds of the probe.
    pub fn probe(&self) -> &Probe {
        &self.probe
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
