//! The program itself, against an API server that is a fake: settings, election, readiness, and how it ends.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod fake_api;

use std::io::Write;
use std::net::{Ipv4Addr, TcpListener as StdListener};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use fake_api::FakeApi;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/cuddy-system/leases/cuddy-operator";
const IDENTITY: &str = "/api/v1/namespaces/cuddy-system/secrets/cuddy-operator-identity";

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cuddy-operator"));
    command.env_clear().stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// A running operator.
struct Operator {
    child: Child,
    admin: u16,
    _kubeconfig: tempfile::NamedTempFile,
}

impl Operator {
    /// Starts one. Each of them has a loopback address of its own, since the canaries' ports are fixed.
    fn start(api: &FakeApi, pod: &str, address: Ipv4Addr) -> Self {
        let mut kubeconfig = tempfile::NamedTempFile::new().unwrap();
        let content = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": format!("http://{}", api.address)}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        });
        kubeconfig.write_all(content.to_string().as_bytes()).unwrap();
        let admin = StdListener::bind((address, 0)).unwrap().local_addr().unwrap().port();
        let child = program()
            .arg("run")
            .env("KUBECONFIG", kubeconfig.path())
            .env("CUDDY_OPERATOR_NAMESPACE", "cuddy-system")
            .env("CUDDY_OPERATOR_POD_NAME", pod)
            .env("CUDDY_OPERATOR_POD_IP", address.to_string())
            .env("CUDDY_OPERATOR_SIDECAR_IMAGE", "r/sidecar:1")
            .env("CUDDY_OPERATOR_LISTEN", format!("{address}:{admin}"))
            .spawn()
            .unwrap();
        Self { child, admin, _kubeconfig: kubeconfig }
    }

    /// Waits until a page of the admin port holds a text.
    async fn shows(&self, address: Ipv4Addr, path: &str, text: &str) {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let page = page(address, self.admin, path).await.unwrap_or_default();
            if page.contains(text) {
                return;
            }
            assert!(Instant::now() < deadline, "{path} shows no {text:?} but {page:?}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    fn terminate(&self) {
        let pid = rustix::process::Pid::from_raw(self.child.id().unwrap().try_into().unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    /// Waits for the end; returns how it ended and what was logged.
    async fn ended(mut self, within: Duration) -> (ExitStatus, String) {
        let mut stderr = self.child.stderr.take().unwrap();
        let mut log = String::new();
        let status = timeout(within, async {
            stderr.read_to_string(&mut log).await.unwrap();
            self.child.wait().await.unwrap()
        })
        .await
        .unwrap();
        (status, log)
    }
}

async fn page(address: Ipv4Addr, port: u16, path: &str) -> Option<String> {
    let stream = tokio::net::TcpStream::connect((address, port)).await.ok()?;
    let mut connection = cuddy_edge::client::handshake(stream).await.ok()?;
    let request =
        http::Request::get(path).header("host", "operator").body(http_body_util::Full::default()).ok()?;
    let response = connection.send_request(request).await.ok()?;
    let body = http_body_util::BodyExt::collect(response.into_body()).await.ok()?.to_bytes();
    String::from_utf8(body.to_vec()).ok()
}

fn holder(api: &FakeApi) -> Value {
    api.get(LEASE).unwrap()["spec"]["holderIdentity"].clone()
}

#[tokio::test]
async fn it_leads_and_gives_the_lease_back_when_it_is_asked_to_end() {
    let address = Ipv4Addr::new(127, 0, 81, 1);
    let api = FakeApi::start().await;
    let operator = Operator::start(&api, "pod-a", address);
    operator.shows(address, "/metrics", "\ncuddy_operator_leader 1\n").await;
    operator.shows(address, "/readyz", "ready").await;
    operator.shows(address, "/healthz", "ok").await;
    assert_eq!(holder(&api), "pod-a");
    let identity = api.get(IDENTITY).unwrap();
    assert_eq!(identity["immutable"], true);
    for port in [17081, 17082] {
        tokio::net::TcpStream::connect((address, port)).await.unwrap();
    }
    operator.terminate();
    let (status, log) = operator.ended(Duration::from_secs(15)).await;
    assert!(status.success(), "{status:?} {log}");
    assert_eq!(holder(&api), "");
    for entry in ["ca.key", "control.key"] {
        let secret = identity["data"][entry].as_str().unwrap();
        assert!(!log.contains(&secret[..40]), "{entry} is in the log");
    }
    assert!(!log.contains("PRIVATE"), "{log}");
}

#[tokio::test]
async fn a_second_one_is_ready_waits_and_takes_over() {
    let (first, second) = (Ipv4Addr::new(127, 0, 81, 2), Ipv4Addr::new(127, 0, 81, 3));
    let api = FakeApi::start().await;
    let leader = Operator::start(&api, "pod-a", first);
    leader.shows(first, "/metrics", "\ncuddy_operator_leader 1\n").await;
    let identity = api.get(IDENTITY);
    let candidate = Operator::start(&api, "pod-b", second);
    candidate.shows(second, "/readyz", "ready").await;
    candidate.shows(second, "/metrics", "\ncuddy_operator_leader 0\n").await;
    let connected = tokio::net::TcpStream::connect((second, 17081)).await;
    assert!(connected.is_err(), "a candidate does nothing yet");
    leader.terminate();
    leader.ended(Duration::from_secs(15)).await;
    candidate.shows(second, "/metrics", "\ncuddy_operator_leader 1\n").await;
    assert_eq!(holder(&api), "pod-b");
    assert_eq!(api.get(IDENTITY), identity, "the identity is read and not made anew");
}

#[tokio::test]
async fn the_loss_of_the_lease_ends_the_process() {
    let address = Ipv4Addr::new(127, 0, 81, 4);
    let api = FakeApi::start().await;
    let operator = Operator::start(&api, "pod-a", address);
    operator.shows(address, "/metrics", "\ncuddy_operator_leader 1\n").await;
    let mut taken = api.get(LEASE).unwrap();
    taken["spec"]["holderIdentity"] = json!("pod-b");
    api.put(LEASE, taken);
    let (status, log) = operator.ended(Duration::from_secs(15)).await;
    assert_eq!(status.code(), Some(1));
    assert!(log.contains("the lease is held by pod-b now"), "{log}");
    assert_eq!(holder(&api), "pod-b", "and it is not given back by who does not hold it");
}

#[tokio::test]
async fn a_lease_that_cannot_be_renewed_ends_the_process_in_time() {
    let address = Ipv4Addr::new(127, 0, 81, 5);
    let api = FakeApi::start().await;
    let operator = Operator::start(&api, "pod-a", address);
    operator.shows(address, "/metrics", "\ncuddy_operator_leader 1\n").await;
    api.break_writes(LEASE);
    let (status, log) = operator.ended(Duration::from_secs(14)).await;
    assert_eq!(status.code(), Some(1));
    assert!(log.contains("could not be renewed in time"), "{log}");
}

#[tokio::test]
async fn a_damaged_identity_is_refused_loudly_and_kept() {
    let address = Ipv4Addr::new(127, 0, 81, 6);
    let api = FakeApi::start().await;
    let damaged = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cuddy-operator-identity"},
        "data": {"ca.crt": "aGVsbG8=", "ca.key": "aGVsbG8=", "control.key": "aGVsbG8="},
    });
    api.put(IDENTITY, damaged);
    let before = api.get(IDENTITY);
    let operator = Operator::start(&api, "pod-a", address);
    let (status, log) = operator.ended(Duration::from_secs(15)).await;
    assert_eq!(status.code(), Some(1));
    assert!(log.contains("cuddy-operator-identity is damaged"), "{log}");
    assert_eq!(api.get(IDENTITY), before);
}

#[tokio::test]
async fn unusable_settings_are_told_all_at_once_with_64() {
    let output = program().args(["run", "--pod-ip=x", "--verify=Perhaps"]).output().await.unwrap();
    assert_eq!(output.status.code(), Some(64));
    let told = String::from_utf8(output.stderr).unwrap();
    for part in [
        "--pod-ip",
        "--verify",
        "CUDDY_OPERATOR_SIDECAR_IMAGE",
        "CUDDY_OPERATOR_NAMESPACE",
        "CUDDY_OPERATOR_POD_NAME",
    ] {
        assert!(told.contains(part), "{part} is missing in {told}");
    }
    let output = program().args(["run", "--no-such-flag"]).output().await.unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert_eq!(program().arg("--version").output().await.unwrap().status.code(), Some(0));
}

#[tokio::test]
async fn the_types_are_printed_as_they_are_committed() {
    let output = program().arg("crd").output().await.unwrap();
    assert!(output.status.success());
    let printed = String::from_utf8(output.stdout).unwrap();
    let files = cuddy_crds::schema::yaml_files().unwrap();
    assert_eq!(printed, files.map(|(_, text)| text).join("---\n"));
}
