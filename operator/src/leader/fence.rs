//! The fence before the API server: no write without leadership.

use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request};
use tower::{BoxError, Layer, Service};

use super::{Leadership, NotLeader};
use crate::metrics::Metrics;

/// A layer of the API client that lets reads pass, and writes only while the lease is young enough. A write under way is
/// given up when the lease becomes too old, so that no retry below this layer outlives it. Every write is counted.
#[derive(Clone)]
pub struct WriteFence {
    leadership: Leadership,
    metrics: Metrics,
}

impl WriteFence {
    /// Returns the layer.
    pub const fn new(leadership: Leadership, metrics: Metrics) -> Self {
        Self { leadership, metrics }
    }
}

impl<S> Layer<S> for WriteFence {
    type Service = Fenced<S>;
    fn layer(&self, inner: S) -> Fenced<S> {
        Fenced { inner, fence: self.clone() }
    }
}

/// The service behind the fence.
pub struct Fenced<S> {
    inner: S,
    fence: WriteFence,
}

impl<S, B> Service<Request<B>> for Fenced<S>
where
    S: Service<Request<B>>,
    S::Future: Send + 'static,
    S::Response: 'static,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Some(verb) = write_verb(request.method()) else {
            return self.inner.call(request).map(|answer| answer.map_err(Into::into)).boxed();
        };
        let WriteFence { leadership, metrics } = self.fence.clone();
        if let Err(error) = leadership.check() {
            return async move { Err(error.into()) }.boxed();
        }
        metrics.written(kind(request.uri().path()), verb);
        let mut answer = Box::pin(self.inner.call(request));
        async move {
            while let Some(left) = leadership.remaining() {
                if let Ok(answer) = tokio::time::timeout(left, &mut answer).await {
                    return answer.map_err(Into::into);
                }
            }
            Err(NotLeader.into())
        }
        .boxed()
    }
}

fn write_verb(method: &Method) -> Option<&'static str> {
    match *method {
        Method::GET | Method::HEAD | Method::OPTIONS => None,
        Method::POST => Some("create"),
        Method::PUT => Some("update"),
        Method::PATCH => Some("patch"),
        Method::DELETE => Some("delete"),
        _ => Some("other"),
    }
}

/// Returns the kind that a path of the API is about, from a fixed set.
fn kind(path: &str) -> &'static str {
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (["api", _, rest @ ..] | ["apis", _, _, rest @ ..]) = segments.as_slice() else {
        return "other";
    };
    let rest = match rest {
        ["namespaces", _namespace, rest @ ..] => rest,
        rest => rest,
    };
    match rest {
        ["environments", _, "status"] => "environments/status",
        ["environments", ..] => "environments",
        ["pods", ..] => "pods",
        ["secrets", ..] => "secrets",
        ["persistentvolumeclaims", ..] => "persistentvolumeclaims",
        ["networkpolicies", ..] => "networkpolicies",
        ["services", ..] => "services",
        ["events", ..] => "events",
        ["leases", ..] => "leases",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leader::tests::HandClock;
    use http::Response;
    use std::sync::Arc;
    use std::time::Duration;
    use tower::ServiceExt;

    #[test]
    fn kinds_come_from_a_fixed_set() {
        for (path, expected) in [
            ("/api/v1/namespaces/team/pods/dev", "pods"),
            ("/api/v1/namespaces/pods/secrets", "secrets"),
            ("/apis/cuddy.dev/v1alpha1/namespaces/team/environments/dev/status", "environments/status"),
            ("/apis/cuddy.dev/v1alpha1/namespaces/team/environments/status", "environments"),
            ("/apis/events.k8s.io/v1/namespaces/team/events", "events"),
            ("/apis/coordination.k8s.io/v1/namespaces/team/leases/cuddy-operator", "leases"),
            ("/api/v1/namespaces/pods", "other"),
            ("/api/v1/nodes/a", "other"),
            ("/version", "other"),
            ("", "other"),
        ] {
            assert_eq!(kind(path), expected, "{path}");
        }
    }

    fn request(method: Method) -> Request<String> {
        Request::builder().method(method).uri("/api/v1/namespaces/n/pods/p").body(String::new()).unwrap()
    }

    fn fence() -> (WriteFence, Arc<HandClock>, Leadership) {
        let clock = Arc::new(HandClock::default());
        clock.set(Duration::from_secs(1));
        let leadership = Leadership::new(Duration::from_secs(10), clock.clone());
        (WriteFence::new(leadership.clone(), Metrics::default()), clock, leadership)
    }

    #[tokio::test]
    async fn without_the_lease_reads_pass_and_writes_do_not() {
        let (fence, clock, leadership) = fence();
        let inner =
            tower::service_fn(|_: Request<String>| async { Ok::<_, BoxError>(Response::new(String::new())) });
        let mut service = fence.layer(inner);
        assert!(service.ready().await.unwrap().call(request(Method::GET)).await.is_ok());
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            let refused = service.ready().await.unwrap().call(request(method.clone())).await.unwrap_err();
            assert!(refused.downcast_ref::<NotLeader>().is_some(), "{method}");
        }
        leadership.renewed(leadership.now());
        assert!(service.ready().await.unwrap().call(request(Method::DELETE)).await.is_ok());
        clock.set(Duration::from_secs(12));
        assert!(service.ready().await.unwrap().call(request(Method::DELETE)).await.is_err());
        let written = fence.metrics.encode();
        assert!(written.contains(r#"api_writes_total{kind="pods",verb="delete"} 1"#), "{written}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_under_way_ends_with_the_lease() {
        let (fence, clock, leadership) = fence();
        leadership.renewed(leadership.now());
        let inner = tower::service_fn(|_: Request<String>| {
            std::future::pending::<Result<Response<String>, BoxError>>()
        });
        let mut service = fence.layer(inner);
        let write = tokio::spawn(service.ready().await.unwrap().call(request(Method::PATCH)));
        // The lease is renewed once meanwhile, and then no more.
        clock.set(Duration::from_secs(8));
        leadership.renewed(leadership.now());
        tokio::time::sleep(Duration::from_secs(11)).await;
        assert!(!write.is_finished());
        clock.set(Duration::from_secs(18));
        let refused = write.await.unwrap().unwrap_err();
        assert!(refused.downcast_ref::<NotLeader>().is_some());
    }
}
