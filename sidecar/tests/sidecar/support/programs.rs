//! The real programs: a sidecar and a host in a temporary folder.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cuddy_edge::client;
use cuddy_protocol::anchor::{ANCHOR_FILE, CA_FILE, TLS_CERT_FILE, TLS_KEY_FILE};
use cuddy_protocol::places::server_name;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::ask::{Answer, call_message, json_or_text, tool_result};
use super::identity::{Identity, Signer, UID};
use super::pod::{POD_UID, folders};

/// How long a condition may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
const SIDECAR: &str = env!("CARGO_BIN_EXE_cuddy-sidecar");

/// Builds the host beside the sidecar, once, and returns it.
fn host_program() -> &'static Path {
    static HOST: OnceLock<PathBuf> = OnceLock::new();
    HOST.get_or_init(|| {
        let debug = Path::new(SIDECAR).parent().unwrap();
        let target = debug.parent().unwrap().parent().unwrap();
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "-p", "cuddy-host", "--bin", "cuddy-host", "--target-dir"])
            .arg(target)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .unwrap();
        assert!(built.success(), "the host does not build");
        debug.join("cuddy-host")
    })
}

/// Waits for a condition.
pub(crate) async fn eventually<T>(what: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = condition().await {
            return found;
        }
        assert!(Instant::now() < end, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A sidecar's process, and what it says.
pub(crate) struct Sidecar {
    child: Child,
    lines: Receiver<Value>,
    addresses: HashMap<String, SocketAddr>,
}

impl Sidecar {
    pub(crate) fn start(folder: &Path, settings: &[(&str, &str)]) -> Self {
        let mut child = Command::new(SIDECAR)
            .arg("serve")
            .env_clear()
            .env("CUDDY_POD_UID", POD_UID)
            .env("CUDDY_ANCHOR_DIR", folder.join("anchor"))
            .env("CUDDY_STATE_DIR", folder.join("state"))
            .env("CUDDY_POD_STATE_DIR", folder.join("pod"))
            .env("CUDDY_HOST_SOCKET_DIR", folder.join("host"))
            .env("CUDDY_AGENT_SOCKET_DIR", folder.join("agent"))
            .envs(settings.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let value = serde_json::from_str(&line).unwrap_or(Value::String(line));
                if sender.send(value).is_err() {
                    return;
                }
            }
        });
        Self { child, lines, addresses: HashMap::new() }
    }

    /// Waits for a line of the log with this message; addresses of listeners are noted on the way.
    pub(crate) fn says(&mut self, message: &str) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).unwrap_or_else(|_| panic!("it never said {message:?}"));
            if line["message"] == "listening" {
                let text = |key: &str| line[key].as_str().unwrap().to_owned();
                self.addresses.insert(text("listener"), text("address").parse().unwrap());
            }
            if line["message"] == message {
                return line;
            }
        }
    }

    /// The port of a listener; none where it is off.
    pub(crate) fn port(&self, listener: &str) -> Option<u16> {
        self.addresses.get(listener).map(SocketAddr::port)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn terminate(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    /// Waits for the end, within a bound.
    pub(crate) fn ended(&mut self, within: Duration) -> ExitStatus {
        let end = Instant::now() + within;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "it did not end within {within:?}");
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }

    /// The rest of what it said.
    pub(crate) fn rest(&self) -> String {
        let mut text = String::new();
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            text.push_str(&line.to_string());
            text.push('\n');
        }
        text
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The folders of an environment, its anchor written.
pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) identity: Identity,
    host: Option<Child>,
}

/// Any ports, the gate open.
pub(crate) const OPEN: [(&str, &str); 5] = [
    ("CUDDY_LISTEN_TLS", "[::]:0"),
    ("CUDDY_LISTEN_CONTROL", "[::]:0"),
    ("CUDDY_LISTEN_PROBE", "[::]:0"),
    ("CUDDY_LISTEN_METRICS", "[::]:0"),
    ("CUDDY_GATE", "Open"),
];

impl World {
    pub(crate) fn new() -> Self {
        let world = Self { folder: tempfile::tempdir().unwrap(), identity: Identity::new(), host: None };
        folders(world.path());
        for name in ["home", "beats"] {
            fs::create_dir(world.path().join(name)).unwrap();
        }
        let anchor = world.path().join("anchor");
        let identity = &world.identity;
        let document = serde_json::to_string(&identity.document(1)).unwrap();
        fs::write(anchor.join(TLS_CERT_FILE), &identity.certificate).unwrap();
        fs::write(anchor.join(TLS_KEY_FILE), &identity.certificate_key).unwrap();
        fs::write(anchor.join(CA_FILE), &identity.ca).unwrap();
        fs::write(anchor.join(ANCHOR_FILE), document).unwrap();
        world
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A serving sidecar beside a host that `init` keeps.
    pub(crate) fn serving() -> (Self, Sidecar) {
        let mut world = Self::new();
        world.start_host();
        let mut sidecar = Sidecar::start(world.path(), &OPEN);
        sidecar.says("serving");
        (world, sidecar)
    }

    fn start_host(&mut self) {
        let path = |name: &str| self.path().join(name);
        let host = Command::new(host_program())
            .arg("init")
            .env("CUDDY_HOME", path("home").canonicalize().unwrap())
            .env("CUDDY_TENANT", "t")
            .env("CUDDY_ENVIRONMENT", "e")
            .env("CUDDY_HOST_SOCKET_DIR", path("host"))
            .env("CUDDY_AGENT_SOCKET_DIR", path("agent"))
            .env("CUDDY_BEATS_DIR", path("beats"))
            .env("CUDDY_TEST_WORLD", self.path())
            .stdin(Stdio::null())
            .stderr(fs::File::create(path("host.log")).unwrap())
            .spawn()
            .unwrap();
        self.host = Some(host);
    }

    /// The processes of this world's host side, each with its command line.
    pub(crate) fn processes(&self) -> Vec<(i32, String)> {
        let mark = format!("CUDDY_TEST_WORLD={}", self.path().display());
        let ids =
            fs::read_dir("/proc").unwrap().filter_map(|e| e.ok()?.file_name().to_str()?.parse::<i32>().ok());
        ids.filter(|pid| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|b| *b == 0).any(|line| line == mark.as_bytes())
        })
        .map(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            (pid, String::from_utf8_lossy(&line).replace('\0', " "))
        })
        .collect()
    }

    /// Sends one request over TLS and reads the answer.
    pub(crate) async fn send(&self, to: SocketAddr, request: Request<Full<Bytes>>) -> Option<Answer> {
        let stream = TcpStream::connect(to).await.ok()?;
        let tls = client::tls_config(self.identity.ca.as_bytes()).unwrap();
        let mut connection = client::connect(stream, tls, &server_name(UID)).await.ok()?;
        let (head, body) = connection.send_request(request).await.ok()?.into_parts();
        let bytes = body.collect().await.ok()?.to_bytes();
        Some(Answer { status: head.status, body: json_or_text(&bytes) })
    }

    pub(crate) async fn post(
        &self,
        port: u16,
        who: &Signer,
        name: &str,
        arguments: &Value,
    ) -> Option<Answer> {
        let request = Request::post("/mcp")
            .header("host", server_name(UID))
            .header("authorization", who.bearer())
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .body(Full::from(call_message(name, arguments).to_string()))
            .unwrap();
        self.send(([127, 0, 0, 1], port).into(), request).await
    }

    /// Calls a tool, and waits while the environment says that it is coming up.
    pub(crate) async fn call(&self, sidecar: &Sidecar, name: &str, arguments: Value) -> Value {
        let port = sidecar.port("tls").unwrap();
        eventually(name, async || {
            let answer = self.post(port, &self.identity.user, name, &arguments).await?;
            if answer.status == StatusCode::SERVICE_UNAVAILABLE {
                return None;
            }
            match tool_result(&answer) {
                Ok(result) => Some(result),
                Err((code, _)) if code == "UNAVAILABLE" => None,
                Err(error) => panic!("{name}: {error:?}"),
            }
        })
        .await
    }

    /// Asks the sidecar as the operator, from an address that is not loopback.
    pub(crate) async fn operator(
        &self,
        sidecar: &Sidecar,
        own: IpAddr,
        path: &str,
        body: Option<Value>,
    ) -> Option<Answer> {
        let to = (own, sidecar.port("control").unwrap()).into();
        self.send(to, self.control_request(path, body)).await
    }

    pub(crate) fn control_request(&self, path: &str, body: Option<Value>) -> Request<Full<Bytes>> {
        Request::builder()
            .method(if body.is_some() { Method::POST } else { Method::GET })
            .uri(path)
            .header("host", server_name(UID))
            .header("authorization", self.identity.operator.control_bearer())
            .body(body.map_or_else(Full::default, |body| Full::from(body.to_string())))
            .unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(host) = &mut self.host {
            let _ = host.kill();
            let _ = host.wait();
        }
        for (pid, _) in self.processes() {
            if let Some(pid) = rustix::process::Pid::from_raw(pid) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

/// This machine's own address towards the world, if it has one. Nothing is sent.
pub(crate) fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let own = socket.local_addr().ok()?.ip();
    (!own.is_loopback() && !own.is_unspecified()).then_some(own)
}

pub(crate) fn shell(script: &str) -> Value {
    json!({ "argv": ["sh", "-c", script] })
}
