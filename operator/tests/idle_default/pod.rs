//! The sidecar of a pod, without its sockets.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use clap::Parser;
use cuddy_edge::{keys, token};
use cuddy_operator::identity::Identity;
use cuddy_protocol::Capability;
use cuddy_protocol::anchor::{ANCHOR_VERSION, AnchorDocument, TrustedKey};
use cuddy_protocol::claims::{Claims, DEFAULT_ISSUER};
use cuddy_protocol::host::HostActivity;
use cuddy_protocol::places::server_name;
use cuddy_sidecar::assembly::Assembly;
use cuddy_sidecar::cli::{Cli, Verb};
use cuddy_sidecar::config::Settings;
use ed25519_dalek::SigningKey;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use jiff::Timestamp;
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::ServiceExt;

use crate::settings::arguments;
use crate::world::Span;

pub(crate) const UID: &str = "7c1b0a3e-0000-4000-8000-000000000001";
pub(crate) const POD_UID: &str = "p-1";
pub(crate) const GENERATION: u64 = 7;
const AUDIENCE: &str = "erun-mcp:acme/dev";

/// The sidecar of a pod, and somebody who may call it.
pub(crate) struct Pod {
    control: Router,
    doors: Router,
    operator: Identity,
    user: SigningKey,
    _folder: tempfile::TempDir,
}

impl Pod {
    /// A pod whose host says that nothing runs. Its gate is closed.
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let Verb::Serve(args) = Cli::try_parse_from(arguments(folder.path())).unwrap().verb;
        let settings = Settings::parse(args).unwrap();
        for path in [
            &settings.state_dir,
            &settings.pod_state_dir,
            &settings.host_socket_dir,
            &settings.agent_socket_dir,
        ] {
            std::fs::create_dir_all(path).unwrap();
        }
        let (operator, user) = (Identity::generate(Timestamp::now()).unwrap(), keys::generate().unwrap());
        let key = TrustedKey {
            kid: keys::thumbprint(&user.verifying_key()),
            issuer: DEFAULT_ISSUER.to_owned(),
            public_key: keys::public_to_pem(&user.verifying_key()).unwrap(),
            max_capability: Capability::Admin,
            not_after: None,
        };
        let parts = Assembly::new(settings).unwrap();
        let document = AnchorDocument {
            version: ANCHOR_VERSION,
            generation: GENERATION,
            environment_uid: UID.to_owned(),
            tenant: "acme".parse().unwrap(),
            environment: "dev".parse().unwrap(),
            audience: AUDIENCE.to_owned(),
            keys: vec![key],
            control: operator.control_keys(),
        };
        let anchor = parts.put_in_force(document).await;
        parts.activity().host_seen(HostActivity::default());
        let (control, doors) = (parts.control(&anchor), parts.doors(&anchor).unwrap());
        Self { control, doors, operator, user, _folder: folder }
    }

    /// Asks the control routes as the operator does.
    pub(crate) async fn asked(&self, path: &str, body: Option<Value>) -> (StatusCode, Value) {
        let bearer = self.operator.control_bearer(UID, Timestamp::now()).unwrap();
        let operator = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 244, 0, 9)), 40_000);
        let request = Request::builder()
            .method(if body.is_some() { "POST" } else { "GET" })
            .uri(path)
            .header("authorization", format!("Bearer {}", bearer.expose_secret()))
            .header("content-type", "application/json")
            .extension(ConnectInfo(operator))
            .body(body.map_or_else(Body::empty, |body| Body::from(body.to_string())))
            .unwrap();
        answer(&self.control, request).await
    }

    /// Calls a tool; an error is its code. Time stands still meanwhile, as far as a call on this machine takes none: what a
    /// call changes is written down by a thread of its own, which paused time would not wait for.
    pub(crate) async fn call(&self, name: &str, arguments: Value) -> Result<Value, String> {
        let now = Timestamp::now().as_second();
        let claims = Claims {
            iss: DEFAULT_ISSUER.to_owned(),
            sub: None,
            aud: AUDIENCE.to_owned(),
            iat: now,
            exp: now + 60,
            nbf: None,
            scope: None,
            roles: None,
            cuddy_uid: None,
        };
        let bearer = token::mint(&self.user, &claims).unwrap();
        let message = json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": name, "arguments": arguments},
        });
        let request = Request::post("/mcp")
            .header("host", server_name(UID))
            .header("authorization", format!("Bearer {}", bearer.expose_secret()))
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .body(Body::from(message.to_string()))
            .unwrap();
        tokio::time::resume();
        let (status, body) = answer(&self.doors, request).await;
        tokio::time::pause();
        assert_eq!(status, StatusCode::OK, "{body}");
        let result = &body["result"];
        if result["isError"] == true {
            let error: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
            return Err(error["errorCode"].as_str().unwrap().to_owned());
        }
        Ok(result["structuredContent"].clone())
    }

    /// Somebody calls. It fails, since nothing is there to run a command, and is somebody's work all the same.
    pub(crate) async fn works(&self) -> Span {
        let began = Instant::now();
        assert_eq!(self.refused().await, "UNAVAILABLE");
        Span { began, ended: Instant::now() }
    }

    /// Somebody calls; returns why that fails.
    pub(crate) async fn refused(&self) -> String {
        self.call("exec_raw", json!({"argv": ["true"]})).await.unwrap_err()
    }

    /// Somebody takes a lease.
    pub(crate) async fn takes_lease(&self, ttl: Duration) -> Span {
        let began = Instant::now();
        let arguments = json!({"name": "build", "ttlSeconds": ttl.as_secs()});
        self.call("activity_lease_take", arguments).await.unwrap();
        Span { began, ended: Instant::now() }
    }
}

async fn answer(router: &Router, request: Request<Body>) -> (StatusCode, Value) {
    let (head, body) = router.clone().oneshot(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (head.status, serde_json::from_slice(&body).unwrap_or(Value::Null))
}
