//! Without bearers: whoever reaches loopback counts as the environment itself.

use cuddy_protocol::control::ActivityState;
use cuddy_sidecar::config::Auth;
use serde_json::json;

use crate::support::ask::{ask, mcp_request, tool_result};
use crate::support::identity::Identity;
use crate::support::pod::Pod;

#[tokio::test]
async fn callers_without_a_bearer_have_the_environments_own_limits() {
    let identity = Identity::new();
    let document = identity.document(1);
    let folder = tempfile::tempdir().unwrap();
    let pod = Pod::with_settings(folder, identity, document, |settings| settings.auth = Auth::None).await;
    pod.open_gate().await;
    pod.host_runs(&[]);
    let call = async |name: &str, arguments| {
        tool_result(&ask(&pod.doors, mcp_request(name, &arguments, "Bearer nonsense")).await)
    };
    let lease = call("activity_lease_take", json!({ "name": "loop", "ttlSeconds": 3600 })).await.unwrap();
    assert_eq!(lease["lease"]["holder"], "cuddy#environment");
    let refusal =
        call("activity_lease_take", json!({ "name": "long", "ttlSeconds": 3601 })).await.unwrap_err();
    assert_eq!(refusal.0, "FORBIDDEN");
    // It keeps the environment up, but not without end.
    assert_eq!(pod.report().await.state, ActivityState::Busy);
    let idle = call("idle", json!({})).await.unwrap();
    assert!(idle["explanation"].as_str().unwrap().contains("At the latest it is stopped at"), "{idle}");
}
