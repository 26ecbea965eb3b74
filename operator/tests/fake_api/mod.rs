//! An API server that keeps what it is given, knows optimistic locking and nothing of meaning.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::{Method, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;

#[derive(Default)]
struct Store {
    objects: BTreeMap<String, Value>,
    version: u64,
    /// Writes of this path are answered with 500.
    broken: Option<String>,
}

/// The server. It ends with the test's runtime.
#[derive(Clone)]
pub(crate) struct FakeApi {
    pub(crate) address: SocketAddr,
    store: Arc<Mutex<Store>>,
}

impl FakeApi {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let api = Self { address: listener.local_addr().unwrap(), store: Arc::default() };
        let router = Router::new().fallback(handle).with_state(api.store.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        api
    }

    /// Returns the object at a path.
    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.store.lock().objects.get(path).cloned()
    }

    /// Puts an object at a path, as another client would.
    pub(crate) fn put(&self, path: &str, object: Value) {
        self.store.lock().put(path, object);
    }

    /// Lets every further write of a path fail.
    pub(crate) fn break_writes(&self, path: &str) {
        self.store.lock().broken = Some(path.to_owned());
    }
}

impl Store {
    fn put(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.objects.insert(path.to_owned(), object.clone());
        object
    }
}

fn refusal(code: StatusCode, reason: &str) -> Response {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": reason, "reason": reason, "code": code.as_u16(),
    });
    (code, status.to_string()).into_response()
}

async fn handle(State(store): State<Arc<Mutex<Store>>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap_or_default();
    let path = parts.uri.path();
    if parts.uri.query().is_some_and(|query| query.contains("watch=true")) {
        // Nothing ever changes.
        let silence = futures::stream::pending::<Result<Bytes, std::convert::Infallible>>();
        return Body::from_stream(silence).into_response();
    }
    let mut store = store.lock();
    // Paths of objects have a name behind the plural: an odd number of segments below the version.
    let named = path.rsplit_once('/').is_some_and(|(parent, _)| is_collection(parent));
    if parts.method == Method::GET {
        return match store.objects.get(path) {
            Some(object) => object.to_string().into_response(),
            None if named => refusal(StatusCode::NOT_FOUND, "NotFound"),
            None => {
                json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []})
                    .to_string()
                    .into_response()
            }
        };
    }
    let object: Value = serde_json::from_slice(&body).unwrap_or_default();
    let path = if parts.method == Method::POST {
        format!("{path}/{}", object["metadata"]["name"].as_str().unwrap_or_default())
    } else {
        path.to_owned()
    };
    if store.broken.as_ref() == Some(&path) {
        return refusal(StatusCode::INTERNAL_SERVER_ERROR, "InternalError");
    }
    let before = store.objects.get(&path).map(|old| old["metadata"]["resourceVersion"].clone());
    match (parts.method, before) {
        (Method::POST, Some(_)) => refusal(StatusCode::CONFLICT, "AlreadyExists"),
        (Method::PUT, None) => refusal(StatusCode::NOT_FOUND, "NotFound"),
        (Method::PUT, Some(version)) if version != object["metadata"]["resourceVersion"] => {
            refusal(StatusCode::CONFLICT, "Conflict")
        }
        _ => store.put(&path, object).to_string().into_response(),
    }
}

fn is_collection(path: &str) -> bool {
    ["leases", "secrets", "events", "configmaps"].iter().any(|plural| path.ends_with(&format!("/{plural}")))
}
