//! The NetworkPolicy: both directions closed but for what is listed here (DESIGN 8).

use std::collections::BTreeMap;

use cuddy_crds::labels;
use cuddy_crds::v1alpha1::Egress;
use cuddy_protocol::places::{PORT_CANARY_ALLOWED, PORT_CANARY_FORBIDDEN, PORT_CONTROL, PORT_TLS};
use k8s_openapi::api::networking::v1::{
    IPBlock, NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyIngressRule, NetworkPolicyPeer,
    NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{Input, meta, ranges};
use crate::config::Cidr;

/// Whether the pod's gate is still closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The sidecar may dial the operator's allowed canary listener, and nothing of the user's runs.
    Closed,
    /// It may not.
    Open,
}

/// The label that every namespace carries with its own name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Builds the policy.
pub fn build(input: Input<'_>, phase: Phase) -> NetworkPolicy {
    let owner = input.owner;
    NetworkPolicy {
        metadata: meta::child(owner, labels::network_policy_name(&owner.name)),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(selector([(labels::ENVIRONMENT_UID.to_owned(), owner.uid.clone())])),
            policy_types: Some(vec!["Ingress".to_owned(), "Egress".to_owned()]),
            ingress: Some(ingress(input)),
            egress: Some(egress(input, phase)).filter(|rules| !rules.is_empty()),
        }),
    }
}

fn ingress(input: Input<'_>) -> Vec<NetworkPolicyIngressRule> {
    let mut rules = vec![NetworkPolicyIngressRule {
        from: Some(vec![operator(input)]),
        ports: Some(vec![port("TCP", PORT_CONTROL)]),
    }];
    if input.has_service() {
        let from = input.settings.ingress_from.iter().map(|peer| NetworkPolicyPeer {
            namespace_selector: peer.namespace_selector.clone(),
            pod_selector: peer.pod_selector.clone(),
            ip_block: None,
        });
        rules.push(NetworkPolicyIngressRule {
            from: Some(from.collect()),
            ports: Some(vec![port("TCP", PORT_TLS)]),
        });
    }
    rules
}

fn egress(input: Input<'_>, phase: Phase) -> Vec<NetworkPolicyEgressRule> {
    let mut rules = Vec::new();
    if input.settings.egress != Egress::None {
        rules.push(dns(input));
    }
    match input.settings.egress {
        Egress::None => {}
        Egress::Internet => rules.push(to(ranges::internet(&input.config.ranges)
            .into_iter()
            .map(|open| block(open.cidr.to_owned(), open.except))
            .collect())),
        Egress::Cluster => rules
            .push(NetworkPolicyEgressRule { to: Some(pods(input)), ports: Some(all_ports_but_the_canary()) }),
    }
    if phase == Phase::Closed {
        rules.push(NetworkPolicyEgressRule {
            to: Some(vec![operator(input)]),
            ports: Some(vec![port("TCP", PORT_CANARY_ALLOWED)]),
        });
    }
    rules
}

/// Where the pods' ranges are known they say it more exactly: enforcers take pods with the host's network for pods, and
/// those have the nodes' addresses.
fn pods(input: Input<'_>) -> Vec<NetworkPolicyPeer> {
    let known = ranges::pods(&input.config.ranges);
    if known.is_empty() {
        let everywhere = LabelSelector::default();
        return vec![NetworkPolicyPeer {
            namespace_selector: Some(everywhere),
            ..NetworkPolicyPeer::default()
        }];
    }
    known.into_iter().map(|(cidr, except)| block(cidr, except)).collect()
}

/// The operator is a pod too, and its forbidden canary listener has to stay forbidden: otherwise no gate would ever open.
fn all_ports_but_the_canary() -> Vec<NetworkPolicyPort> {
    vec![
        ports("TCP", 1, PORT_CANARY_FORBIDDEN - 1),
        ports("TCP", PORT_CANARY_FORBIDDEN + 1, u16::MAX),
        ports("UDP", 1, u16::MAX),
    ]
}

fn dns(input: Input<'_>) -> NetworkPolicyEgressRule {
    let resolver = &input.config.dns;
    let mut peers = vec![NetworkPolicyPeer {
        namespace_selector: Some(selector([(NAMESPACE_NAME.to_owned(), resolver.namespace.clone())])),
        pod_selector: Some(selector(resolver.labels.clone())),
        ip_block: None,
    }];
    peers.extend(
        resolver.addresses.iter().map(|address| block(Cidr::single(*address).to_string(), Vec::new())),
    );
    NetworkPolicyEgressRule { to: Some(peers), ports: Some(vec![port("UDP", 53), port("TCP", 53)]) }
}

/// One peer with both selectors: two peers would let in every pod that carries the operator's name, and every pod of its
/// namespace.
fn operator(input: Input<'_>) -> NetworkPolicyPeer {
    let namespace = input.config.operator_namespace.clone();
    NetworkPolicyPeer {
        namespace_selector: Some(selector([(NAMESPACE_NAME.to_owned(), namespace)])),
        pod_selector: Some(selector([(
            "app.kubernetes.io/name".to_owned(),
            labels::OPERATOR_APP_NAME.to_owned(),
        )])),
        ip_block: None,
    }
}

fn to(peers: Vec<NetworkPolicyPeer>) -> NetworkPolicyEgressRule {
    NetworkPolicyEgressRule { to: Some(peers), ports: None }
}

fn block(cidr: String, except: Vec<String>) -> NetworkPolicyPeer {
    let except = Some(except).filter(|ranges| !ranges.is_empty());
    NetworkPolicyPeer { ip_block: Some(IPBlock { cidr, except }), ..NetworkPolicyPeer::default() }
}

/// The protocol is written out, so that a policy read back equals the policy written.
fn port(protocol: &str, port: u16) -> NetworkPolicyPort {
    NetworkPolicyPort {
        protocol: Some(protocol.to_owned()),
        port: Some(IntOrString::Int(i32::from(port))),
        end_port: None,
    }
}

fn ports(protocol: &str, first: u16, last: u16) -> NetworkPolicyPort {
    NetworkPolicyPort { end_port: Some(i32::from(last)), ..port(protocol, first) }
}

fn selector(labels: impl IntoIterator<Item = (String, String)>) -> LabelSelector {
    LabelSelector {
        match_labels: Some(labels.into_iter().collect::<BTreeMap<_, _>>()),
        match_expressions: None,
    }
}
