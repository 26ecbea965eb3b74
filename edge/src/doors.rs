//! The doors of an environment as one router: what is looked at first, then each door on its path (DESIGN section 5).

use std::fmt;
use std::sync::{Arc, Weak};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use cuddy_protocol::{CommandError, ErrorCode};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};

use crate::bearer::{Trust, Unauthorized};
use crate::caller::{Caller, Door};
use crate::clock::Clock;
use crate::connection::mark_known;
use crate::dispatch::Dispatcher;
use crate::guard::Hosts;
use crate::mcp::Mcp;
use crate::metrics::Metrics;

pub use crate::limits::Limits;

/// Who may come in.
#[derive(Debug, Clone)]
pub enum Access {
    /// Whoever shows a bearer.
    Bearer(Arc<Trust>),
    /// Everybody who can reach the listener, as this caller: for loopback only, with the agent's own limited identity.
    None(Caller),
}

/// How the server introduces itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerInfo {
    /// The program.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// Says whether the doors are open; while they are not, they answer 503 `STARTING`.
pub type Gate = Arc<dyn Fn() -> bool + Send + Sync>;

/// What the doors are made of.
#[derive(Clone)]
pub struct DoorSettings {
    /// Runs the commands.
    pub dispatcher: Arc<Dispatcher>,
    /// Who may come in.
    pub access: Access,
    /// Names by which requests may come, beside those of loopback; with or without a port.
    pub hosts: Vec<String>,
    /// How the server introduces itself.
    pub server_info: ServerInfo,
    /// The time by which bearers are judged.
    pub clock: Clock,
    /// The bounds.
    pub limits: Limits,
    /// Whether the doors are open.
    pub gate: Gate,
}

impl fmt::Debug for DoorSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DoorSettings")
            .field("access", &self.access)
            .field("hosts", &self.hosts)
            .field("server_info", &self.server_info)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// What is looked at before a door sees a request.
struct Guard {
    hosts: Hosts,
    access: Access,
    clock: Clock,
    gate: Gate,
    metrics: Metrics,
}

/// Returns the doors. Where access is by bearer, a key that leaves the trust ends its sessions and running calls before
/// [`Trust::replace`] returns.
pub fn router(settings: DoorSettings) -> Router {
    let DoorSettings { dispatcher, access, hosts, server_info, clock, limits, gate } = settings;
    let guard = Arc::new(Guard {
        hosts: Hosts::new(&hosts),
        access: access.clone(),
        clock,
        gate,
        metrics: dispatcher.metrics().clone(),
    });
    let trust = match &access {
        Access::Bearer(trust) => Some(Arc::clone(trust)),
        Access::None(_) => None,
    };
    let mcp = Mcp::new(dispatcher, &server_info, limits, trust);
    if let Access::Bearer(trust) = &access {
        // Weak: a trust that outlives a router must not keep it.
        let weak: Weak<Mcp> = Arc::downgrade(&mcp);
        trust.on_replace(move |set| {
            if let Some(mcp) = weak.upgrade() {
                mcp.revoke(set);
            }
        });
    }
    Router::new()
        .route("/mcp", axum::routing::any(crate::mcp::serve).with_state(mcp))
        .route_layer(middleware::from_fn_with_state(Arc::clone(&guard), authenticate))
        .fallback(not_found)
        .layer(middleware::from_fn_with_state(guard, check_host))
}

async fn check_host(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    match guard.hosts.check(request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(reason) => {
            guard.metrics.refused(reason);
            text(StatusCode::FORBIDDEN, &format!("forbidden: {reason}"))
        }
    }
}

async fn authenticate(State(guard): State<Arc<Guard>>, mut request: Request, next: Next) -> Response {
    if !(guard.gate)() {
        guard.metrics.refused("starting");
        return starting();
    }
    let caller = match &guard.access {
        Access::None(caller) => Ok(caller.clone()),
        Access::Bearer(trust) => {
            let (headers, query) = (request.headers(), request.uri().query());
            trust.current().verify(headers, query, Door::Mcp, (guard.clock)())
        }
    };
    match caller {
        Ok(caller) => {
            mark_known(request.extensions());
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(refusal) => {
            guard.metrics.refused(refusal.reason());
            unauthorized(&refusal)
        }
    }
}

async fn not_found() -> Response {
    // Clients look for OAuth's documents here and want JSON even of a refusal.
    let body = json!({ "error": "not_found", "error_description": "there is nothing at this address" });
    json(StatusCode::NOT_FOUND, &body)
}

/// Returns the answer to a request whose bearer is refused.
pub fn unauthorized(refusal: &Unauthorized) -> Response {
    let mut response = text(StatusCode::UNAUTHORIZED, &format!("unauthorized: {refusal}"));
    let challenge = if refusal.is_missing() {
        HeaderValue::from_static("Bearer")
    } else {
        let text = format!("Bearer error=\"invalid_token\", error_description=\"{refusal}\"");
        HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("Bearer"))
    };
    response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    response
}

fn starting() -> Response {
    let error = CommandError::new(ErrorCode::Starting, "the environment is starting; try again in a moment");
    let mut response = json(StatusCode::SERVICE_UNAVAILABLE, &crate::mcp::protocol_error(&error));
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

fn text(status: StatusCode, text: &str) -> Response {
    answer(status, "text/plain; charset=utf-8", text.to_owned().into_bytes())
}

fn json(status: StatusCode, value: &Value) -> Response {
    answer(status, "application/json", value.to_string().into_bytes())
}

fn answer(status: StatusCode, content_type: &'static str, body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
