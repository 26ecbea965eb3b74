//! Whether a child that is there is what it should be. Pure. Fields that others own do not count.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use cuddy_crds::quantity;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Service};
use k8s_openapi::api::networking::v1::{NetworkPolicy, NetworkPolicySpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

/// A policy counts whole: each rule that somebody adds opens something.
pub fn policy(desired: &NetworkPolicy, live: &NetworkPolicy) -> bool {
    metadata(&desired.metadata, &live.metadata) || normal(desired.spec.clone()) != normal(live.spec.clone())
}

/// An absent list and an empty one mean the same.
fn normal(spec: Option<NetworkPolicySpec>) -> NetworkPolicySpec {
    let mut spec = spec.unwrap_or_default();
    spec.ingress = spec.ingress.filter(|rules| !rules.is_empty());
    spec.egress = spec.egress.filter(|rules| !rules.is_empty());
    spec
}

/// A claim may have grown beyond what is asked for, and its class is the cluster's to choose.
pub fn claim(desired: &PersistentVolumeClaim, live: &PersistentVolumeClaim) -> bool {
    metadata(&desired.metadata, &live.metadata) || grows(desired, live)
}

fn grows(desired: &PersistentVolumeClaim, live: &PersistentVolumeClaim) -> bool {
    let size = |claim: &PersistentVolumeClaim| {
        let requests = claim.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?;
        requests.get("storage").map(|size| size.0.clone())
    };
    match (size(desired), size(live)) {
        (Some(desired), Some(live)) => quantity::compare(&desired, &live) == Ok(Ordering::Greater),
        _ => true,
    }
}

/// A Service has addresses of its own besides what we ask for.
pub fn service(desired: &Service, live: &Service) -> bool {
    let value = |service: &Service| serde_json::to_value(&service.spec).unwrap_or_default();
    metadata(&desired.metadata, &live.metadata) || !covers(&value(desired), &value(live))
}

/// Labels and annotations of ours, and whom it belongs to.
pub fn metadata(desired: &ObjectMeta, live: &ObjectMeta) -> bool {
    let differs = |desired: &Option<BTreeMap<String, String>>, live: &Option<BTreeMap<String, String>>| {
        desired
            .iter()
            .flatten()
            .any(|(name, value)| live.as_ref().and_then(|live| live.get(name)) != Some(value))
    };
    differs(&desired.labels, &live.labels) || differs(&desired.annotations, &live.annotations)
}

/// Says whether `live` holds everything of `desired`. Lists have the same length.
fn covers(desired: &Value, live: &Value) -> bool {
    match (desired, live) {
        (Value::Object(desired), Value::Object(live)) => {
            desired.iter().all(|(name, value)| live.get(name).is_some_and(|live| covers(value, live)))
        }
        (Value::Array(desired), Value::Array(live)) => {
            desired.len() == live.len()
                && desired.iter().zip(live).all(|(desired, live)| covers(desired, live))
        }
        _ => desired == live,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "literals are made where they are passed")]
    fn policy_of(spec: Value) -> NetworkPolicy {
        serde_json::from_value(json!({"metadata": {"labels": {"a": "b"}}, "spec": spec})).unwrap()
    }

    #[test]
    fn every_addition_to_a_policy_is_a_difference() {
        let own = || {
            json!({"podSelector": {"matchLabels": {"u": "1"}}, "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [{"podSelector": {"matchLabels": {"x": "y"}}}]}]})
        };
        let desired = policy_of(own());
        assert!(!policy(&desired, &policy_of(own())));
        let mut empty = own();
        empty["egress"] = json!([]);
        assert!(!policy(&desired, &policy_of(empty)), "an empty list is an absent one");
        for (pointer, value) in [
            ("/egress", json!([{}])),
            ("/ingress/0/from/0/namespaceSelector", json!({})),
            ("/podSelector/matchLabels/more", json!("1")),
            ("/policyTypes", json!(["Ingress"])),
            ("/ingress", json!([])),
        ] {
            let mut changed = own();
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            changed.pointer_mut(parent).unwrap()[name] = value;
            assert!(policy(&desired, &policy_of(changed)), "{pointer}");
        }
    }

    #[test]
    fn labels_of_others_are_theirs() {
        let meta = |labels: Value| serde_json::from_value::<ObjectMeta>(json!({ "labels": labels })).unwrap();
        let desired = meta(json!({"a": "1"}));
        assert!(!metadata(&desired, &meta(json!({"a": "1", "theirs": "x"}))));
        assert!(metadata(&desired, &meta(json!({"a": "2"}))));
        assert!(metadata(&desired, &meta(json!({}))));
    }

    #[test]
    fn claims_only_grow() {
        let of = |size: &str| {
            serde_json::from_value::<PersistentVolumeClaim>(
                json!({"spec": {"resources": {"requests": {"storage": size}}}}),
            )
            .unwrap()
        };
        assert!(!claim(&of("1Gi"), &of("1024Mi")));
        assert!(claim(&of("2Gi"), &of("1Gi")));
        assert!(!claim(&of("1Gi"), &of("2Gi")));
    }

    #[test]
    fn a_service_keeps_its_addresses() {
        let of = |spec: Value| serde_json::from_value::<Service>(json!({ "spec": spec })).unwrap();
        let desired = of(json!({"selector": {"u": "1"}, "ports": [{"port": 17443, "protocol": "TCP"}]}));
        let live = json!({"clusterIP": "10.0.0.1", "selector": {"u": "1"}, "ports": [{"port": 17443, "protocol": "TCP", "nodePort": 3}]});
        assert!(!service(&desired, &of(live.clone())));
        let mut moved = live;
        moved["selector"]["u"] = json!("2");
        assert!(service(&desired, &of(moved)));
    }
}
