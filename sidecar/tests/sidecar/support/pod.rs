//! The sidecar's parts in process, in a temporary folder, without sockets.

use std::fs;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use axum::Router;
use clap::Parser;
use cuddy_protocol::anchor::AnchorDocument;
use cuddy_protocol::control::ActivityReport;
use cuddy_protocol::host::{HostActivity, RunningJob};
use cuddy_sidecar::anchor::Anchor;
use cuddy_sidecar::assembly::Assembly;
use cuddy_sidecar::cli::{Cli, Verb};
use cuddy_sidecar::config::Settings;
use http::StatusCode;
use serde_json::{Value, json};

use super::ask::{Answer, OPERATOR_ADDRESS, ask, control_request, mcp_request, tool_result};
use super::identity::Identity;

pub(crate) const POD_UID: &str = "pod-1";
const FOLDERS: [&str; 5] = ["anchor", "state", "pod", "host", "agent"];

pub(crate) struct Pod {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) identity: Identity,
    pub(crate) parts: Assembly,
    pub(crate) anchor: Arc<Anchor>,
    pub(crate) control: Router,
    pub(crate) doors: Router,
    pub(crate) admin: Router,
}

pub(crate) fn folders(folder: &Path) {
    for name in FOLDERS {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
}

/// The settings as shipped, but for the folders, and quiet.
pub(crate) fn settings(folder: &Path) -> Settings {
    let path = |name: &str| folder.join(name).display().to_string();
    let args = [
        "cuddy-sidecar".to_owned(),
        "serve".to_owned(),
        "--audit-stdout=off".to_owned(),
        format!("--pod-uid={POD_UID}"),
        format!("--anchor-dir={}", path("anchor")),
        format!("--state-dir={}", path("state")),
        format!("--pod-state-dir={}", path("pod")),
        format!("--host-socket-dir={}", path("host")),
        format!("--agent-socket-dir={}", path("agent")),
    ];
    let Verb::Serve(args) = Cli::try_parse_from(args).unwrap().verb;
    Settings::parse(args).unwrap()
}

impl Pod {
    pub(crate) async fn new() -> Self {
        let identity = Identity::new();
        let document = identity.document(1);
        Self::with(tempfile::tempdir().unwrap(), identity, document).await
    }

    pub(crate) async fn with(
        folder: tempfile::TempDir,
        identity: Identity,
        document: AnchorDocument,
    ) -> Self {
        Self::with_settings(folder, identity, document, |_| {}).await
    }

    pub(crate) async fn with_settings(
        folder: tempfile::TempDir,
        identity: Identity,
        document: AnchorDocument,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        folders(folder.path());
        let mut settings = settings(folder.path());
        change(&mut settings);
        let parts = Assembly::new(settings).unwrap();
        let anchor = parts.put_in_force(document).await;
        let known = Arc::new(OnceLock::new());
        known.set(Arc::clone(&anchor)).unwrap();
        let control = parts.control(&anchor);
        let doors = parts.doors(&anchor).unwrap();
        let admin = parts.admin(known);
        Self { folder, identity, parts, anchor, control, doors, admin }
    }

    /// A pod whose gate is open and whose host answers that nothing runs.
    pub(crate) async fn open() -> Self {
        let pod = Self::new().await;
        pod.open_gate().await;
        pod.host_runs(&[]);
        pod
    }

    /// The sidecar is started again in the same pod.
    pub(crate) async fn restart(self) -> Self {
        let document = self.identity.document(1);
        Self::with(self.folder, self.identity, document).await
    }

    pub(crate) async fn open_gate(&self) {
        let answer = self.operator("/control/v1/open", Some(json!({ "podUid": POD_UID }))).await;
        assert_eq!(answer.status, StatusCode::NO_CONTENT, "{answer:?}");
    }

    pub(crate) fn host_runs(&self, jobs: &[&str]) {
        let job = |name: &&str| RunningJob {
            id: (*name).to_owned(),
            name: (*name).to_owned(),
            started_at: "2026-05-25T14:31:02Z".to_owned(),
            pid: 1,
        };
        let jobs = jobs.iter().map(job).collect();
        self.parts.activity().host_seen(HostActivity { jobs, terminal_idle_seconds: None });
    }

    pub(crate) async fn operator(&self, path: &str, body: Option<Value>) -> Answer {
        let bearer = self.identity.operator.control_bearer();
        ask(&self.control, control_request(path, body.as_ref(), OPERATOR_ADDRESS, &bearer)).await
    }

    pub(crate) async fn report(&self) -> ActivityReport {
        let answer = self.operator("/control/v1/activity", None).await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        serde_json::from_value(answer.body).unwrap()
    }

    pub(crate) async fn post(&self, name: &str, arguments: Value) -> Answer {
        ask(&self.doors, mcp_request(name, &arguments, &self.identity.user.bearer())).await
    }

    pub(crate) async fn call(&self, name: &str, arguments: Value) -> Result<Value, (String, String)> {
        let answer = self.post(name, arguments).await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        tool_result(&answer)
    }

    pub(crate) async fn refused(&self, name: &str, arguments: Value) -> String {
        self.call(name, arguments).await.unwrap_err().0
    }
}
