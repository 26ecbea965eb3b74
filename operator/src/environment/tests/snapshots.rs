//! Every child of the smallest Environment and of one that asks for everything.

use cuddy_crds::v1alpha1::EnvironmentSpec;
use cuddy_crds::{EnvironmentClassSpec, defaults};
use serde_json::{Value, json};

use crate::environment::build::network_policy::{self, Phase};
use crate::environment::build::{Input, Owner, pod, service, workspace};
use crate::testing::world::{KEY, config};

fn snapshot(name: &str, spec: Value, config: &crate::config::OperatorConfig) {
    let spec: EnvironmentSpec = serde_json::from_value(spec).unwrap();
    let class: EnvironmentClassSpec = serde_json::from_value(json!({"image": "debian:12"})).unwrap();
    let class = defaults::Class { name: "small", spec: &class };
    let settings = defaults::resolve(&spec, class).unwrap();
    let owner =
        Owner { namespace: "acme".into(), name: "dev".into(), uid: "u-1".into(), tenant: "acme".into() };
    let input = Input { owner: &owner, settings: &settings, config };
    insta::assert_yaml_snapshot!(format!("{name}_pod"), pod::build(input).unwrap());
    insta::assert_yaml_snapshot!(format!("{name}_workspace"), workspace::build(input));
    insta::assert_yaml_snapshot!(
        format!("{name}_policy_closed"),
        network_policy::build(input, Phase::Closed)
    );
    insta::assert_yaml_snapshot!(format!("{name}_policy_open"), network_policy::build(input, Phase::Open));
    insta::assert_yaml_snapshot!(format!("{name}_service"), service::build(input));
}

#[test]
fn the_smallest() {
    snapshot("smallest", json!({}), &config());
}

#[test]
fn one_that_asks_for_everything() {
    let mut config = config();
    config.ranges.pods = vec!["10.244.0.0/16".parse().unwrap(), "fd00:10::/64".parse().unwrap()];
    config.ranges.nodes = vec!["10.244.0.1/32".parse().unwrap()];
    config.dns.addresses = vec!["169.254.20.10".parse().unwrap()];
    let spec = json!({
        "image": "registry.example/tools:2",
        "command": ["code-server"], "args": ["--port", "8080"],
        "env": [{"name": "EDITOR", "value": "vi"}],
        "resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "4Gi"}},
        "workspace": {"size": "20Gi", "storageClassName": "fast", "mountPath": "/workspace"},
        "auth": {"keys": [{"name": "laptop", "publicKey": KEY}]},
        "idle": {"timeoutSeconds": 30, "graceSeconds": 0, "action": "None"},
        "network": {
            "egress": "Cluster", "hosts": ["dev.example.org"],
            "ingressFrom": [{"namespaceSelector": {"matchLabels": {"team": "a"}}, "podSelector": {"matchLabels": {"app": "ide"}}}],
        },
        "security": {"runAsUser": 2000},
        "imagePullSecrets": [{"name": "registry"}],
    });
    snapshot("everything", spec, &config);
}

#[test]
fn without_egress_or_bearers() {
    let spec = json!({"network": {"egress": "None"}, "auth": {"mode": "None"}});
    snapshot("closed", spec, &config());
}

/// What no snapshot reviewer should have to look for (Pod Security "restricted", D9, D10).
#[test]
fn the_pod_holds_nothing_of_the_clusters() {
    let spec = EnvironmentSpec::default();
    let class: EnvironmentClassSpec = serde_json::from_value(json!({"image": "i"})).unwrap();
    let settings = defaults::resolve(&spec, defaults::Class { name: "c", spec: &class }).unwrap();
    let owner = Owner { namespace: "n".into(), name: "e".into(), uid: "u".into(), tenant: "n".into() };
    let config = config();
    let pod = pod::build(Input { owner: &owner, settings: &settings, config: &config }).unwrap();
    let spec = pod.spec.unwrap();
    assert_eq!(spec.automount_service_account_token, Some(false));
    assert_eq!(spec.enable_service_links, Some(false));
    assert_eq!((spec.host_network, spec.host_pid, spec.host_ipc), (None, None, None));
    let runtime = &spec.containers[0];
    for mount in runtime.volume_mounts.as_ref().unwrap() {
        assert!(!["anchor", "pod-state"].contains(&mount.name.as_str()), "{mount:?}");
        if mount.name == "workspace" {
            assert_eq!(mount.sub_path.as_deref(), Some("home"));
        }
        if ["bin", "agent"].contains(&mount.name.as_str()) {
            assert_eq!(mount.read_only, Some(true), "{mount:?}");
        }
    }
    for container in spec.containers.iter().chain(spec.init_containers.iter().flatten()) {
        let security = container.security_context.as_ref().unwrap();
        assert_eq!(security.allow_privilege_escalation, Some(false));
        assert_eq!(security.capabilities.as_ref().unwrap().drop, Some(vec!["ALL".to_owned()]));
        let resources = container.resources.as_ref().unwrap();
        for amounts in [&resources.requests, &resources.limits] {
            for name in ["cpu", "memory"] {
                assert!(amounts.as_ref().unwrap().contains_key(name), "{}: {name}", container.name);
            }
        }
    }
}

/// The forbidden canary listener of the operator, which is a pod as well, must be forbidden by every policy.
#[test]
fn no_policy_opens_the_forbidden_canary() {
    use cuddy_protocol::places::{PORT_CANARY_ALLOWED, PORT_CANARY_FORBIDDEN};
    use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
    for egress in ["Internet", "Cluster", "None"] {
        for phase in [Phase::Closed, Phase::Open] {
            let spec: EnvironmentSpec =
                serde_json::from_value(json!({"network": {"egress": egress}})).unwrap();
            let class: EnvironmentClassSpec = serde_json::from_value(json!({"image": "i"})).unwrap();
            let settings = defaults::resolve(&spec, defaults::Class { name: "c", spec: &class }).unwrap();
            let owner =
                Owner { namespace: "n".into(), name: "e".into(), uid: "u".into(), tenant: "n".into() };
            let config = config();
            let input = Input { owner: &owner, settings: &settings, config: &config };
            let rules = network_policy::build(input, phase).spec.unwrap().egress.unwrap_or_default();
            let opens = |wanted: u16| {
                rules.iter().any(|rule| {
                    let selects_pods = rule.to.iter().flatten().any(|peer| peer.namespace_selector.is_some());
                    let ports = rule.ports.iter().flatten().any(|port| {
                        let Some(IntOrString::Int(first)) = port.port else { return false };
                        let last = port.end_port.unwrap_or(first);
                        port.protocol.as_deref() == Some("TCP") && (first..=last).contains(&i32::from(wanted))
                    });
                    selects_pods && (ports || rule.ports.is_none())
                })
            };
            assert!(!opens(PORT_CANARY_FORBIDDEN), "{egress} {phase:?}");
            if phase == Phase::Closed {
                assert!(opens(PORT_CANARY_ALLOWED), "{egress}");
            }
        }
    }
}
