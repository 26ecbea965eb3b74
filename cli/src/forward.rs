//! What `cuddy open` serves: plain HTTP on a port of this machine, passed on to the pod over TLS.
//!
//! Bearers pass through and are checked in the pod alone. A request is passed on only if it came to this very address by
//! name (`Host`), so that no web page can reach it under a name of its own. Nothing is woken: only a tool call through
//! the proxy or the gateway does that.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cuddy_protocol::{CommandError, ErrorCode};
use http::header::{CONNECTION, CONTENT_TYPE, HOST, RETRY_AFTER, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cluster::{self, ClusterArgs, Place};
use crate::error::CliError;
use crate::output;
use crate::reach::availability::Up;
use crate::reach::pod::PodRoute;
use crate::reach::{Notice, ReachError, Route, RouteError, Wake, wake};

/// Connections at once: more than any client holds, and few enough for the API server.
const MAX_CONNECTIONS: usize = 64;
/// The largest request, in bytes; the pod takes no larger one (D21).
const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;
/// How long a header may take to come in full.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a request's body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a request waits for a pod that is being replaced.
const POD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long answers that run may go on when the forward is closed.
const DRAIN: Duration = Duration::from_secs(2);

type Body = BoxBody<Bytes, hyper::Error>;

/// A forward to one Environment.
pub(crate) struct Forward {
    client: Client,
    namespace: String,
    name: String,
    route: Mutex<Option<Arc<Route>>>,
}

impl Forward {
    /// Returns a forward that knows no pod yet.
    pub(crate) async fn new(args: &ClusterArgs, place: &Place, name: &str) -> Result<Self, CliError> {
        let client = cluster::client(args).await?;
        Ok(Self {
            client,
            namespace: place.namespace.clone(),
            name: name.to_owned(),
            route: Mutex::new(None),
        })
    }

    /// Waits until the Environment is up, without waking it.
    pub(crate) async fn until_up(&self, timeout: Duration, notice: Notice<'_>) -> Result<Up, ReachError> {
        let request = wake::Request {
            client: &self.client,
            namespace: &self.namespace,
            name: &self.name,
            wake: Wake::No,
            timeout,
        };
        wake::until_up(&request, notice).await
    }

    async fn route(&self) -> Result<Arc<Route>, ReachError> {
        if let Some(route) = self.route.lock().clone() {
            return Ok(route);
        }
        let up = self.until_up(POD_TIMEOUT, &|_| {}).await?;
        let pod = PodRoute::new(self.client.clone(), &self.namespace, up)?;
        let route = Arc::new(Route::pod(pod));
        *self.route.lock() = Some(Arc::clone(&route));
        Ok(route)
    }

    fn forget(&self, route: &Arc<Route>) {
        let mut known = self.route.lock();
        if known.as_ref().is_some_and(|k| Arc::ptr_eq(k, route)) {
            *known = None;
        }
    }

    /// Passes a request on. One that never reached the pod is tried once more, since the pod may be another one by now.
    async fn pass_on(&self, request: Request<Full<Bytes>>) -> Response<Body> {
        let mut last = None;
        for _ in 0..2 {
            let route = match self.route().await {
                Ok(route) => route,
                Err(error) => return unreachable(&error.into()),
            };
            match route.request(request.clone()).await {
                Ok(response) => return response.map(BodyExt::boxed),
                Err(RouteError::NotSent(error)) => {
                    self.forget(&route);
                    last = Some(error);
                }
                Err(RouteError::Lost(error)) => {
                    self.forget(&route);
                    let words = format!("{}; the request may have been acted upon", error.chain());
                    return refuse(
                        StatusCode::BAD_GATEWAY,
                        &CommandError::new(ErrorCode::OutcomeUnknown, words),
                    );
                }
            }
        }
        unreachable(&last.unwrap_or_else(|| CliError::unreachable("the pod is not reached")))
    }

    async fn answer(&self, port: u16, request: Request<Incoming>) -> Response<Body> {
        if !is_for_us(request.headers(), port) {
            let words = "this address is reached as 127.0.0.1 or localhost only";
            return refuse(StatusCode::FORBIDDEN, &CommandError::new(ErrorCode::Forbidden, words));
        }
        let (head, body) = request.into_parts();
        let body = match tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, MAX_BODY_BYTES).collect())
            .await
        {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
                let words = format!("a request has at most {MAX_BODY_BYTES} bytes");
                return refuse(StatusCode::PAYLOAD_TOO_LARGE, &CommandError::new(ErrorCode::TooLarge, words));
            }
            Ok(Err(_)) | Err(_) => {
                let error = CommandError::new(ErrorCode::InvalidParams, "the request did not come in full");
                return refuse(StatusCode::BAD_REQUEST, &error);
            }
        };
        let path = head.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        let mut onward = Request::new(Full::new(body));
        *onward.method_mut() = head.method;
        let Ok(uri) = path.parse() else {
            let error = CommandError::new(ErrorCode::InvalidParams, "the target cannot be read");
            return refuse(StatusCode::BAD_REQUEST, &error);
        };
        *onward.uri_mut() = uri;
        *onward.headers_mut() = onward_headers(head.headers);
        let mut response = self.pass_on(onward).await;
        for name in [CONNECTION, TRANSFER_ENCODING] {
            response.headers_mut().remove(name);
        }
        response
    }
}

/// Serves a forward until the token is cancelled.
pub(crate) async fn serve(forward: Forward, listener: std::net::TcpListener, stop: CancellationToken) {
    let port = listener.local_addr().map(|a| a.port()).unwrap_or_default();
    let listener = listener.set_nonblocking(true).and_then(|()| tokio::net::TcpListener::from_std(listener));
    let listener = match listener {
        Ok(listener) => listener,
        Err(error) => return output::note(&format!("cannot listen: {error}")),
    };
    let forward = Arc::new(forward);
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let tasks = TaskTracker::new();
    loop {
        let (stream, place) = tokio::select! {
            accepted = accept(&listener, &places) => accepted,
            () = stop.cancelled() => break,
        };
        let (forward, stop) = (Arc::clone(&forward), stop.clone());
        tasks.spawn(async move {
            let _place = place;
            let _ = stream.set_nodelay(true);
            let service = service_fn(|request| {
                let forward = Arc::clone(&forward);
                async move { Ok::<_, Infallible>(forward.answer(port, request).await) }
            });
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
            let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                () = stop.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended");
            }
        });
    }
    tasks.close();
    let _ = tokio::time::timeout(DRAIN, tasks.wait()).await;
}

async fn accept(
    listener: &tokio::net::TcpListener,
    places: &Arc<Semaphore>,
) -> (tokio::net::TcpStream, tokio::sync::OwnedSemaphorePermit) {
    loop {
        // The place comes first: who finds none waits in the kernel's own queue, which is bounded.
        let Ok(place) = Arc::clone(places).acquire_owned().await else { return std::future::pending().await };
        match listener.accept().await {
            Ok((stream, _)) => return (stream, place),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Says whether a request came to this address under its own name.
fn is_for_us(headers: &HeaderMap, port: u16) -> bool {
    let mut hosts = headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    let Ok(host) = host.to_str() else { return false };
    [format!("127.0.0.1:{port}"), format!("localhost:{port}")]
        .iter()
        .any(|own| own.eq_ignore_ascii_case(host))
}

/// Returns the headers that go on: not those of this connection, and not its `Host`, which the pod's own name replaces.
fn onward_headers(mut headers: HeaderMap) -> HeaderMap {
    let named: Vec<String> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    for name in named {
        headers.remove(name.as_str());
    }
    for name in [
        "connection",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "content-length",
    ] {
        headers.remove(name);
    }
    headers
}

fn unreachable(error: &CliError) -> Response<Body> {
    let mut words = error.chain();
    for hint in &error.hints {
        words = format!("{words}; {hint}");
    }
    let mut response = refuse(
        StatusCode::SERVICE_UNAVAILABLE,
        &CommandError::new(ErrorCode::Unavailable, output::clean(&words)),
    );
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("2"));
    response
}

/// Answers in the form of REST, which our own client reads, and people too.
fn refuse(status: StatusCode, error: &CommandError) -> Response<Body> {
    let body = serde_json::json!({
        "code": error.error_code,
        "message": error.message,
        "details": error.details,
        "retryable": error.retryable,
    });
    let body = Full::new(Bytes::from(body.to_string())).map_err(|never: Infallible| match never {}).boxed();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn other_names_for_this_address_are_refused() {
        let asks = |host: &'static str| is_for_us(&headers(&[("host", host)]), 17000);
        assert!(asks("127.0.0.1:17000") && asks("localhost:17000") && asks("LocalHost:17000"));
        for bad in [
            "evil.com",
            "evil.com:17000",
            "127.0.0.1",
            "127.0.0.1:17001",
            "localhost.evil.com:17000",
            "127.0.0.1:17000@evil.com",
            "",
        ] {
            assert!(!asks(bad), "{bad}");
        }
        assert!(!is_for_us(&headers(&[]), 17000));
        assert!(!is_for_us(&headers(&[("host", "127.0.0.1:17000"), ("host", "evil.com")]), 17000));
    }

    #[test]
    fn headers_of_the_connection_stay_behind() {
        let onward = onward_headers(headers(&[
            ("host", "127.0.0.1:17000"),
            ("connection", "close, X-Hop"),
            ("x-hop", "1"),
            ("transfer-encoding", "chunked"),
            ("authorization", "Bearer x"),
            ("mcp-session-id", "s"),
        ]));
        let mut names: Vec<&str> = onward.keys().map(http::HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["authorization", "mcp-session-id"]);
    }
}
