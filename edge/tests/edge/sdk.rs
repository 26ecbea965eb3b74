//! The Rust SDK's client against the doors, over a real socket.

use std::sync::Arc;
use std::time::Duration;

use cuddy_edge::server::{ConnectionLimits, serve_plain};
use parking_lot::Mutex;
use rmcp::handler::client::ClientHandler;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, JsonObject, ProgressNotificationParam,
    ProtocolVersion,
};
use rmcp::service::{
    ClientLifecycleMode, NotificationContext, PeerRequestOptions, RunningService, ServiceError,
    serve_client_with_lifecycle,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{RoleClient, model};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::support::ask::{Doors, doors};
use crate::support::commands::one;
use crate::support::tokens::{key, token_of};

#[derive(Clone, Default)]
struct Watcher(Arc<Mutex<Vec<f64>>>);

impl ClientHandler for Watcher {
    async fn on_progress(&self, step: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.0.lock().push(step.progress);
    }
}

type Client = RunningService<RoleClient, Watcher>;

async fn serve() -> (Doors, String) {
    let doors = doors();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/mcp", listener.local_addr().unwrap());
    let router = doors.router.clone();
    tokio::spawn(serve_plain(listener, router, ConnectionLimits::default(), CancellationToken::new()));
    (doors, address)
}

async fn connect(address: &str, token: &str, mode: ClientLifecycleMode) -> Result<Client, String> {
    let config =
        StreamableHttpClientTransportConfig::with_uri(address.to_owned()).auth_header(token.to_owned());
    let transport = StreamableHttpClientTransport::from_config(config);
    let connecting = serve_client_with_lifecycle(Watcher::default(), transport, mode);
    let connected = tokio::time::timeout(Duration::from_mins(1), connecting).await.unwrap();
    connected.map_err(|e| format!("{e:?}"))
}

fn params(name: &'static str, arguments: Value) -> CallToolRequestParams {
    let arguments: JsonObject = serde_json::from_value(arguments).unwrap();
    CallToolRequestParams::new(name).with_arguments(arguments)
}

#[tokio::test]
async fn the_sdks_client_lists_calls_and_sees_progress() {
    let (_doors, address) = serve().await;
    // The second tries the modern era first, and has to find out that it is not spoken here yet.
    let modern_first = ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: None,
    };
    for mode in [ClientLifecycleMode::Initialize, modern_first] {
        let client = connect(&address, &token_of("sdk", &key(1)), mode).await.unwrap();
        let tools = client.list_all_tools().await.unwrap();
        assert_eq!(tools.len(), 8);
        assert_eq!(tools[6].annotations.as_ref().unwrap().read_only_hint, Some(false));
        let result = client.call_tool(params("echo", json!({ "text": "hi" }))).await.unwrap();
        assert_eq!(result.structured_content, Some(json!({ "text": "hi" })));
        assert_eq!(result.is_error, Some(false));
        let result = client.call_tool(params("fail", json!({}))).await.unwrap();
        assert_eq!((result.is_error, result.structured_content), (Some(true), None));
        let unknown = client.call_tool(params("nothing", json!({}))).await.unwrap_err();
        assert!(matches!(unknown, ServiceError::McpError(e) if e.code == model::ErrorCode::INVALID_PARAMS));
        let result = client.call_tool(params("steps", json!({}))).await.unwrap();
        assert_eq!(result.structured_content, Some(json!({ "text": "with steps" })));
        let seen = async {
            while client.service().0.lock().len() < 3 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), seen).await.unwrap();
        assert_eq!(*client.service().0.lock(), [1.0, 2.0, 3.0]);
        client.cancel().await.unwrap();
    }
}

#[tokio::test]
async fn the_sdks_cancel_reaches_the_handler() {
    let (doors, address) = serve().await;
    let client = connect(&address, &token_of("sdk", &key(1)), ClientLifecycleMode::Initialize).await.unwrap();
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params("hold", json!({}))));
    let running = client.send_cancellable_request(request, PeerRequestOptions::no_options()).await.unwrap();
    one(&doors.program.held.began).await;
    running.cancel(None).await.unwrap();
    one(&doors.program.held.cancelled).await;
    let result = client.call_tool(params("echo", json!({ "text": "still there" }))).await.unwrap();
    assert_eq!(result.is_error, Some(false));
}

#[tokio::test]
async fn the_sdks_client_begins_anew_when_its_session_is_gone() {
    let (doors, address) = serve().await;
    let client = connect(&address, &token_of("sdk", &key(1)), ClientLifecycleMode::Initialize).await.unwrap();
    // Eight others of the same subject: its own session had to go.
    for _ in 0..8 {
        doors.client("sdk").initialize().await;
    }
    let result = client.call_tool(params("echo", json!({ "text": "back" }))).await.unwrap();
    assert_eq!(result.structured_content, Some(json!({ "text": "back" })));
}

#[tokio::test]
async fn the_sdks_client_hears_that_it_may_not_come_in() {
    let (_doors, address) = serve().await;
    let error = connect(&address, "x.y.z", ClientLifecycleMode::Initialize).await.err().unwrap();
    assert!(error.contains("invalid_token") && error.contains("token is malformed"), "{error}");
}
