//! What cannot be met is told in the words of who refuses it, without a hot loop, and recovers by itself.

use std::time::Duration;

use http::Method;
use kube::runtime::controller::Action;
use serde_json::json;

use crate::testing::world::{CLAIM, ENVIRONMENT, POD};
use crate::testing::{Fault, World};

fn fault(method: Method, path: &'static str, code: u16, message: &str) -> Fault {
    Fault { method, path, code, message: message.to_owned() }
}

#[tokio::test]
async fn a_full_quota_is_told_in_the_api_servers_words_and_mends_itself() {
    let words =
        "pods \"dev\" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1";
    let mut world = World::new(json!({}));
    world.api.refuse(fault(Method::POST, "/pods", 403, words));
    let mut waits = Vec::new();
    for _ in 0..8 {
        waits.push(world.reconcile().await.unwrap());
    }
    assert_eq!(world.condition("RuntimeAvailable"), ("False".into(), "QuotaExceeded".into()));
    assert_eq!(world.condition("Ready"), ("False".into(), "QuotaExceeded".into()));
    assert_eq!(world.message("RuntimeAvailable"), words);
    assert_eq!(waits.last(), Some(&Action::requeue(Duration::from_secs(30))), "later and later, to a bound");
    let statuses = world.api.take_writes().iter().filter(|write| write.ends_with("/status")).count();
    assert_eq!(statuses, 1, "told once");
    world.api.mend();
    world.reconcile().await.unwrap();
    assert!(world.api.get(POD).is_some());
}

#[tokio::test]
async fn other_refusals_are_told_too() {
    for (path, words, condition, reason) in [
        (
            "/pods",
            "pods \"dev\" is forbidden: maximum memory usage per Container is 64Mi, but limit is 2Gi",
            "RuntimeAvailable",
            "AdmissionRefused",
        ),
        (
            "/pods",
            "admission webhook \"w\" denied\u{1b}[31m the request",
            "RuntimeAvailable",
            "AdmissionRefused",
        ),
        ("/persistentvolumeclaims", "exceeded quota: storage", "WorkspaceBound", "Refused"),
    ] {
        let mut world = World::new(json!({}));
        world.api.refuse(fault(Method::POST, path, 403, words));
        world.reconcile().await.unwrap();
        assert_eq!(world.condition(condition), ("False".into(), reason.into()));
        assert_eq!(world.condition("Ready").1, reason);
        assert_eq!(world.message(condition), words.replace('\u{1b}', " "));
        assert_eq!(world.api.get(POD), None);
    }
}

#[tokio::test]
async fn an_impossible_spec_waits_for_a_change() {
    let mut world = World::new(json!({"classRef": {"name": "large"}}));
    let action = world.reconcile().await.unwrap();
    assert_eq!(action, Action::await_change());
    assert_eq!(world.condition("Ready"), ("False".into(), "Invalid".into()));
    let message = world.message("Ready");
    assert!(message.starts_with("ClassNotFound: there is no EnvironmentClass large"), "{message}");
    assert_eq!(world.api.take_writes(), ["PATCH environments/dev/status"]);

    world.api.remove("/apis/cuddy.dev/v1alpha1/environmentclasses/small");
    world.api.edit(ENVIRONMENT, |environment| environment["spec"] = json!({}));
    world.reconcile().await.unwrap();
    assert!(world.message("Ready").contains("cuddy class init"));
}

#[tokio::test]
async fn a_running_environment_outlives_its_class() {
    let mut world = World::new(json!({}));
    world.serve().await;
    world.api.remove("/apis/cuddy.dev/v1alpha1/environmentclasses/small");
    world.reconcile().await.unwrap();
    assert_eq!(world.condition("Ready"), ("True".into(), "Degraded".into()));
    assert!(world.message("Ready").contains("ClassNotFound"));
    assert!(world.api.get(POD).unwrap()["metadata"]["deletionTimestamp"].is_null());
}

#[tokio::test]
async fn a_namespace_that_goes_away_is_left_in_peace() {
    let words = "secrets \"dev-anchor\" is forbidden: unable to create new content in namespace acme because it is being terminated";
    let mut world = World::new(json!({}));
    for path in ["/secrets", "/networkpolicies", "/persistentvolumeclaims", "/pods"] {
        world.api.refuse(fault(Method::POST, path, 403, words));
    }
    assert_eq!(world.reconcile().await.unwrap(), Action::await_change());
    assert_eq!(world.api.take_writes(), ["POST secrets"]);
    world.reconcile().await.unwrap();
    assert_eq!(world.api.take_writes(), Vec::<String>::new(), "it is not tried again");
}

#[tokio::test]
async fn an_api_server_that_fails_is_tried_again() {
    for (method, path) in [
        (Method::GET, "/secrets/dev-anchor"),
        (Method::POST, "/secrets"),
        (Method::POST, "/networkpolicies"),
        (Method::POST, "/pods"),
        (Method::PATCH, "/environments/dev/status"),
    ] {
        let mut world = World::new(json!({}));
        world.api.refuse(fault(method.clone(), path, 500, "etcdserver: request timed out"));
        world.reconcile().await.unwrap_err();
        world.api.mend();
        world.reconcile().await.unwrap();
        assert_eq!(world.api.all("/pods/").len(), 1, "{method} {path}");
        assert_eq!(world.condition("Ready"), ("False".into(), "Starting".into()), "{method} {path}");
    }
}

#[tokio::test]
async fn an_image_that_cannot_be_pulled_is_told_at_once() {
    let mut world = World::new(json!({}));
    world.reconcile().await.unwrap();
    world.api.take_log();
    world.api.edit(POD, |pod| {
        pod["status"] = json!({"phase": "Pending", "containerStatuses": [{"name": "runtime", "ready": false,
            "restartCount": 0, "image": "", "imageID": "",
            "state": {"waiting": {"reason": "ErrImagePull", "message": "failed to resolve reference \"x\""}}}]});
    });
    world.reconcile().await.unwrap();
    assert_eq!(world.condition("Ready"), ("False".into(), "ImageError".into()));
    assert!(world.message("RuntimeAvailable").contains("failed to resolve reference"));
    let log = world.api.take_log();
    let events: Vec<_> = log.iter().filter(|asked| asked.path.contains("/events")).collect();
    assert_eq!(events.len(), 1, "one event: {events:?}");
    assert_eq!(events[0].body["reason"], "ImageError");
}

#[tokio::test]
async fn an_object_that_cannot_be_read_is_skipped() {
    let mut world = World::new(json!({"mode": 7}));
    assert_eq!(world.reconcile().await.unwrap(), Action::await_change());
    assert_eq!(world.api.take_writes(), Vec::<String>::new());
}

#[tokio::test]
async fn an_environment_that_is_deleted_is_left_to_the_garbage_collector() {
    let mut world = World::new(json!({}));
    world.api.edit(ENVIRONMENT, |environment| {
        environment["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    });
    assert_eq!(world.reconcile().await.unwrap(), Action::await_change());
    assert_eq!(world.api.take_log(), []);
}

#[tokio::test]
async fn no_pod_is_made_before_an_old_claim_is_gone() {
    let mut world = World::new(json!({}));
    world.reconcile().await.unwrap();
    world.api.remove(POD);
    world.api.edit(CLAIM, |claim| claim["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    world.restart_operator();
    world.reconcile().await.unwrap();
    assert_eq!(world.api.get(POD), None);
    assert_eq!(world.condition("WorkspaceBound"), ("False".into(), "Pending".into()));
}
