//! Idle, stop and fence, under paused time and with the shipped settings.

use std::time::Duration;

use cuddy_protocol::control::ActivityState;
use http::StatusCode;
use serde_json::json;
use tokio::time::advance;

use crate::support::pod::Pod;

const QUIESCE: &str = "/control/v1/quiesce";

#[tokio::test(start_paused = true)]
async fn the_shipped_default_may_be_stopped_after_fifteen_minutes_and_a_minute_of_grace() {
    let pod = Pod::open().await;
    let report = pod.report().await;
    assert_eq!((report.state, report.stop_in_seconds), (ActivityState::Starting, Some(960)));
    advance(Duration::from_mins(1)).await;
    let report = pod.report().await;
    assert_eq!((report.state, report.stop_in_seconds), (ActivityState::Idle, Some(900)));
    let since = report.idle_since.unwrap();
    advance(Duration::from_secs(899)).await;
    assert_eq!(pod.report().await.stop_in_seconds, Some(1));
    assert_eq!(pod.call("idle", json!({})).await.unwrap()["eligible_for_stop"], false);
    advance(Duration::from_secs(1)).await;
    let report = pod.report().await;
    assert_eq!((report.state, report.stop_in_seconds), (ActivityState::Idle, Some(0)));
    assert_eq!(report.idle_since.as_ref(), Some(&since), "asking is no activity");
    let idle = pod.call("idle", json!({})).await.unwrap();
    assert_eq!(idle["eligible_for_stop"], true);
    assert_eq!(idle["stop_at"].as_str(), report.stop_at.as_deref());
    assert_eq!(idle["timeout"], "15m0s");
    let answer = pod.operator(QUIESCE, Some(json!({ "ifIdleSince": since }))).await;
    assert_eq!((answer.status, &answer.body["expiresInSeconds"]), (StatusCode::OK, &json!(30)));
}

#[tokio::test(start_paused = true)]
async fn a_fence_refuses_new_work_and_ends_by_itself() {
    let pod = Pod::open().await;
    advance(Duration::from_mins(16)).await;
    let since = pod.report().await.idle_since.unwrap();
    let answer = pod.operator(QUIESCE, Some(json!({ "ifIdleSince": since }))).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(pod.report().await.state, ActivityState::Quiesced);
    for (name, arguments) in [
        ("activity_lease_take", json!({ "name": "x" })),
        ("exec_raw", json!({ "argv": ["true"] })),
        ("exec_raw", json!({ "argv": ["true"], "wait": false })),
    ] {
        assert_eq!(pod.refused(name, arguments).await, "STOPPING", "{name}");
    }
    // Looking goes on, and says what happens.
    let idle = pod.call("idle", json!({})).await.unwrap();
    assert!(idle["explanation"].as_str().unwrap().contains("about to be stopped"), "{idle}");
    advance(Duration::from_secs(29)).await;
    assert_eq!(pod.refused("activity_lease_take", json!({ "name": "x" })).await, "STOPPING");
    advance(Duration::from_secs(1)).await;
    let report = pod.report().await;
    assert_eq!((report.state, report.idle_since), (ActivityState::Idle, Some(since)));
    // From here on the audit's own thread is waited for, which paused time would not do.
    tokio::time::resume();
    assert!(pod.call("activity_lease_take", json!({ "name": "x" })).await.is_ok());
    assert_eq!(pod.report().await.state, ActivityState::Busy);
}

#[tokio::test(start_paused = true)]
async fn work_since_the_report_takes_the_stop_back() {
    let pod = Pod::open().await;
    advance(Duration::from_mins(16)).await;
    let since = pod.report().await.idle_since.unwrap();
    pod.host_runs(&["suite"]);
    let answer = pod.operator(QUIESCE, Some(json!({ "ifIdleSince": since }))).await;
    assert_eq!((answer.status, answer.body), (StatusCode::CONFLICT, json!({ "blockers": ["job suite"] })));
    pod.host_runs(&[]);
    let answer = pod.operator(QUIESCE, Some(json!({ "ifIdleSince": since }))).await;
    assert_eq!(answer.status, StatusCode::CONFLICT);
    assert!(answer.body["blockers"][0].as_str().unwrap().starts_with("job at "), "{answer:?}");
    // A stop that a person asked for is not hindered.
    pod.host_runs(&["suite"]);
    assert_eq!(pod.operator(QUIESCE, Some(json!({}))).await.status, StatusCode::OK);
    assert_eq!(pod.refused("exec_raw", json!({ "argv": ["true"] })).await, "STOPPING");
}

#[tokio::test]
async fn a_host_that_hangs_does_not_keep_the_operator_waiting() {
    let pod = Pod::open().await;
    // It takes connections and says nothing.
    let _host = std::os::unix::net::UnixListener::bind(pod.folder.path().join("host/host.sock")).unwrap();
    let answer = pod.operator(QUIESCE, Some(json!({ "ifIdleSince": "2026-05-25T14:31:02Z" }))).await;
    assert_eq!(answer.status, StatusCode::CONFLICT);
    assert_eq!(pod.report().await.state, ActivityState::Starting);
}

#[tokio::test]
async fn a_lease_keeps_it_up_and_is_named() {
    let pod = Pod::open().await;
    pod.call("activity_lease_take", json!({ "name": "Build" })).await.unwrap();
    let report = pod.report().await;
    assert_eq!((report.state, report.stop_at), (ActivityState::Busy, None));
    assert_eq!(report.leases[0].name, "Build");
    let answer = pod.operator(QUIESCE, Some(json!({ "ifIdleSince": "2026-05-25T14:31:02Z" }))).await;
    assert_eq!(answer.body["blockers"], json!(["lease Build"]));
    let idle = pod.call("idle", json!({})).await.unwrap();
    assert_eq!(idle["blockers"], json!(["lease Build"]));
    assert_eq!(idle["leases"][0]["id"], "build");
    // It is still there when the sidecar is started again.
    let pod = pod.restart().await;
    pod.host_runs(&[]);
    assert_eq!(pod.report().await.state, ActivityState::Busy);
    let released = pod.call("activity_lease_release", json!({ "id": "build" })).await.unwrap();
    assert_eq!(released, json!({ "leases": [] }));
    assert!(pod.report().await.stop_at.is_some());
}

#[tokio::test(start_paused = true)]
async fn calls_count_and_looking_does_not() {
    let pod = Pod::open().await;
    advance(Duration::from_mins(16)).await;
    let since = pod.report().await.idle_since;
    for name in ["version", "idle", "activity_lease_list"] {
        pod.call(name, json!({})).await.unwrap();
    }
    assert_eq!(pod.report().await.idle_since, since);
    tokio::time::resume();
    // It fails, since there is no host, and is somebody's work all the same.
    assert_eq!(pod.refused("exec_raw", json!({ "argv": ["true"] })).await, "UNAVAILABLE");
    assert_eq!(pod.report().await.state, ActivityState::Busy);
}
