//! A Kubernetes API server of one Environment and one class, in memory: enough to see what the program asks for.

use std::io::Write;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::Home;
use super::fault_server::{FaultServer, Seen, answer};

/// What is stored, by path.
type Store = Arc<Mutex<Vec<(String, Value)>>>;

pub(crate) struct FakeApi {
    server: FaultServer,
    store: Store,
}

impl FakeApi {
    /// Starts the server and points the home's kubeconfig at it; the namespace is `acme`.
    pub(crate) fn start(home: &Home) -> Self {
        let store = Store::default();
        let served = Arc::clone(&store);
        let server = FaultServer::start(move |_, seen, stream| serve(&served, seen, stream));
        let config = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: fake\nclusters: [{{name: c, cluster: {{server: \"http://127.0.0.1:{}\"}}}}]\n\
             users: [{{name: u, user: {{}}}}]\ncontexts: [{{name: fake, context: {{cluster: c, user: u, namespace: acme}}}}]\n",
            server.port
        );
        std::fs::write(home.path("no-kubeconfig"), config).unwrap();
        Self { server, store }
    }

    /// Puts an Environment there.
    pub(crate) fn put(&self, name: &str, spec: &Value, status: &Value) {
        let value = json!({
            "apiVersion": "cuddy.dev/v1alpha1", "kind": "Environment",
            "metadata": { "name": name, "namespace": "acme", "uid": "u-1", "generation": 1, "resourceVersion": "5" },
            "spec": spec, "status": status,
        });
        self.store.lock().unwrap().push((environment(name), value));
    }

    /// The Environment as it is now.
    pub(crate) fn get(&self, name: &str) -> Option<Value> {
        self.at(&environment(name))
    }

    /// The class as it is now.
    pub(crate) fn class(&self, name: &str) -> Option<Value> {
        self.at(&format!("/apis/cuddy.dev/v1alpha1/environmentclasses/{name}"))
    }

    fn at(&self, path: &str) -> Option<Value> {
        self.store.lock().unwrap().iter().find(|(p, _)| p == path).map(|(_, v)| v.clone())
    }

    /// The requests of a method.
    pub(crate) fn requests(&self, method: &str) -> Vec<Seen> {
        self.server.seen().into_iter().filter(|s| s.head.starts_with(method)).collect()
    }
}

fn environment(name: &str) -> String {
    format!("/apis/cuddy.dev/v1alpha1/namespaces/acme/environments/{name}")
}

fn serve(store: &Store, seen: &Seen, stream: &mut TcpStream) {
    let mut words = seen.head.split_whitespace();
    let (method, target) = (words.next().unwrap(), words.next().unwrap());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut all = store.lock().unwrap();
    let place = all.iter().position(|(p, _)| p == path);
    match (method, place) {
        ("GET", Some(at)) => answer(stream, "200 OK", "", &all[at].1),
        ("GET", None) if query.contains("watch=") || query.contains("watch&") => {
            // Nothing changes any more: the watch stays open until its client goes.
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n");
            drop(all);
            let _ = std::io::Read::read(stream, &mut [0; 16]);
        }
        ("GET", None) if path.ends_with('s') => {
            let items: Vec<&Value> =
                all.iter().filter(|(p, _)| is_listed(p, path, query)).map(|(_, v)| v).collect();
            let kind = if path.ends_with("classes") { "EnvironmentClassList" } else { "EnvironmentList" };
            let list = json!({ "apiVersion": "cuddy.dev/v1alpha1", "kind": kind, "metadata": { "resourceVersion": "9" }, "items": items });
            answer(stream, "200 OK", "", &list);
        }
        ("POST", None) => {
            let name = seen.message["metadata"]["name"].as_str().unwrap();
            all.push((format!("{path}/{name}"), seen.message.clone()));
            answer(stream, "201 Created", "", &seen.message);
        }
        ("PUT", Some(at)) => {
            all[at].1 = seen.message.clone();
            answer(stream, "200 OK", "", &seen.message);
        }
        ("PATCH", Some(at)) => {
            merge(&mut all[at].1, &seen.message);
            let value = all[at].1.clone();
            answer(stream, "200 OK", "", &value);
        }
        ("PATCH", None) if query.contains("fieldManager") => {
            let mut made = seen.message.clone();
            // As the types' own defaults do.
            made.as_object_mut().unwrap().entry("spec").or_insert(json!({}));
            answer(stream, "201 Created", "", &made);
            all.push((path.to_owned(), made));
        }
        ("DELETE", Some(at)) => {
            let (_, gone) = all.remove(at);
            answer(stream, "200 OK", "", &gone);
        }
        _ => {
            let status = json!({ "apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "NotFound",
                "message": format!("{path} not found"), "code": 404 });
            answer(stream, "404 Not Found", "", &status);
        }
    }
}

/// Says whether an object is in a list: of this path, and of the name that a field selector asks for.
fn is_listed(object: &str, path: &str, query: &str) -> bool {
    let Some(name) = object.strip_prefix(path).and_then(|rest| rest.strip_prefix('/')) else { return false };
    match query.split('&').find_map(|part| part.strip_prefix("fieldSelector=metadata.name")) {
        Some(wanted) => wanted.trim_start_matches("%3D").trim_start_matches('=') == name,
        None => true,
    }
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}
