//! An API server in memory: objects by path, and a list of everything that was asked of it.
//!
//! It knows what the reconciler relies on: names are unique, UIDs are preconditions of patch and delete, a status is written
//! by itself, and whatever a test wants refused is refused. It does not validate.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};

/// The API server. Clones are the same one.
#[derive(Clone, Default)]
pub(crate) struct FakeApi(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    log: Vec<Asked>,
    faults: Vec<Fault>,
    count: u64,
}

/// Something that was asked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Asked {
    /// GET, POST, PATCH, DELETE.
    pub(crate) method: Method,
    /// The path, without the query.
    pub(crate) path: String,
    /// The query.
    pub(crate) query: String,
    /// The body; null if there was none.
    pub(crate) body: Value,
}

/// Something that is refused.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    /// The method.
    pub(crate) method: Method,
    /// The end of the path.
    pub(crate) path: &'static str,
    /// The status.
    pub(crate) code: u16,
    /// The words.
    pub(crate) message: String,
}

impl FakeApi {
    /// Returns a client of it.
    pub(crate) fn client(&self) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move {
                let (parts, body) = request.into_parts();
                let bytes = body.collect().await?.to_bytes();
                let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
                let query = parts.uri.query().unwrap_or_default().to_owned();
                let asked = Asked { method: parts.method, path: parts.uri.path().to_owned(), query, body };
                let (code, answer) = api.answer(asked);
                let code = StatusCode::from_u16(code)?;
                let body = Body::from(serde_json::to_vec(&answer)?);
                Ok::<_, tower::BoxError>(Response::builder().status(code).body(body)?)
            }
        });
        Client::new(service, "default")
    }

    /// Puts an object there, as somebody else would. Returns it as it is kept.
    pub(crate) fn put(&self, path: &str, object: Value) -> Value {
        self.0.lock().store(path, object)
    }

    /// Changes an object, as somebody else would.
    pub(crate) fn edit(&self, path: &str, change: impl FnOnce(&mut Value)) {
        let mut state = self.0.lock();
        let mut object = state.objects.get(path).cloned().unwrap_or_else(|| panic!("no {path}"));
        change(&mut object);
        state.store(path, object);
    }

    /// Takes an object away.
    pub(crate) fn remove(&self, path: &str) {
        self.0.lock().objects.remove(path);
    }

    /// Returns an object.
    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.0.lock().objects.get(path).cloned()
    }

    /// Returns all objects whose path holds a text.
    pub(crate) fn all(&self, part: &str) -> Vec<Value> {
        let state = self.0.lock();
        state
            .objects
            .iter()
            .filter(|(path, _)| path.contains(part))
            .map(|(_, object)| object.clone())
            .collect()
    }

    /// Refuses something until [`Self::mend`].
    pub(crate) fn refuse(&self, fault: Fault) {
        self.0.lock().faults.push(fault);
    }

    /// Refuses nothing any more.
    pub(crate) fn mend(&self) {
        self.0.lock().faults.clear();
    }

    /// Returns and forgets what was asked.
    pub(crate) fn take_log(&self) -> Vec<Asked> {
        std::mem::take(&mut self.0.lock().log)
    }

    /// Returns and forgets the writes, events apart, as `METHOD path`.
    pub(crate) fn take_writes(&self) -> Vec<String> {
        let asked = self.take_log();
        asked
            .iter()
            .filter(|one| one.method != Method::GET && !one.path.contains("/events"))
            .map(|one| format!("{} {}", one.method, one.path.rsplit_once("/namespaces/acme/").unwrap().1))
            .collect()
    }

    fn answer(&self, asked: Asked) -> (u16, Value) {
        let mut state = self.0.lock();
        state.log.push(asked.clone());
        let Asked { method, path, body, query } = asked;
        let fault = state.faults.iter().find(|fault| fault.method == method && path.ends_with(fault.path));
        if let Some(fault) = fault {
            let reason = if fault.code == 409 { "Conflict" } else { "" };
            return status(fault.code, reason, &fault.message);
        }
        if path.contains("/events") {
            return (201, body);
        }
        match method {
            Method::GET => {
                state.objects.get(&path).map_or_else(|| not_found(&path), |object| (200, object.clone()))
            }
            Method::POST => state.create(&path, body),
            Method::PATCH => state.patch(&path, &query, body),
            Method::DELETE => state.delete(&path, &body),
            _ => status(405, "", "no such method"),
        }
    }
}

impl State {
    fn store(&mut self, path: &str, mut object: Value) -> Value {
        self.count += 1;
        let count = self.count;
        let metadata = &mut object["metadata"];
        metadata["resourceVersion"] = json!(count.to_string());
        if metadata["uid"].is_null() {
            metadata["uid"] = json!(format!("uid-{count}"));
        }
        self.objects.insert(path.to_owned(), object.clone());
        object
    }

    fn create(&mut self, collection: &str, object: Value) -> (u16, Value) {
        let path = format!("{collection}/{}", object["metadata"]["name"].as_str().unwrap());
        if self.objects.contains_key(&path) {
            return status(409, "AlreadyExists", &format!("{path} already exists"));
        }
        (201, self.store(&path, object))
    }

    #[expect(clippy::needless_pass_by_value, reason = "as the other methods")]
    fn patch(&mut self, path: &str, query: &str, body: Value) -> (u16, Value) {
        let (path, is_status) = match path.strip_suffix("/status") {
            Some(path) => (path, true),
            None => (path, false),
        };
        let Some(live) = self.objects.get(path).cloned() else {
            let applies = query.contains("fieldManager") && query.contains("force");
            assert!(is_status || !applies, "an apply would have created {path}");
            return not_found(path);
        };
        let expected = &body["metadata"]["uid"];
        if !expected.is_null() && expected != &live["metadata"]["uid"] {
            return status(409, "Conflict", "uid mismatch");
        }
        let mut object = live;
        if is_status {
            object["status"] = body["status"].clone();
        } else {
            merge(&mut object, &body);
        }
        (200, self.store(path, object))
    }

    fn delete(&mut self, path: &str, body: &Value) -> (u16, Value) {
        let Some(mut live) = self.objects.get(path).cloned() else { return not_found(path) };
        let expected = &body["preconditions"]["uid"];
        if !expected.is_null() && expected != &live["metadata"]["uid"] {
            return status(409, "Conflict", "uid mismatch");
        }
        if path.contains("/pods/") {
            // A pod ends before it is gone.
            live["metadata"]["deletionTimestamp"] = json!("2100-01-01T00:00:00Z");
            return (200, self.store(path, live));
        }
        self.objects.remove(path);
        (200, live)
    }
}

/// Objects are merged, everything else is replaced.
fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name.clone()).or_insert(Value::Null), value);
            }
            // The lists of a policy are one value each: what is left out is gone.
            if from.contains_key("podSelector") {
                into.retain(|name, _| from.contains_key(name));
            }
        }
        (into, from) => *into = from.clone(),
    }
}

fn not_found(path: &str) -> (u16, Value) {
    status(404, "NotFound", &format!("{path} not found"))
}

fn status(code: u16, reason: &str, message: &str) -> (u16, Value) {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code});
    (code, body)
}
