//! Metrics and the kubelet's probes, in plain HTTP on the pod's address, for everybody: counters and states only.

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::get;
use cuddy_protocol::control::ActivityState;
use http::StatusCode;
use http::header::CONTENT_TYPE;

use crate::activity::Activity;
use crate::anchor::Anchor;
use crate::audit::AuditLog;
use crate::disk::Disk;
use crate::gate::Gate;
use crate::host::watch::HostWatch;
use crate::leases::Leases;
use crate::metrics::{Metrics, States};

/// What is looked at.
#[derive(Debug)]
pub struct Admin {
    /// The counters.
    pub metrics: Arc<Metrics>,
    /// The gate.
    pub gate: Arc<Gate>,
    /// What is known of the host.
    pub watch: Arc<HostWatch>,
    /// The idle clock.
    pub activity: Arc<Activity>,
    /// The leases.
    pub leases: Arc<Leases>,
    /// The trail.
    pub audit: Arc<AuditLog>,
    /// The disk.
    pub disk: Arc<Disk>,
    /// The keys, once the anchor has been read.
    pub anchor: Arc<OnceLock<Arc<Anchor>>>,
}

impl Admin {
    /// Returns what still has to happen until callers are served; nothing when they are.
    async fn pending(&self) -> Vec<&'static str> {
        let mut pending = Vec::new();
        if self.anchor.get().is_none_or(|anchor| anchor.is_closed()) {
            pending.push("anchor");
        }
        if !self.gate.is_open() {
            pending.push("gate");
        }
        if !self.watch.greets().await {
            pending.push("host");
        }
        pending
    }

    async fn states(&self) -> States {
        let (_, verdict) = self.activity.verdict();
        let anchor = self.anchor.get();
        let loaded = anchor.map(|anchor| anchor.loaded());
        States {
            gate_open: self.gate.is_open(),
            anchor_closed: anchor.is_none_or(|anchor| anchor.is_closed()),
            anchor_generation: loaded.as_ref().map_or(0, |loaded| loaded.generation),
            keys: loaded.map_or(0, |loaded| loaded.keys.len()),
            host_up: self.watch.is_up(),
            idle: verdict.idle_since.is_some(),
            fenced: verdict.state == ActivityState::Quiesced,
            jobs: verdict.jobs.len(),
            leases: verdict.leases.len(),
            leases_sound: self.leases.is_sound().await,
            audit_dropped: self.audit.dropped(),
            disk_full: self.disk.is_full(),
        }
    }
}

/// Returns the routes.
pub fn router(admin: Arc<Admin>) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(admin)
}

async fn readyz(State(admin): State<Arc<Admin>>) -> impl IntoResponse {
    let pending = admin.pending().await;
    if pending.is_empty() {
        return (StatusCode::OK, "ok\n".to_owned());
    }
    (StatusCode::SERVICE_UNAVAILABLE, format!("waiting for: {}\n", pending.join(", ")))
}

async fn metrics(State(admin): State<Arc<Admin>>) -> impl IntoResponse {
    let states = admin.states().await;
    let kind = [(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")];
    match admin.metrics.text(&states) {
        Ok(text) => (StatusCode::OK, kind, text),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, kind, String::new()),
    }
}
