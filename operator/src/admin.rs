//! The admin port: metrics, and what the kubelet asks.
//!
//! `/healthz` says that the process serves and nothing more. `/readyz` lists what is pending. A candidate that waits for
//! the lease is ready: a new pod must become ready before the old one, which leads, is ended.

use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;

/// What has to happen before the process is ready. Cloning is cheap.
#[derive(Debug, Clone, Default)]
pub struct Readiness(Arc<Mutex<BTreeSet<&'static str>>>);

impl Readiness {
    /// Adds a task; it is pending until the guard is dropped.
    pub fn pending(&self, task: &'static str) -> Pending {
        self.0.lock().insert(task);
        Pending { readiness: self.clone(), task }
    }

    fn tasks(&self) -> Vec<&'static str> {
        self.0.lock().iter().copied().collect()
    }
}

/// A task that is pending while this lives.
#[derive(Debug)]
pub struct Pending {
    readiness: Readiness,
    task: &'static str,
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.readiness.0.lock().remove(self.task);
    }
}

/// Binds the admin port. A machine without IPv6 cannot bind `[::]` and gets `0.0.0.0`.
pub async fn bind(listen: SocketAddr) -> io::Result<TcpListener> {
    match TcpListener::bind(listen).await {
        Err(error)
            if listen.ip().is_unspecified()
                && listen.is_ipv6()
                && error.kind() != io::ErrorKind::AddrInUse =>
        {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, listen.port())).await
        }
        bound => bound,
    }
}

/// Serves until cancelled.
pub async fn serve(
    listener: TcpListener,
    metrics: Metrics,
    readiness: Readiness,
    cancel: CancellationToken,
) -> io::Result<()> {
    axum::serve(listener, router(metrics, readiness)).with_graceful_shutdown(cancel.cancelled_owned()).await
}

fn router(metrics: Metrics, readiness: Readiness) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready).with_state(readiness))
        .route("/metrics", get(scrape).with_state(metrics))
}

async fn ready(State(readiness): State<Readiness>) -> (StatusCode, String) {
    match readiness.tasks() {
        tasks if tasks.is_empty() => (StatusCode::OK, "ready\n".to_owned()),
        tasks => (StatusCode::SERVICE_UNAVAILABLE, format!("pending: {}\n", tasks.join(", "))),
    }
}

async fn scrape(State(metrics): State<Metrics>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], metrics.encode())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    async fn get(router: &Router, path: &str) -> (StatusCode, String) {
        let request = http::Request::get(path).body(Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn readiness_lists_what_is_pending() {
        let readiness = Readiness::default();
        let router = router(Metrics::default(), readiness.clone());
        let (lease, canary) = (readiness.pending("lease"), readiness.pending("canary"));
        assert_eq!(
            get(&router, "/readyz").await,
            (StatusCode::SERVICE_UNAVAILABLE, "pending: canary, lease\n".into())
        );
        assert_eq!(get(&router, "/healthz").await.0, StatusCode::OK);
        drop(lease);
        assert_eq!(get(&router, "/readyz").await.1, "pending: canary\n");
        drop(canary);
        assert_eq!(get(&router, "/readyz").await, (StatusCode::OK, "ready\n".into()));
    }

    #[tokio::test]
    async fn metrics_are_served() {
        let metrics = Metrics::default();
        metrics.leads(true);
        let (status, text) = get(&router(metrics, Readiness::default()), "/metrics").await;
        assert_eq!(status, StatusCode::OK);
        assert!(text.contains("\ncuddy_operator_leader 1\n"), "{text}");
    }
}
