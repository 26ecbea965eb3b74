//! Policies of others: they add to ours, so one that opens an environment's pod undoes what ours closes. Pure.

use std::collections::BTreeMap;

use cuddy_crds::conditions::reasons;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::ResourceExt;
use kube::core::{Selector, SelectorExt};

use super::build::meta;
use super::outcome::Blocker;

/// Returns what opens the pod with these labels, if any of the namespace's policies does.
pub(super) fn opens<'a>(
    policies: impl IntoIterator<Item = &'a NetworkPolicy>,
    environment_uid: &str,
    labels: &BTreeMap<String, String>,
) -> Option<Blocker> {
    let mut names: Vec<String> = policies
        .into_iter()
        .filter(|policy| !meta::is_child(&policy.metadata, environment_uid))
        .filter(|policy| allows_something(policy) && selects(policy, labels))
        .map(ResourceExt::name_any)
        .collect();
    names.sort();
    (!names.is_empty()).then(|| {
        Blocker::new(
            reasons::FOREIGN_POLICY,
            format!(
                "NetworkPolicy {} also selects the pod and opens more than the environment's own; exclude pods with the label {} from it",
                names.join(", "),
                cuddy_crds::labels::ENVIRONMENT_UID
            ),
        )
    })
}

/// A policy without rules opens nothing: the usual "deny all" of a namespace is welcome.
fn allows_something(policy: &NetworkPolicy) -> bool {
    policy.spec.as_ref().is_some_and(|spec| {
        let ingress = spec.ingress.as_ref().is_some_and(|rules| !rules.is_empty());
        let egress = spec.egress.as_ref().is_some_and(|rules| !rules.is_empty());
        ingress || egress
    })
}

/// A selector that cannot be understood is taken to select.
fn selects(policy: &NetworkPolicy, labels: &BTreeMap<String, String>) -> bool {
    let selector = policy.spec.as_ref().and_then(|spec| spec.pod_selector.clone()).unwrap_or_default();
    Selector::try_from(selector).map_or(true, |selector| selector.matches(labels))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "literals are made where they are passed")]
    fn policy(name: &str, owner: Option<&str>, spec: Value) -> NetworkPolicy {
        let owners: Vec<_> = owner
            .map(|uid| json!({"apiVersion": "v", "kind": "k", "name": "n", "uid": uid, "controller": true}))
            .into_iter()
            .collect();
        serde_json::from_value(json!({"metadata": {"name": name, "ownerReferences": owners}, "spec": spec}))
            .unwrap()
    }

    fn found(policies: &[NetworkPolicy]) -> Option<String> {
        let labels = cuddy_crds::labels::child_labels("dev", "u-1");
        opens(policies, "u-1", &labels).map(|blocker| blocker.message)
    }

    #[test]
    fn only_what_selects_the_pod_and_opens_something_counts() {
        let open = json!([{}]);
        let everything = json!({"podSelector": {}, "egress": open});
        for (name, policy, counts) in [
            ("all pods", policy("a", None, everything.clone()), true),
            ("ours", policy("dev", Some("u-1"), everything.clone()), false),
            ("of another environment", policy("b", Some("u-2"), everything), true),
            (
                "deny all",
                policy("c", None, json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})),
                false,
            ),
            (
                "by our label",
                policy(
                    "d",
                    None,
                    json!({"podSelector": {"matchLabels": {"app.kubernetes.io/managed-by": "cuddy"}}, "ingress": open}),
                ),
                true,
            ),
            (
                "others only",
                policy("e", None, json!({"podSelector": {"matchLabels": {"app": "web"}}, "ingress": open})),
                false,
            ),
            (
                "excluded",
                policy(
                    "f",
                    None,
                    json!({"podSelector": {"matchExpressions": [
                    {"key": "cuddy.dev/environment-uid", "operator": "DoesNotExist"}]}, "egress": open}),
                ),
                false,
            ),
        ] {
            assert_eq!(found(&[policy]).is_some(), counts, "{name}");
        }
    }

    #[test]
    fn all_of_them_are_named() {
        let everything = json!({"podSelector": {}, "egress": [{}]});
        let message = found(&[policy("b", None, everything.clone()), policy("a", None, everything)]).unwrap();
        assert!(message.contains("NetworkPolicy a, b also"), "{message}");
    }
}
