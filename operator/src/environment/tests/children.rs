//! Children: drift is repaired, and what belongs to others is left alone.

use serde_json::{Value, json};

use crate::testing::World;
use crate::testing::world::{ANCHOR, CLAIM, ENVIRONMENT, POD, POLICY, SERVICE};

fn foreign(kind: &str, api_version: &str, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "acme",
        "labels": {"cuddy.dev/environment-uid": "u-1", "cuddy.dev/environment": "dev"}}, "data": {"precious": "eA=="}})
}

#[tokio::test]
async fn what_belongs_to_others_is_neither_taken_over_nor_changed() {
    for (path, kind, version, name, condition) in [
        (ANCHOR, "Secret", "v1", "dev-anchor", "Anchored"),
        (POLICY, "NetworkPolicy", "networking.k8s.io/v1", "dev", "NetworkIsolated"),
        (CLAIM, "PersistentVolumeClaim", "v1", "dev-workspace", "WorkspaceBound"),
        (POD, "Pod", "v1", "dev", "RuntimeAvailable"),
        (SERVICE, "Service", "v1", "dev", "Ready"),
    ] {
        // Seen by the cache, and not: neither may matter.
        for late in [false, true] {
            let mut world = World::new(json!({"network": {"ingressFrom": [{"podSelector": {}}]}}));
            if late {
                world.sync();
            }
            let before = world.api.put(path, foreign(kind, version, name));
            if late {
                world.reconcile_with_old_caches().await.unwrap();
            } else {
                world.reconcile().await.unwrap();
            }
            assert_eq!(world.api.get(path), Some(before), "{kind}");
            assert_eq!(world.condition(condition), ("False".into(), "NameConflict".into()), "{kind}");
            assert_eq!(world.condition("Ready").1, "NameConflict", "{kind}");
            let message = world.message(condition);
            assert!(message.contains(name), "{kind}: {message}");
            if kind != "Pod" {
                assert_eq!(world.api.get(POD), None, "{kind}: no pod without all of its children");
            }
        }
    }
}

#[tokio::test]
async fn a_policy_that_somebody_changed_is_repaired_and_proved_again() {
    let mut world = World::new(json!({}));
    world.serve().await;
    let good = world.api.get(POLICY).unwrap()["spec"].clone();
    world.api.edit(POLICY, |policy| policy["spec"]["egress"] = json!([{}]));
    world.reconcile().await.unwrap();
    assert_eq!(world.api.get(POLICY).unwrap()["spec"], good);
    assert_eq!(world.sidecar.take_calls(), ["verify"]);
    world.reconcile().await.unwrap();
    assert_eq!(world.sidecar.take_calls(), Vec::<String>::new(), "once");
}

#[tokio::test]
async fn a_policy_that_somebody_deleted_comes_back() {
    let mut world = World::new(json!({}));
    world.serve().await;
    world.api.remove(POLICY);
    world.reconcile().await.unwrap();
    assert!(world.api.get(POLICY).is_some());
    assert_eq!(world.sidecar.take_calls(), ["verify"]);
}

#[tokio::test]
async fn a_pod_whose_labels_were_taken_off_is_under_its_policy_again() {
    let mut world = World::new(json!({}));
    world.serve().await;
    let pod = world.api.get(POD).unwrap();
    let mut bare = pod.clone();
    bare["metadata"]["labels"] = json!({});
    // The watch goes by the label: to the cache the pod is gone.
    world.api.remove(POD);
    world.sync();
    world.api.put(POD, bare);
    world.reconcile_with_old_caches().await.unwrap();
    let repaired = world.api.get(POD).unwrap();
    assert_eq!(repaired["metadata"]["labels"], pod["metadata"]["labels"]);
    assert_eq!(repaired["metadata"]["uid"], pod["metadata"]["uid"]);
    assert!(world.sidecar.take_calls().contains(&"verify".to_owned()));
}

#[tokio::test]
async fn an_anchor_that_somebody_changed_is_repaired_and_the_keys_pushed() {
    let mut world = World::new(json!({}));
    world.serve().await;
    let good = world.api.get(ANCHOR).unwrap()["data"].clone();
    world.api.edit(ANCHOR, |secret| {
        secret["data"]["desktopid.pub"] = json!("eA==");
        secret["data"]["theirs"] = json!("eA==");
    });
    world.reconcile().await.unwrap();
    let repaired = world.api.get(ANCHOR).unwrap()["data"].clone();
    assert_eq!(repaired["desktopid.pub"], good["desktopid.pub"]);
    assert_eq!(repaired["anchor.json"], good["anchor.json"], "the same keys are the same generation");
    assert_eq!(repaired["tls.key"], good["tls.key"], "a good certificate is kept");

    world.api.remove(ANCHOR);
    world.reconcile().await.unwrap();
    assert!(world.api.get(ANCHOR).is_some());
    assert!(world.sidecar.take_calls().contains(&"anchor".to_owned()), "a new generation");
}

#[tokio::test]
async fn a_removed_key_is_pushed_at_once() {
    let mut world = World::new(json!({"auth": {"keys": [{"name": "own", "publicKey": other_key()}]}}));
    world.serve().await;
    world.api.edit(ENVIRONMENT, |environment| {
        environment["spec"] = json!({});
        environment["metadata"]["generation"] = json!(2);
    });
    world.reconcile().await.unwrap();
    assert_eq!(world.sidecar.take_calls(), ["anchor"]);
    assert!(world.api.get(POD).unwrap()["metadata"]["deletionTimestamp"].is_null(), "without a restart");
}

#[tokio::test]
async fn keys_come_from_a_config_map_that_is_lent() {
    let reference = json!({"name": "ci", "configMapRef": {"name": "keys", "key": "ci.pub"}});
    let mut world = World::new(json!({"auth": {"keys": [reference]}}));
    world.reconcile().await.unwrap();
    assert_eq!(world.condition("Anchored"), ("False".into(), "KeySourceMissing".into()));
    assert!(world.api.get(POD).is_some(), "the class's key lets somebody in");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "keys", "namespace": "acme",
        "labels": {"cuddy.dev/keys": ""}}, "data": {"ci.pub": "private-canary"}});
    world.api.put("/api/v1/namespaces/acme/configmaps/keys", map);
    world.reconcile().await.unwrap();
    assert_eq!(world.condition("Anchored"), ("False".into(), "BadKey".into()));
    let message = world.message("Anchored");
    assert!(message.contains("entry ci.pub of ConfigMap keys") && !message.contains("canary"), "{message}");
    world
        .api
        .edit("/api/v1/namespaces/acme/configmaps/keys", |map| map["data"]["ci.pub"] = json!(other_key()));
    world.kubelet_starts_sidecar();
    world.reconcile().await.unwrap();
    world.kubelet_is_ready();
    world.reconcile().await.unwrap();
    assert_eq!(world.condition("Anchored"), ("True".into(), "KeysLoaded".into()), "it mends itself");
}

#[tokio::test]
async fn a_service_is_there_only_for_clients_of_the_cluster() {
    let mut world = World::new(json!({"network": {"ingressFrom": [{"podSelector": {}}]}}));
    world.serve().await;
    assert!(world.api.get(SERVICE).is_some());
    let names =
        world.api.get(ANCHOR).unwrap()["metadata"]["annotations"]["cuddy.dev/certificate-names"].clone();
    assert_eq!(names, "dev.acme,dev.acme.svc,dev.acme.svc.cluster.local");
    world.api.edit(ENVIRONMENT, |environment| {
        environment["spec"] = json!({});
        environment["metadata"]["generation"] = json!(2);
    });
    world.reconcile().await.unwrap();
    assert_eq!(world.api.get(SERVICE), None);
    assert_eq!(world.condition("UpToDate"), ("False".into(), "RestartPending".into()), "its hosts changed");
}

#[tokio::test]
async fn a_policy_of_others_that_opens_the_pod_is_named() {
    let mut world = World::new(json!({}));
    let path = "/apis/networking.k8s.io/v1/namespaces/acme/networkpolicies/allow-all";
    let open = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"name": "allow-all", "namespace": "acme"}, "spec": {"podSelector": {}, "egress": [{}]}});
    world.api.put(path, open.clone());
    world.reconcile().await.unwrap();
    assert_eq!(world.api.get(POD), None);
    assert_eq!(world.condition("NetworkIsolated"), ("False".into(), "ForeignPolicy".into()));
    assert!(world.message("Ready").contains("allow-all"));
    world.api.remove(path);
    world.reconcile().await.unwrap();
    assert!(world.api.get(POD).is_some());
}

#[tokio::test]
async fn a_workspace_grows() {
    let mut world = World::new(json!({"workspace": {"size": "1Gi"}}));
    world.serve().await;
    world.api.edit(ENVIRONMENT, |environment| {
        environment["spec"] = json!({"workspace": {"size": "2Gi"}});
        environment["metadata"]["generation"] = json!(2);
    });
    world.reconcile().await.unwrap();
    assert_eq!(world.api.get(CLAIM).unwrap()["spec"]["resources"]["requests"]["storage"], "2Gi");
}

/// Another key than the class's.
fn other_key() -> String {
    let key = cuddy_edge::keys::generate().unwrap();
    cuddy_edge::keys::public_to_pem(&key.verifying_key()).unwrap()
}
