//! The operator's listener and the gate.

use cuddy_protocol::control::{ActivityState, Gate, MAX_BODY};
use http::StatusCode;
use serde_json::json;

use crate::support::ask::{OPERATOR_ADDRESS, ask, control_request};
use crate::support::identity::Signer;
use crate::support::pod::{POD_UID, Pod};

const ACTIVITY: &str = "/control/v1/activity";

#[tokio::test]
async fn only_the_operator_is_heard() {
    let pod = Pod::open().await;
    let status = async |from: &str, bearer: &str| {
        ask(&pod.control, control_request(ACTIVITY, None, from, bearer)).await.status
    };
    let good = pod.identity.operator.control_bearer();
    assert_eq!(status(OPERATOR_ADDRESS, &good).await, StatusCode::OK);
    // Whoever speaks from within the pod, whatever it shows.
    for loopback in ["127.0.0.1:1", "127.8.9.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
        assert_eq!(status(loopback, &good).await, StatusCode::FORBIDDEN, "{loopback}");
    }
    for (bearer, what) in [
        (pod.identity.user.control_bearer(), "a user's key"),
        (Signer::new().control_bearer(), "anybody's key"),
        (pod.identity.operator.bearer(), "a bearer for the doors"),
        ("Bearer x".to_owned(), "no bearer"),
        (String::new(), "nothing"),
    ] {
        assert_eq!(status(OPERATOR_ADDRESS, &bearer).await, StatusCode::UNAUTHORIZED, "{what}");
    }
    // And its bearer opens no door.
    let door = crate::support::ask::mcp_request("version", &json!({}), &good);
    assert_eq!(ask(&pod.doors, door).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn bodies_are_bounded_and_checked() {
    let pod = Pod::open().await;
    let answer =
        pod.operator("/control/v1/quiesce", Some(json!({ "ifIdleSince": "x".repeat(MAX_BODY) }))).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    for (path, body) in [
        ("/control/v1/quiesce", json!({ "force": true })),
        ("/control/v1/anchor", json!({ "generation": 1 })),
        ("/control/v1/probe", json!({ "controlAddress": "a", "canaryAddress": "b", "nonce": "c" })),
        ("/control/v1/open", json!([])),
    ] {
        assert_eq!(pod.operator(path, Some(body)).await.status, StatusCode::BAD_REQUEST, "{path}");
    }
    assert_eq!(pod.operator("/control/v1/assign", Some(json!({}))).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn before_the_gate_opens_every_door_is_starting() {
    let pod = Pod::new().await;
    for bearer in [pod.identity.user.bearer(), "Bearer x".to_owned()] {
        let request = crate::support::ask::mcp_request("version", &json!({}), &bearer);
        let answer = ask(&pod.doors, request).await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(answer.body.to_string().contains("STARTING"), "{answer:?}");
    }
    let report = pod.report().await;
    assert_eq!((report.state, report.gate), (ActivityState::Starting, Gate::Closed));
    assert_eq!(report.pod_uid, POD_UID);
    let probe = http::Request::get("/readyz").body(axum::body::Body::empty()).unwrap();
    let ready = ask(&pod.admin, probe).await;
    assert_eq!(ready.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(ready.body, "waiting for: gate, host\n");

    let other = pod.operator("/control/v1/open", Some(json!({ "podUid": "pod-2" }))).await;
    assert_eq!(other.status, StatusCode::CONFLICT);
    assert_eq!(pod.report().await.gate, Gate::Closed);
    pod.open_gate().await;
    assert_eq!(pod.call("version", json!({})).await.unwrap()["apiLevel"], 1);
    assert!(pod.folder.path().join("agent/open").exists());
    pod.open_gate().await;
}

#[tokio::test]
async fn an_open_gate_outlives_the_sidecar() {
    let pod = Pod::open().await;
    let boot = pod.report().await.boot_id;
    let pod = pod.restart().await;
    let report = pod.report().await;
    assert_eq!(report.gate, Gate::Open);
    assert_ne!(report.boot_id, boot);
    assert!(pod.call("version", json!({})).await.is_ok());
}

#[tokio::test]
async fn metrics_tell_states_and_no_names() {
    let pod = Pod::open().await;
    pod.call("activity_lease_take", json!({ "name": "very-secret-name" })).await.unwrap();
    let request = http::Request::get("/metrics").body(axum::body::Body::empty()).unwrap();
    let text = ask(&pod.admin, request).await.body.as_str().unwrap().to_owned();
    for line in [
        "cuddy_sidecar_gate_open 1\n",
        "cuddy_sidecar_leases 1\n",
        "cuddy_sidecar_anchor_generation 1\n",
        "cuddy_sidecar_calls_total{command=\"activity_lease_take\",result=\"OK\"} 1\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
    assert!(!text.contains("very-secret-name"));
}

#[tokio::test]
async fn what_changes_something_is_in_the_trail_and_what_is_refused_too() {
    let pod = Pod::open().await;
    pod.call("activity_lease_take", json!({ "name": "build" })).await.unwrap();
    pod.refused("activity_lease_take", json!({ "name": "x", "ttlSeconds": 0 })).await;
    pod.parts.audit().flush().await.unwrap();
    let trail = std::fs::read_to_string(pod.folder.path().join("state/audit.log")).unwrap();
    let lines: Vec<serde_json::Value> = trail.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let outcomes: Vec<&str> = lines.iter().map(|l| l["outcome"]["result"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["begun", "done", "refused"]);
    assert_eq!(lines[0]["callId"], lines[1]["callId"]);
    assert_eq!(lines[2]["outcome"]["code"], "INVALID_PARAMS");
}

#[tokio::test]
async fn on_a_full_disk_one_reads_and_gives_back() {
    let pod = Pod::open().await;
    pod.call("activity_lease_take", json!({ "name": "build" })).await.unwrap();
    pod.parts.disk().fill();
    assert_eq!(pod.refused("activity_lease_take", json!({ "name": "more" })).await, "DISK_FULL");
    assert_eq!(pod.refused("exec_raw", json!({ "argv": ["true"] })).await, "DISK_FULL");
    assert!(pod.call("idle", json!({})).await.is_ok());
    assert!(pod.call("activity_lease_release", json!({ "id": "build" })).await.is_ok());
    pod.parts.disk().prepare();
    assert!(pod.call("activity_lease_take", json!({ "name": "more" })).await.is_ok());
}
