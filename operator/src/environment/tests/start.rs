//! From nothing to an environment that serves.

use http::Method;
use serde_json::json;

use crate::control::Isolation;
use crate::testing::World;
use crate::testing::world::{ANCHOR, ENVIRONMENT, POD, POLICY};

const FIRST: [&str; 5] = [
    "POST secrets",
    "POST networkpolicies",
    "POST persistentvolumeclaims",
    "POST pods",
    "PATCH environments/dev/status",
];

#[tokio::test]
async fn the_first_visit_makes_everything_the_policy_before_the_pod() {
    let mut world = World::new(json!({}));
    world.reconcile().await.unwrap();
    assert_eq!(world.api.take_writes(), FIRST);
    assert_eq!(world.condition("Ready"), ("False".into(), "Starting".into()));
    let status = &world.api.get(ENVIRONMENT).unwrap()["status"];
    assert_eq!(status["conditions"].as_array().unwrap().len(), 9, "all of them at the first visit");
    assert_eq!(status["observedGeneration"], 1);
    let (policy, pod) = (world.api.get(POLICY).unwrap(), world.api.get(POD).unwrap());
    let selector = &policy["spec"]["podSelector"]["matchLabels"];
    for (name, value) in selector.as_object().unwrap() {
        assert_eq!(&pod["metadata"]["labels"][name], value, "the policy selects the pod");
    }
    assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
}

#[tokio::test]
async fn it_takes_seven_writes_until_ready() {
    let mut world = World::new(json!({}));
    let mut writes = 0;
    world.reconcile().await.unwrap();
    writes += world.api.take_writes().len();
    // What the kubelet and the scheduler tell on the way is no reason to write.
    world.api.edit(POD, |pod| {
        pod["status"] =
            json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]});
    });
    world.reconcile().await.unwrap();
    world.kubelet_starts_sidecar();
    world.reconcile().await.unwrap();
    let opening = world.api.take_writes();
    assert_eq!(
        opening,
        ["PATCH networkpolicies/dev"],
        "the write that opens the gate takes the canary's path out"
    );
    writes += opening.len();
    assert_eq!(world.sidecar.take_calls(), ["activity", "anchor", "verify", "open"]);
    world.kubelet_is_ready();
    world.reconcile().await.unwrap();
    let ready = world.api.take_writes();
    assert_eq!(ready, ["PATCH environments/dev/status"]);
    writes += ready.len();
    assert_eq!(world.condition("Ready"), ("True".into(), "Running".into()));
    assert_eq!(world.condition("NetworkIsolated"), ("True".into(), "Verified".into()));
    assert_eq!(world.condition("Anchored"), ("True".into(), "KeysLoaded".into()));
    assert!(writes <= 7, "{writes}");
}

#[tokio::test]
async fn nothing_is_written_while_nothing_changes() {
    let mut world = World::new(json!({}));
    world.serve().await;
    for _ in 0..3 {
        world.reconcile().await.unwrap();
    }
    assert_eq!(world.api.take_writes(), Vec::<String>::new());
    world.restart_operator();
    world.reconcile().await.unwrap();
    assert_eq!(world.api.take_writes(), Vec::<String>::new(), "a new process finds all in order");
    assert!(!world.sidecar.take_calls().contains(&"verify".to_owned()), "what was proved stays proved");
}

#[tokio::test]
async fn caches_that_are_late_make_nothing_twice() {
    let mut world = World::new(json!({}));
    world.reconcile().await.unwrap();
    assert_eq!(world.api.take_writes(), FIRST);
    world.reconcile_with_old_caches().await.unwrap();
    assert_eq!(world.api.take_writes(), Vec::<String>::new());
    // A new process whose caches are late as well: the API server's word that it is there already is enough.
    world.restart_operator();
    world.reconcile_with_old_caches().await.unwrap();
    assert_eq!(world.api.all("/pods/").len(), 1);
}

#[tokio::test]
async fn a_gate_that_is_not_proved_stays_closed() {
    for (isolation, status, reason) in [
        (Isolation::NotEnforced, "False", "NotEnforced"),
        (Isolation::CanaryUnreachable, "Unknown", "CanaryUnreachable"),
    ] {
        let mut world = World::new(json!({}));
        world.sidecar.set_isolation(isolation);
        world.reconcile().await.unwrap();
        world.kubelet_starts_sidecar();
        world.reconcile().await.unwrap();
        assert_eq!(world.condition("NetworkIsolated"), (status.into(), reason.into()));
        assert_eq!(world.condition("Ready"), ("False".into(), reason.into()));
        assert!(!world.sidecar.take_calls().contains(&"open".to_owned()));
        let egress = world.api.get(POLICY).unwrap()["spec"]["egress"].to_string();
        assert!(egress.contains("17081"), "the canary's path stays while the gate is closed");
    }
}

#[tokio::test]
async fn it_starts_without_proof_where_that_is_asked_for_and_says_so() {
    let mut world = World::new(json!({"network": {"verify": "Report"}}));
    world.sidecar.set_isolation(Isolation::NotEnforced);
    world.reconcile().await.unwrap();
    world.kubelet_starts_sidecar();
    world.reconcile().await.unwrap();
    assert!(world.sidecar.take_calls().contains(&"open".to_owned()));
    world.kubelet_is_ready();
    world.reconcile().await.unwrap();
    assert_eq!(world.condition("NetworkIsolated"), ("False".into(), "Reported".into()));
    assert_eq!(world.condition("Ready"), ("True".into(), "Running".into()));
}

#[tokio::test]
async fn no_secret_is_read_but_the_anchor_by_name() {
    let mut world = World::new(json!({"imagePullSecrets": [{"name": "registry"}]}));
    world.reconcile().await.unwrap();
    let secrets: Vec<_> = world
        .api
        .take_log()
        .into_iter()
        .filter(|asked| asked.method == Method::GET && asked.path.contains("/secrets"))
        .map(|asked| asked.path)
        .collect();
    assert_eq!(secrets, [ANCHOR]);
}

#[tokio::test]
async fn a_pod_that_failed_is_replaced_after_a_while() {
    let mut world = World::new(json!({}));
    world.serve().await;
    world.api.edit(POD, |pod| {
        pod["status"] = json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"});
    });
    world.reconcile().await.unwrap();
    assert_eq!(world.api.take_writes()[0], "DELETE pods/dev");
    world.kubelet_ends_pod();
    let action = world.reconcile().await.unwrap();
    assert!(!world.api.take_writes().contains(&"POST pods".to_owned()), "it waits first: {action:?}");
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_secs(3)).await;
    world.reconcile().await.unwrap();
    assert!(world.api.take_writes().contains(&"POST pods".to_owned()));
}

#[tokio::test]
async fn a_pod_that_somebody_deletes_comes_back_at_once() {
    let mut world = World::new(json!({}));
    world.serve().await;
    world.kubelet_ends_pod();
    world.reconcile().await.unwrap();
    let writes = world.api.take_writes();
    let place =
        |write: &str| writes.iter().position(|one| one == write).unwrap_or_else(|| panic!("{writes:?}"));
    assert!(place("PATCH networkpolicies/dev") < place("POST pods"), "behind its closed policy");
}
