//! The control client: a connection per call, TLS first, a bearer of thirty seconds, two seconds for all of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cuddy_edge::client::{self, ConnectError};
use cuddy_protocol::control::{
    ACTIVITY_PATH, ANCHOR_PATH, ActivityReport, AnchorLoaded, AnchorPush, Blocked, Dial, Fence, MAX_BODY,
    OPEN_PATH, OpenRequest, PROBE_PATH, ProbeAnswer, ProbeRequest, QUIESCE_PATH, QuiesceRequest,
    TIMEOUT_SECONDS,
};
use cuddy_protocol::places::{PORT_CONTROL, PORT_PROBE, server_name};
use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use jiff::Timestamp;
use secrecy::ExposeSecret;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::gate::{self, GateTimes, RoundSeen};
use super::{ControlError, Isolation, Quiesced, SidecarControl, Target, sanitize};
use crate::canary::Canary;
use crate::chain::Chain;
use crate::identity::Identity;
use crate::metrics::Metrics;

/// How long one call may take, connection included.
const TIMEOUT: Duration = Duration::from_secs(TIMEOUT_SECONDS);

/// The ports of a sidecar that the operator dials.
#[derive(Debug, Clone, Copy)]
pub struct Ports {
    /// The control listener.
    pub control: u16,
    /// The probe listener.
    pub probe: u16,
}

impl Default for Ports {
    fn default() -> Self {
        Self { control: PORT_CONTROL, probe: PORT_PROBE }
    }
}

/// The way to real sidecars.
pub struct ControlClient {
    identity: Arc<Identity>,
    tls: Arc<rustls::ClientConfig>,
    canary: Canary,
    metrics: Metrics,
    ports: Ports,
    times: GateTimes,
}

/// An answer whose body is within its bound, and nothing else checked.
struct Answer {
    status: StatusCode,
    body: Bytes,
}

impl ControlClient {
    /// Returns a client that trusts sidecars by the identity's CA.
    pub fn new(identity: Arc<Identity>, canary: Canary, metrics: Metrics) -> Result<Self, ConnectError> {
        let tls = client::tls_config(identity.ca_pem().as_bytes())?;
        Ok(Self { identity, tls, canary, metrics, ports: Ports::default(), times: GateTimes::default() })
    }

    /// Returns the client with other ports of the sidecar and other bounds of the gate.
    pub fn with_ports_and_times(self, ports: Ports, times: GateTimes) -> Self {
        Self { ports, times, ..self }
    }

    /// Makes one call within its time and counts it. `read` turns the answer into the result.
    async fn call<T>(
        &self,
        call: &'static str,
        target: &Target,
        request: Request<Full<Bytes>>,
        read: impl FnOnce(Answer) -> Result<T, ControlError>,
    ) -> Result<T, ControlError> {
        let answer = timeout(TIMEOUT, self.exchange(target, request))
            .await
            .unwrap_or_else(|_| Err(ControlError::Unreachable("no answer in time".to_owned())));
        let result = answer.and_then(read);
        self.metrics.called(call, result.as_ref().map_or_else(ControlError::category, |_| "ok"));
        if let Err(error) = &result {
            tracing::debug!(call, namespace = target.namespace, environment = target.name, %error, "control call failed");
        }
        result
    }

    async fn exchange(
        &self,
        target: &Target,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Answer, ControlError> {
        let stream = TcpStream::connect(SocketAddr::new(target.pod_ip, self.ports.control))
            .await
            .map_err(unreachable)?;
        let name = server_name(&target.environment_uid);
        let mut connection = client::connect(stream, self.tls.clone(), &name).await.map_err(unreachable)?;
        let bearer =
            self.identity.control_bearer(&target.environment_uid, Timestamp::now()).map_err(unreachable)?;
        let text = zeroize::Zeroizing::new(format!("Bearer {}", bearer.expose_secret()));
        let mut value = HeaderValue::from_str(&text).map_err(unreachable)?;
        value.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, value);
        request.headers_mut().insert(HOST, HeaderValue::from_str(&name).map_err(unreachable)?);
        let response = connection.send_request(request).await.map_err(unreachable)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_BODY).collect().await.map_err(|e| {
            ControlError::Malformed(format!("no whole body of at most {MAX_BODY} bytes: {e}"))
        })?;
        Ok(Answer { status, body: body.to_bytes() })
    }

    /// One round of the gate: the sidecar dials out while its own probe listener is dialled. See [`gate`].
    async fn round(&self, target: &Target) -> Result<RoundSeen, ControlError> {
        let nonce =
            gate::nonce().map_err(|e| ControlError::Unreachable(format!("no random numbers: {e}")))?;
        let round = self.canary.begin(target.pod_ip, &nonce);
        let request = post(
            PROBE_PATH,
            &ProbeRequest {
                control_address: self.canary.allowed_address().to_string(),
                canary_address: self.canary.forbidden_address().to_string(),
                nonce,
            },
        )?;
        let probe = self.call("probe", target, request, |answer| {
            let answer = answer.expect_ok()?;
            answer.json::<ProbeAnswer>()
        });
        let inbound = gate::dial_while_held(SocketAddr::new(target.pod_ip, self.ports.probe), &round);
        let (answer, inbound) = gate::together(probe, inbound, &round).await;
        let ProbeAnswer { control, mut canary } = answer?;
        if round.has_crossed() {
            // Seen with our own eyes, whatever the sidecar says.
            canary = Dial::Through;
        }
        Ok(RoundSeen { control, canary, inbound })
    }
}

impl SidecarControl for ControlClient {
    fn activity<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Result<ActivityReport, ControlError>> {
        async move {
            self.call("activity", target, get(ACTIVITY_PATH)?, |answer| {
                let report: ActivityReport = answer.expect_ok()?.json()?;
                if report.pod_uid != target.pod_uid {
                    return Err(ControlError::Conflict("another pod answers".to_owned()));
                }
                sanitize::report(report, Timestamp::now()).map_err(ControlError::Malformed)
            })
            .await
        }
        .boxed()
    }

    fn quiesce<'a>(
        &'a self,
        target: &'a Target,
        if_idle_since: Option<String>,
    ) -> BoxFuture<'a, Result<Quiesced, ControlError>> {
        async move {
            let request = post(QUIESCE_PATH, &QuiesceRequest { if_idle_since })?;
            self.call("quiesce", target, request, |answer| {
                if answer.status == StatusCode::CONFLICT {
                    let blocked: Blocked = answer.json()?;
                    return Ok(Quiesced::Blocked(sanitize::blocked(&blocked)));
                }
                let fence: Fence = answer.expect_ok()?.json()?;
                sanitize::fence(fence).map(Quiesced::Fenced).map_err(ControlError::Malformed)
            })
            .await
        }
        .boxed()
    }

    fn push_anchor<'a>(
        &'a self,
        target: &'a Target,
        anchor: AnchorPush,
    ) -> BoxFuture<'a, Result<AnchorLoaded, ControlError>> {
        async move {
            self.call("anchor", target, post(ANCHOR_PATH, &anchor)?, |answer| {
                let loaded: AnchorLoaded = answer.expect_ok()?.json()?;
                sanitize::keys(&loaded.keys).map_err(ControlError::Malformed)?;
                Ok(loaded)
            })
            .await
        }
        .boxed()
    }

    fn verify_isolation<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Result<Isolation, ControlError>> {
        async move {
            let started = Instant::now();
            let isolation = gate::settle(&self.times, || self.round(target)).await?;
            self.metrics.gated(isolation, started.elapsed());
            Ok(isolation)
        }
        .boxed()
    }

    fn open<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Result<(), ControlError>> {
        async move {
            let request = post(OPEN_PATH, &OpenRequest { pod_uid: target.pod_uid.clone() })?;
            self.call("open", target, request, |answer| answer.expect_ok().map(|_| ())).await
        }
        .boxed()
    }
}

impl Answer {
    /// Sorts out every status but success.
    fn expect_ok(self) -> Result<Self, ControlError> {
        match self.status {
            status if status.is_success() => Ok(self),
            StatusCode::UNAUTHORIZED => Err(ControlError::Refused),
            StatusCode::CONFLICT => Err(ControlError::Conflict(self.message())),
            StatusCode::GATEWAY_TIMEOUT => Err(ControlError::Unreachable(self.message())),
            status => Err(ControlError::Malformed(format!("status {}: {}", status.as_u16(), self.message()))),
        }
    }

    /// Returns what a refusal says, made harmless: the message of an error, or else the body as it is.
    fn message(&self) -> String {
        #[derive(serde::Deserialize)]
        struct Message {
            message: String,
        }
        match serde_json::from_slice::<Message>(&self.body) {
            Ok(Message { message }) => sanitize::text(&message),
            Err(_) => sanitize::text(&String::from_utf8_lossy(&self.body)),
        }
    }

    fn json<T: DeserializeOwned>(&self) -> Result<T, ControlError> {
        // serde's message may quote the answer.
        serde_json::from_slice(&self.body)
            .map_err(|e| ControlError::Malformed(sanitize::text(&e.to_string())))
    }
}

fn get(path: &str) -> Result<Request<Full<Bytes>>, ControlError> {
    Request::builder().method(Method::GET).uri(path).body(Full::default()).map_err(unreachable)
}

fn post(path: &str, body: &impl Serialize) -> Result<Request<Full<Bytes>>, ControlError> {
    let body = serde_json::to_vec(body).map_err(unreachable)?;
    Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::from(body))
        .map_err(unreachable)
}

/// Returns the error with its causes, since a `ControlError` may end in a condition's message.
fn unreachable(error: impl std::error::Error) -> ControlError {
    ControlError::Unreachable(sanitize::text(&Chain(&error).to_string()))
}
