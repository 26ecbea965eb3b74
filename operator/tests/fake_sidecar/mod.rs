//! A sidecar's outside, for faults that a real one does not show on demand.

use std::collections::HashSet;
use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use cuddy_operator::identity::Identity;
use futures::stream::{self, StreamExt};
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// Which forbidden paths are open, and whether the allowed one out is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Walls {
    pub(crate) way_out: bool,
    pub(crate) way_in: bool,
    pub(crate) control: bool,
}

/// How rounds of the gate go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probe {
    walls: Walls,
    /// In how many rounds the way in is still open.
    late_rounds: usize,
    /// Closed paths cost a second instead of being refused.
    silent: bool,
    /// Open paths are said to be closed.
    lies: bool,
}

impl Probe {
    pub(crate) const fn honest(walls: Walls) -> Self {
        Self { walls, late_rounds: 0, silent: false, lies: false }
    }

    pub(crate) const fn late(walls: Walls, late_rounds: usize) -> Self {
        Self { walls, late_rounds, silent: false, lies: false }
    }

    pub(crate) const fn lying(walls: Walls) -> Self {
        Self { walls, late_rounds: 0, silent: false, lies: true }
    }

    pub(crate) const fn silent(walls: Walls) -> Self {
        Self { walls, late_rounds: 0, silent: true, lies: false }
    }
}

/// What the control port answers to everything.
#[derive(Debug, Clone)]
pub(crate) struct Behaviour(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Answer(u16, String),
    Endless,
    HalfABody,
    Mute,
    Probing(Probe),
}

impl Behaviour {
    pub(crate) fn answering(status: u16, body: &Value) -> Self {
        Self(Kind::Answer(status, body.to_string()))
    }

    pub(crate) fn raw(status: u16, body: &str) -> Self {
        Self(Kind::Answer(status, body.to_owned()))
    }

    pub(crate) const fn endless() -> Self {
        Self(Kind::Endless)
    }

    pub(crate) const fn half_a_body() -> Self {
        Self(Kind::HalfABody)
    }

    pub(crate) const fn mute() -> Self {
        Self(Kind::Mute)
    }

    pub(crate) const fn probing(probe: Probe) -> Self {
        Self(Kind::Probing(probe))
    }
}

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) host: String,
    /// The audience of its bearer.
    pub(crate) audience: String,
    pub(crate) body: Value,
}

#[derive(Default)]
struct State {
    seen: Mutex<Vec<Seen>>,
    /// What the probe listener hands out at this moment.
    nonce: Mutex<Option<String>>,
    silent: Mutex<bool>,
}

/// The sidecar. It ends when it is dropped.
pub(crate) struct FakeSidecar {
    pub(crate) control_port: u16,
    pub(crate) probe_port: u16,
    state: Arc<State>,
    _tasks: JoinSet<()>,
}

/// What the control port speaks.
#[derive(Clone)]
enum Wire {
    Tls(TlsAcceptor),
    Plain,
    Nothing,
}

impl FakeSidecar {
    /// Starts a sidecar with a certificate that the identity issues for the UID.
    pub(crate) async fn start(identity: &Identity, uid: &str, behaviour: Behaviour) -> Self {
        let certificate = identity.issue_serving_certificate(uid, &[]).unwrap();
        let chain = vec![CertificateDer::from_pem_slice(certificate.cert_pem.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(certificate.key_pem.expose_secret().as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        Self::listen(Wire::Tls(TlsAcceptor::from(Arc::new(config))), behaviour).await
    }

    /// Starts one that speaks plain HTTP.
    pub(crate) async fn start_plain(behaviour: Behaviour) -> Self {
        Self::listen(Wire::Plain, behaviour).await
    }

    /// Starts one that accepts connections and says nothing.
    pub(crate) async fn start_silent() -> Self {
        Self::listen(Wire::Nothing, Behaviour::mute()).await
    }

    async fn listen(wire: Wire, behaviour: Behaviour) -> Self {
        let control = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let probe = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let (control_port, probe_port) =
            (control.local_addr().unwrap().port(), probe.local_addr().unwrap().port());
        let state = Arc::new(State::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(serve_control(control, wire, behaviour, state.clone()));
        tasks.spawn(serve_probe(probe, state.clone()));
        Self { control_port, probe_port, state, _tasks: tasks }
    }

    pub(crate) fn requests(&self) -> usize {
        self.state.seen.lock().len()
    }

    pub(crate) fn last_request(&self) -> Seen {
        self.state.seen.lock().last().cloned().unwrap()
    }

    pub(crate) fn nonces(&self) -> HashSet<String> {
        self.state
            .seen
            .lock()
            .iter()
            .filter_map(|seen| Some(seen.body["nonce"].as_str()?.to_owned()))
            .collect()
    }
}

async fn serve_control(listener: TcpListener, wire: Wire, behaviour: Behaviour, state: Arc<State>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (wire, behaviour, state) = (wire.clone(), behaviour.clone(), state.clone());
        connections.spawn(async move {
            let service = service_fn(move |request| answer(request, behaviour.0.clone(), state.clone()));
            let http = hyper::server::conn::http1::Builder::new();
            // How a connection ends is the client's affair.
            match wire {
                Wire::Tls(acceptor) => {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        let _ = http.serve_connection(TokioIo::new(stream), service).await;
                    }
                }
                Wire::Plain => {
                    let _ = http.serve_connection(TokioIo::new(stream), service).await;
                }
                Wire::Nothing => {
                    let _stream = stream;
                    std::future::pending::<()>().await;
                }
            }
        });
    }
}

type Body = BoxBody<Bytes, Infallible>;

async fn answer(
    request: Request<Incoming>,
    kind: Kind,
    state: Arc<State>,
) -> Result<Response<Body>, Infallible> {
    let (parts, body) = request.into_parts();
    let header = |name| parts.headers.get(name).map_or_else(String::new, |v| v.to_str().unwrap().to_owned());
    let body = body.collect().await.unwrap().to_bytes();
    let seen = Seen {
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        host: header("host"),
        audience: audience(&header("authorization")),
        body: if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() },
    };
    let round = state.seen.lock().len();
    state.seen.lock().push(seen.clone());
    let ok = |body: Body| Response::builder().header("content-length", "100").body(body).unwrap();
    Ok(match kind {
        Kind::Answer(status, body) => {
            Response::builder().status(status).body(Full::from(body).boxed()).unwrap()
        }
        Kind::Endless => {
            let chunk = || Ok(Frame::data(Bytes::from_static(&[b' '; 8192])));
            Response::new(BodyExt::boxed(StreamBody::new(stream::repeat_with(chunk))))
        }
        Kind::HalfABody => {
            let half = stream::iter([Ok(Frame::data(Bytes::from_static(b"{")))]);
            ok(BodyExt::boxed(StreamBody::new(half.chain(stream::pending()))))
        }
        Kind::Mute => std::future::pending().await,
        Kind::Probing(probe) => {
            Response::new(Full::from(dial_both(probe, round, &seen.body, &state).await).boxed())
        }
    })
}

fn audience(authorization: &str) -> String {
    let claims = authorization.strip_prefix("Bearer ").unwrap().split('.').nth(1).unwrap();
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
    claims["aud"].as_str().unwrap().to_owned()
}

/// Does what a sidecar does in a round, walls included.
async fn dial_both(probe: Probe, round: usize, request: &Value, state: &State) -> String {
    let text = |field: &str| request[field].as_str().unwrap();
    let nonce = text("nonce");
    *state.silent.lock() = probe.silent;
    if probe.walls.way_in || round < probe.late_rounds {
        *state.nonce.lock() = Some(nonce.to_owned());
    }
    let dial = async |address: &str, open: bool| {
        let through = open && line(address).await == format!("{nonce}\n");
        if !through && probe.silent {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        if through { "Through" } else { "NotThrough" }
    };
    let control = dial(text("controlAddress"), probe.walls.control);
    let canary = dial(text("canaryAddress"), probe.walls.way_out);
    let (control, canary) = tokio::join!(control, canary);
    *state.nonce.lock() = None;
    let canary = if probe.lies { "NotThrough" } else { canary };
    json!({ "control": control, "canary": canary }).to_string()
}

async fn line(address: &str) -> String {
    let mut text = String::new();
    let attempt = async { TcpStream::connect(address).await?.read_to_string(&mut text).await };
    let _ = tokio::time::timeout(Duration::from_secs(1), attempt).await;
    text
}

/// The probe listener: the nonce of the round whose way in is open, and nothing otherwise.
async fn serve_probe(listener: TcpListener, state: Arc<State>) {
    let mut kept = Vec::new();
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let nonce = state.nonce.lock().clone();
        if let Some(nonce) = nonce {
            let _ = stream.write_all(format!("{nonce}\n").as_bytes()).await;
        } else if *state.silent.lock() {
            kept.push(stream);
        }
    }
}
