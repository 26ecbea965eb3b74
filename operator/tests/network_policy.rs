//! What holds of every NetworkPolicy, whatever the Environment asks for: a snapshot is accepted with one key press, this is not.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use cuddy_crds::defaults::{self, Class};
use cuddy_operator::config::{ClusterRanges, DnsResolver, OperatorConfig, PullPolicy, Verify};
use cuddy_operator::environment::build::network_policy::{self, Phase};
use cuddy_operator::environment::build::{Input, Owner};
use cuddy_protocol::places::{PORT_CONTROL, PORT_TLS};
use k8s_openapi::api::networking::v1::{NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

fn policy(network: &Value, phase: Phase) -> NetworkPolicySpec {
    let owner = Owner {
        namespace: "acme".to_owned(),
        name: "dev".to_owned(),
        uid: "u-1".to_owned(),
        tenant: "acme".to_owned(),
    };
    let config = OperatorConfig {
        sidecar_image: "registry.example/cuddy-sidecar:1".to_owned(),
        sidecar_pull_policy: PullPolicy::IfNotPresent,
        operator_namespace: "cuddy-system".to_owned(),
        pod_name: "cuddy-operator-0".to_owned(),
        pod_ip: [10, 244, 0, 9].into(),
        namespace: None,
        class_file: None,
        dns: DnsResolver::default(),
        ranges: ClusterRanges::default(),
        default_verify: Verify::Gate,
    };
    let class = serde_json::from_value(json!({"image": "debian:13"})).unwrap();
    let spec = serde_json::from_value(json!({"network": network})).unwrap();
    let settings = defaults::resolve(&spec, Class { name: "small", spec: &class }).unwrap();
    let input = Input { owner: &owner, settings: &settings, config: &config };
    network_policy::build(input, phase).spec.unwrap()
}

fn every_policy() -> impl Iterator<Item = (String, Phase, NetworkPolicySpec)> {
    let clients = json!([{"namespaceSelector": {"matchLabels": {"team": "a"}}}]);
    let networks = ["None", "Internet", "Cluster"].into_iter().flat_map(move |egress| {
        [json!({"egress": egress}), json!({"egress": egress, "ingressFrom": clients})]
    });
    networks.flat_map(|network| {
        [Phase::Closed, Phase::Open].map(|phase| (network.to_string(), phase, policy(&network, phase)))
    })
}

/// An absent or empty list of peers means everybody, and so does a peer without a selector.
fn names_somebody(peers: Option<&Vec<NetworkPolicyPeer>>) -> bool {
    peers.is_some_and(|peers| {
        let named = |peer: &NetworkPolicyPeer| {
            peer.namespace_selector.is_some() || peer.pod_selector.is_some() || peer.ip_block.is_some()
        };
        !peers.is_empty() && peers.iter().all(named)
    })
}

fn is_port(port: &NetworkPolicyPort, number: u16) -> bool {
    port.port == Some(IntOrString::Int(i32::from(number)))
        && port.end_port.is_none()
        && port.protocol.as_deref() == Some("TCP")
}

#[test]
fn both_directions_of_this_pod_and_no_other_are_closed() {
    for (network, phase, spec) in every_policy() {
        let labels = spec.pod_selector.unwrap().match_labels.unwrap();
        assert_eq!(serde_json::to_value(labels).unwrap(), json!({"cuddy.dev/environment-uid": "u-1"}));
        assert_eq!(spec.policy_types.unwrap(), ["Ingress", "Egress"], "{network} {phase:?}");
    }
}

#[test]
fn no_rule_is_for_everybody() {
    for (network, phase, spec) in every_policy() {
        for rule in spec.ingress.iter().flatten() {
            assert!(names_somebody(rule.from.as_ref()), "{network} {phase:?}: {rule:?}");
            let ports = rule.ports.clone().unwrap_or_default();
            assert!(
                matches!(&ports[..], [one] if is_port(one, PORT_CONTROL) || is_port(one, PORT_TLS)),
                "{network} {phase:?}: {rule:?}"
            );
        }
        for rule in spec.egress.iter().flatten() {
            assert!(names_somebody(rule.to.as_ref()), "{network} {phase:?}: {rule:?}");
        }
    }
}

#[test]
fn only_the_operator_reaches_the_control_port() {
    let operator = json!([{
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "cuddy-system"}},
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "cuddy-operator"}},
    }]);
    for (network, phase, spec) in every_policy() {
        let rules = spec.ingress.unwrap();
        let to_control: Vec<_> = rules
            .iter()
            .filter(|rule| {
                rule.ports.as_ref().is_none_or(|ports| ports.iter().any(|p| is_port(p, PORT_CONTROL)))
            })
            .collect();
        assert_eq!(to_control.len(), 1, "{network} {phase:?}");
        assert_eq!(serde_json::to_value(&to_control[0].from).unwrap(), operator, "{network} {phase:?}");
    }
}

#[test]
fn with_egress_none_an_open_environment_reaches_nothing() {
    let spec = policy(&json!({"egress": "None"}), Phase::Open);
    assert_eq!(spec.egress.unwrap_or_default(), []);
}
