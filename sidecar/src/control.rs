//! The control listener: what the operator asks and orders (D35). Its bearer is accepted here and nowhere else, and nobody
//! of the pod's own loopback is heard, since hostile code lives there.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use cuddy_edge::bearer::verify_control;
use cuddy_edge::clock::Clock as WallClock;
use cuddy_edge::doors::unauthorized;
use cuddy_edge::server::mark_known;
use cuddy_protocol::control::{
    ACTIVITY_PATH, ANCHOR_PATH, ActivityReport, AnchorLoaded, AnchorPush, Blocked, FENCE_SECONDS, Fence,
    MAX_BODY, OPEN_PATH, OpenRequest, PROBE_PATH, ProbeAnswer, ProbeRequest, QUIESCE_PATH, QuiesceRequest,
    TIMEOUT_SECONDS,
};
use cuddy_protocol::{CommandError, ErrorCode};
use http::StatusCode;
use serde::de::DeserializeOwned;

use crate::activity::Activity;
use crate::anchor::{Anchor, PushError};
use crate::gate::{Gate, GateError};
use crate::host::watch::HostWatch;
use crate::leases::Leases;
use crate::probe::Probe;
use crate::report::{self, Facts};

/// How old may be what a report says of the host.
const AGE: Duration = Duration::from_secs(2);
/// How long the host may be looked at before an answer: less than the operator waits.
const LOOK: Duration = Duration::from_secs(1);

/// What the operator deals with.
pub struct Control {
    /// Changes with each start of the sidecar.
    pub boot_id: String,
    /// The keys.
    pub anchor: Arc<Anchor>,
    /// The gate.
    pub gate: Arc<Gate>,
    /// The rounds of the probe.
    pub probe: Probe,
    /// The idle clock.
    pub activity: Arc<Activity>,
    /// The leases.
    pub leases: Arc<Leases>,
    /// What is known of the host.
    pub watch: Arc<HostWatch>,
    /// The time by which bearers are judged.
    pub clock: WallClock,
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").field("boot_id", &self.boot_id).finish_non_exhaustive()
    }
}

/// A refusal, as the operator reads it.
struct Refusal(StatusCode, CommandError);

impl Refusal {
    fn new(status: StatusCode, code: ErrorCode, message: impl Into<String>) -> Self {
        Self(status, CommandError::new(code, message))
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, Json(self.1)).into_response()
    }
}

/// Returns the routes, guarded.
pub fn router(control: Arc<Control>) -> Router {
    Router::new()
        .route(ACTIVITY_PATH, get(activity))
        .route(QUIESCE_PATH, post(quiesce))
        .route(ANCHOR_PATH, post(anchor))
        .route(PROBE_PATH, post(probe))
        .route(OPEN_PATH, post(open))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn_with_state(Arc::clone(&control), guard))
        .with_state(control)
}

/// Checks who asks, before anything is read, and bounds how long an answer takes.
async fn guard(State(control): State<Arc<Control>>, request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip().to_canonical());
    if peer.is_none_or(|ip| ip.is_loopback()) {
        return Refusal::new(StatusCode::FORBIDDEN, ErrorCode::Forbidden, "not from here").into_response();
    }
    let (keys, uid) = (control.anchor.control(), control.anchor.environment_uid());
    if let Err(refusal) = verify_control(request.headers(), keys, uid, (control.clock)()) {
        tracing::warn!(reason = refusal.reason(), "control request refused");
        return unauthorized(&refusal);
    }
    mark_known(request.extensions());
    let time = Duration::from_secs(TIMEOUT_SECONDS);
    match tokio::time::timeout(time, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Refusal::new(StatusCode::GATEWAY_TIMEOUT, ErrorCode::Deadline, "no answer in time")
            .into_response(),
    }
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body)
        .map_err(|e| Refusal(StatusCode::BAD_REQUEST, CommandError::invalid("$", e.to_string())))
}

async fn activity(State(control): State<Arc<Control>>) -> Json<ActivityReport> {
    let _ = tokio::time::timeout(LOOK, control.watch.look(AGE)).await;
    let (now, verdict) = control.activity.verdict();
    let facts = Facts {
        boot_id: &control.boot_id,
        pod_uid: control.gate.pod_uid(),
        anchor: control.anchor.loaded(),
        gate_open: control.gate.is_open(),
    };
    Json(report::activity(now, &verdict, facts))
}

async fn quiesce(State(control): State<Arc<Control>>, body: Bytes) -> Result<Response, Refusal> {
    let QuiesceRequest { if_idle_since } = parse(&body)?;
    if if_idle_since.is_some() {
        // A job may have begun since the host was last looked at.
        control.watch.look_within(LOOK).await;
    }
    Ok(match control.activity.quiesce(if_idle_since.as_deref()) {
        Ok(fence) => {
            tracing::info!(until = %fence.until, by_a_person = if_idle_since.is_none(), "new work is refused");
            Json(Fence { fence: fence.id, expires_in_seconds: FENCE_SECONDS }).into_response()
        }
        Err(blockers) => (StatusCode::CONFLICT, Json(Blocked { blockers })).into_response(),
    })
}

async fn anchor(State(control): State<Arc<Control>>, body: Bytes) -> Result<Json<AnchorLoaded>, Refusal> {
    let push: AnchorPush = parse(&body)?;
    let loaded = blocking({
        let anchor = Arc::clone(&control.anchor);
        move || anchor.push(&push)
    })
    .await?
    .map_err(|error| push_refused(&error))?;
    tracing::info!(generation = loaded.generation, keys = loaded.keys.len(), "keys loaded");
    let trusted = control.anchor.trust().current();
    control.leases.revoke(|issuer, kid| trusted.trusts(issuer, kid)).await;
    Ok(Json(loaded))
}

fn push_refused(error: &PushError) -> Refusal {
    tracing::error!(error = crate::text::chain(error), "keys refused");
    let message = crate::text::chain(error);
    match error {
        PushError::Older { .. } => Refusal::new(StatusCode::CONFLICT, ErrorCode::Conflict, message),
        PushError::Keys(_) => {
            Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::PreconditionFailed, message)
        }
        PushError::Store(_) => Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, ErrorCode::Internal, message),
    }
}

async fn probe(State(control): State<Arc<Control>>, body: Bytes) -> Result<Json<ProbeAnswer>, Refusal> {
    let request: ProbeRequest = parse(&body)?;
    let answer = control.probe.round(&request).await;
    answer
        .map(Json)
        .map_err(|e| Refusal::new(StatusCode::BAD_REQUEST, ErrorCode::InvalidParams, e.to_string()))
}

async fn open(State(control): State<Arc<Control>>, body: Bytes) -> Result<StatusCode, Refusal> {
    let OpenRequest { pod_uid } = parse(&body)?;
    let gate = Arc::clone(&control.gate);
    match blocking(move || gate.open(&pod_uid)).await? {
        Ok(()) => {
            control.activity.open();
            tracing::info!("the gate is open");
            Ok(StatusCode::NO_CONTENT)
        }
        Err(error @ GateError::OtherPod { .. }) => {
            Err(Refusal::new(StatusCode::CONFLICT, ErrorCode::Conflict, error.to_string()))
        }
        Err(error) => {
            tracing::error!(error = crate::text::chain(&error), "the gate does not open");
            Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, ErrorCode::Internal, error.to_string()))
        }
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, ErrorCode::Internal, "failed inside"))
}
