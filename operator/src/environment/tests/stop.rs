//! Stopping and waking.

use cuddy_protocol::control::ActivityState;
use http::Method;
use serde_json::json;

use crate::testing::World;
use crate::testing::world::{CLAIM, ENVIRONMENT, POD};

async fn idle_world() -> World {
    let mut world = World::new(json!({}));
    world.serve().await;
    world.sidecar.set_state(ActivityState::Idle, Some(0));
    // What it said before is not asked again for a while.
    world.restart_operator();
    world
}

#[tokio::test]
async fn an_idle_environment_is_stopped_and_its_workspace_kept() {
    let mut world = idle_world().await;
    let action = world.reconcile().await.unwrap();
    assert_eq!(action, kube::runtime::controller::Action::requeue(std::time::Duration::ZERO));
    assert_eq!(
        world.api.take_writes(),
        ["PATCH environments/dev/status"],
        "into the API before anything else"
    );
    assert_eq!(world.sidecar.take_calls(), ["activity", "quiesce if idle"]);
    let stop = world.api.get(ENVIRONMENT).unwrap()["status"]["stop"].clone();
    assert_eq!((&stop["reason"], &stop["by"]), (&json!("IdleStopped"), &json!("operator")));

    let uid = world.api.get(POD).unwrap()["metadata"]["uid"].clone();
    world.restart_operator();
    world.reconcile().await.unwrap();
    assert_eq!(
        world.sidecar.take_calls(),
        ["activity", "quiesce if idle"],
        "asked again before the pod goes"
    );
    let log = world.api.take_log();
    let delete = log.iter().find(|asked| asked.method == Method::DELETE).unwrap();
    assert_eq!(delete.path, POD);
    assert_eq!(delete.body["preconditions"]["uid"], uid);

    world.kubelet_ends_pod();
    world.reconcile().await.unwrap();
    assert_eq!(world.condition("Suspended"), ("True".into(), "IdleStopped".into()));
    assert_eq!(world.condition("Ready"), ("False".into(), "Stopped".into()));
    assert!(world.api.get(CLAIM).is_some());
    let environment = world.api.get(ENVIRONMENT).unwrap();
    assert_eq!(environment["spec"], json!({}), "intent is never edited");

    world.api.take_log();
    for _ in 0..3 {
        world.reconcile().await.unwrap();
    }
    assert_eq!(world.api.take_writes(), Vec::<String>::new(), "at rest");
}

#[tokio::test]
async fn a_call_in_the_last_moment_keeps_it_up() {
    let mut world = idle_world().await;
    world.sidecar.set_fences(false);
    world.reconcile().await.unwrap();
    assert!(!world.api.take_writes().contains(&"DELETE pods/dev".to_owned()));
    assert!(world.api.get(ENVIRONMENT).unwrap()["status"]["stop"].is_null());
    // The stop was recorded by an operator that then died, and somebody has called since.
    world.sidecar.set_fences(true);
    world.restart_operator();
    world.reconcile().await.unwrap();
    world.sidecar.set_state(ActivityState::Busy, Some(900));
    world.restart_operator();
    world.api.take_log();
    world.reconcile().await.unwrap();
    assert_eq!(world.api.take_writes(), ["PATCH environments/dev/status"]);
    let status = world.api.get(ENVIRONMENT).unwrap()["status"].clone();
    assert!(status["stop"]["at"].is_null(), "the stop is off: {}", status["stop"]);
    assert_eq!(world.condition("Ready"), ("True".into(), "Running".into()));
}

#[tokio::test]
async fn a_silent_sidecar_is_not_idle() {
    let mut world = idle_world().await;
    world.sidecar.set_reachable(false);
    world.reconcile().await.unwrap();
    assert_eq!(world.condition("Degraded"), ("True".into(), "SidecarSilent".into()));
    assert_eq!(world.condition("Idle"), ("Unknown".into(), "Unknown".into()));
    assert!(world.api.get(POD).unwrap()["metadata"]["deletionTimestamp"].is_null());
}

#[tokio::test]
async fn the_environment_is_read_again_before_its_pod_goes() {
    let mut world = idle_world().await;
    world.reconcile().await.unwrap();
    world.sync();
    // Woken after the cache was read.
    world.annotate("cuddy.dev/wake", "w-1");
    world.api.take_log();
    world.reconcile_with_old_caches().await.unwrap_err();
    assert_eq!(world.api.take_writes(), Vec::<String>::new());
    world.reconcile().await.unwrap();
    let status = world.api.get(ENVIRONMENT).unwrap()["status"].clone();
    assert_eq!(status["lastWake"], "w-1");
    assert!(world.api.get(POD).unwrap()["metadata"]["deletionTimestamp"].is_null());
}

#[tokio::test]
async fn another_pod_of_the_same_name_is_not_deleted() {
    let mut world = idle_world().await;
    world.reconcile().await.unwrap();
    world.sync();
    world.api.edit(POD, |pod| pod["metadata"]["uid"] = json!("another"));
    world.reconcile_with_old_caches().await.unwrap();
    assert!(world.api.get(POD).unwrap()["metadata"]["deletionTimestamp"].is_null());
}

#[tokio::test]
async fn a_wake_starts_it_and_an_old_id_does_not() {
    let mut world = idle_world().await;
    world.reconcile().await.unwrap();
    world.reconcile().await.unwrap();
    world.kubelet_ends_pod();
    world.reconcile().await.unwrap();
    world.api.take_log();

    world.annotate("cuddy.dev/wake", "w-1");
    world.reconcile().await.unwrap();
    assert!(world.api.take_writes().contains(&"POST pods".to_owned()));
    let status = world.api.get(ENVIRONMENT).unwrap()["status"].clone();
    assert_eq!(status["lastWake"], "w-1");
    assert!(status["stop"]["at"].is_null());
    assert_eq!(status["stop"]["history"][0]["reason"], "IdleStopped");
    assert_eq!(world.condition("Suspended"), ("False".into(), "Waking".into()));

    world.annotate("cuddy.dev/stop", "s-1");
    world.reconcile().await.unwrap();
    world.kubelet_ends_pod();
    world.reconcile().await.unwrap();
    world.api.take_log();
    world.annotate("cuddy.dev/wake", "w-1");
    world.reconcile().await.unwrap();
    assert_eq!(world.api.take_writes(), Vec::<String>::new(), "the same id again means nothing");
    assert_eq!(world.condition("Suspended"), ("True".into(), "UserStopped".into()));
}

#[tokio::test]
async fn ids_that_were_there_at_creation_count_as_seen() {
    let mut world = World::new(json!({}));
    world.annotate("cuddy.dev/stop", "from-a-backup");
    world.annotate("cuddy.dev/wake", "from-a-backup-too");
    world.reconcile().await.unwrap();
    assert!(world.api.get(POD).is_some());
    world.reconcile().await.unwrap();
    assert!(world.api.get(POD).unwrap()["metadata"]["deletionTimestamp"].is_null());
}

#[tokio::test]
async fn mode_stopped_holds_it() {
    let mut world = World::new(json!({"mode": "Stopped"}));
    world.reconcile().await.unwrap();
    assert_eq!(world.api.get(POD), None);
    assert_eq!(world.condition("Suspended"), ("True".into(), "UserStopped".into()));
    world.annotate("cuddy.dev/wake", "w-1");
    world.reconcile().await.unwrap();
    assert_eq!(world.api.get(POD), None, "no wake starts it");
    world.api.edit(ENVIRONMENT, |environment| {
        environment["spec"] = json!({});
        environment["metadata"]["generation"] = json!(2);
    });
    world.reconcile().await.unwrap();
    assert!(world.api.get(POD).is_some());
}

#[tokio::test]
async fn both_ids_at_once_restart_it() {
    let mut world = World::new(json!({}));
    world.serve().await;
    world.annotate("cuddy.dev/stop", "s-1");
    world.annotate("cuddy.dev/wake", "w-1");
    world.reconcile().await.unwrap();
    assert!(world.api.take_writes().contains(&"DELETE pods/dev".to_owned()));
    assert_eq!(world.condition("Suspended"), ("False".into(), "WaitingForTermination".into()));
    world.kubelet_ends_pod();
    world.reconcile().await.unwrap();
    assert!(world.api.take_writes().contains(&"POST pods".to_owned()));
}

#[tokio::test]
async fn a_new_pod_is_proved_anew_and_an_old_report_does_not_stop_it() {
    let mut world = idle_world().await;
    world.reconcile().await.unwrap();
    world.reconcile().await.unwrap();
    world.kubelet_ends_pod();
    world.annotate("cuddy.dev/wake", "w-1");
    world.sidecar.set_state(ActivityState::Starting, None);
    world.reconcile().await.unwrap();
    world.kubelet_starts_sidecar();
    world.sidecar.take_calls();
    world.reconcile().await.unwrap();
    assert_eq!(world.sidecar.take_calls(), ["activity", "verify", "open"]);
    world.kubelet_is_ready();
    world.reconcile().await.unwrap();
    assert_eq!(world.condition("Ready"), ("True".into(), "Running".into()));
    assert!(world.api.get(POD).unwrap()["metadata"]["deletionTimestamp"].is_null());
}
