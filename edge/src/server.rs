//! Serving a router on a socket: TLS or plain, with bounds on who waits, for how long, and how many.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ConnectInfo;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::body::Held;
use crate::connection::{Connection, Strangers};

pub use crate::connection::mark_known;

/// The bounds of a listener (DESIGN section 5).
#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    /// Connections that have shown no bearer yet; one more closes the oldest of them.
    pub strangers: usize,
    /// Connections in all.
    pub connections: usize,
    /// The time from the connection to the end of its first header, the TLS handshake included.
    pub header: Duration,
    /// How long a connection that has shown a bearer may stay without a request.
    pub idle: Duration,
    /// How long requests that run may go on when the program ends.
    pub drain: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            strangers: 64,
            connections: 512,
            header: Duration::from_secs(10),
            idle: Duration::from_mins(2),
            drain: Duration::from_secs(5),
        }
    }
}

/// The largest header of a request, in bytes.
const MAX_HEADER_BYTES: usize = 64 * 1024;
/// How long to wait when no connection can be taken (no file handles left).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why there is no serving certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificate cannot be read.
    #[error("no certificate that can be read")]
    Certificate,
    /// The key cannot be read. The parser's words could quote it, so they are left out.
    #[error("no private key that can be read")]
    Key,
    /// They do not go together.
    #[error("set up TLS")]
    Config(#[source] rustls::Error),
}

/// Returns TLS settings for serving: 1.3 only, HTTP/1.1.
pub fn server_config(cert_pem: &[u8], key_pem: &[u8]) -> Result<Arc<rustls::ServerConfig>, TlsError> {
    let chain = CertificateDer::pem_slice_iter(cert_pem)
        .collect::<Result<Vec<_>, _>>()
        .ok()
        .filter(|chain| !chain.is_empty())
        .ok_or(TlsError::Certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key_pem).map_err(|_| TlsError::Key)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(TlsError::Config)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(TlsError::Config)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Serves a router over TLS until the token is cancelled, then lets what runs end for a while.
pub async fn serve_tls(
    listener: TcpListener,
    config: Arc<rustls::ServerConfig>,
    router: axum::Router,
    limits: ConnectionLimits,
    shutdown: CancellationToken,
) {
    let acceptor = TlsAcceptor::from(config);
    let handshake = move |stream| {
        let acceptor = acceptor.clone();
        async move { acceptor.accept(stream).await }
    };
    serve(listener, handshake, router, limits, shutdown).await;
}

/// Serves a router in plain HTTP: for loopback only.
pub async fn serve_plain(
    listener: TcpListener,
    router: axum::Router,
    limits: ConnectionLimits,
    shutdown: CancellationToken,
) {
    serve(listener, |stream| async { Ok(stream) }, router, limits, shutdown).await;
}

async fn serve<H, F, S>(
    listener: TcpListener,
    handshake: H,
    router: axum::Router,
    limits: ConnectionLimits,
    shutdown: CancellationToken,
) where
    H: Fn(TcpStream) -> F + Clone + Send + 'static,
    F: Future<Output = std::io::Result<S>> + Send,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let strangers = Strangers::new(limits.strangers);
    let places = Arc::new(Semaphore::new(limits.connections));
    let tasks = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.cancelled() => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "accepting a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            tracing::debug!(%peer, "too many connections");
            continue;
        };
        // Answers are small and waited for.
        let _ = stream.set_nodelay(true);
        let connection = strangers.enter();
        let (handshake, router, shutdown) = (handshake.clone(), router.clone(), shutdown.clone());
        tasks.spawn(async move {
            let _place = place;
            let evicted = connection.evicted().clone();
            let ready = tokio::select! {
                ready = tokio::time::timeout(limits.header, handshake(stream)) => ready,
                () = evicted.cancelled() => return,
                () = shutdown.cancelled() => return,
            };
            match ready {
                Ok(Ok(stream)) => converse(stream, peer, router, &connection, limits, &shutdown).await,
                Ok(Err(error)) => tracing::debug!(%peer, %error, "TLS handshake"),
                Err(_) => tracing::debug!(%peer, "TLS handshake took too long"),
            }
        });
    }
    drop(listener);
    tasks.close();
    if tokio::time::timeout(limits.drain, tasks.wait()).await.is_err() {
        tracing::info!(connections = tasks.len(), "connections cut off at the end");
    }
}

/// Serves one connection until it ends, is idle for too long, has to make room, or the program ends.
async fn converse<S>(
    stream: S,
    peer: SocketAddr,
    router: axum::Router,
    connection: &Connection,
    limits: ConnectionLimits,
    shutdown: &CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let standing = connection.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        let active = standing.request();
        request.extensions_mut().insert(standing.clone());
        request.extensions_mut().insert(ConnectInfo(peer));
        let answer = router.clone().oneshot(request.map(axum::body::Body::new));
        async move {
            let answer = answer.await.unwrap_or_else(|never: Infallible| match never {});
            Ok::<_, Infallible>(answer.map(|body| Held::new(body, active)))
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(MAX_HEADER_BYTES);
    let mut served = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut ending = false;
    loop {
        // While a request runs there is no deadline; its end is looked for at the pace of the shorter bound.
        let deadline = connection.deadline(limits.header, limits.idle);
        let look = deadline.unwrap_or_else(|| tokio::time::Instant::now() + limits.header);
        tokio::select! {
            ended = served.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%peer, %error, "connection ended");
                }
                return;
            }
            () = tokio::time::sleep_until(look) => {
                let over = connection.deadline(limits.header, limits.idle);
                if over.is_some_and(|at| at <= tokio::time::Instant::now()) {
                    tracing::debug!(%peer, "nothing came");
                    return;
                }
            }
            () = connection.evicted().cancelled() => return,
            () = shutdown.cancelled(), if !ending => {
                ending = true;
                served.as_mut().graceful_shutdown();
            }
        }
    }
}
