//! The pod's three containers.

use std::collections::BTreeMap;

use cuddy_crds::labels;
use cuddy_crds::v1alpha1::{AuthMode, IdleAction};
use cuddy_protocol::anchor::ANCHOR_DIR;
use cuddy_protocol::places::{
    AGENT_SOCKET_DIR, BEATS_DIR, BIN_DIR, HOST_BIN, HOST_SOCKET_DIR, PORT_CONTROL, PORT_METRICS, PORT_PLAIN,
    PORT_TLS, SHARED_GID, SIDECAR_POD_STATE, SIDECAR_STATE, SIDECAR_UID, VOLUME_HOME, VOLUME_SIDECAR,
};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, EnvVar, EnvVarSource, HTTPGetAction, ObjectFieldSelector, Probe,
    ResourceRequirements, SecurityContext, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::pod::volumes;
use super::{Input, service};

/// Where `install` sees the whole volume, before any part of it is mounted elsewhere.
const WHOLE_VOLUME: &str = "/volume";

/// `install`: puts the host program in place and prepares the volume. It has left before anything of the user's starts.
pub fn install(input: Input<'_>) -> Container {
    Container {
        name: labels::CONTAINER_INSTALL.to_owned(),
        image: Some(input.config.sidecar_image.clone()),
        image_pull_policy: Some(input.config.sidecar_pull_policy.as_str().to_owned()),
        command: Some(texts(&["/cuddy-host", "install", "--bin-dir", BIN_DIR, "--volume", WHOLE_VOLUME])),
        resources: Some(sidecar_resources()),
        security_context: Some(security(SIDECAR_UID, true)),
        volume_mounts: Some(vec![mount(volumes::BIN, BIN_DIR), mount(volumes::WORKSPACE, WHOLE_VOLUME)]),
        ..Container::default()
    }
}

/// `sidecar`: the trusted side. It has bound its ports before the runtime container exists.
pub fn sidecar(input: Input<'_>) -> Container {
    Container {
        name: labels::CONTAINER_SIDECAR.to_owned(),
        image: Some(input.config.sidecar_image.clone()),
        image_pull_policy: Some(input.config.sidecar_pull_policy.as_str().to_owned()),
        restart_policy: Some("Always".to_owned()),
        command: Some(texts(&["/cuddy-sidecar", "serve"])),
        env: Some(sidecar_env(input)),
        ports: Some(vec![
            port("mcp", PORT_TLS),
            port("control", PORT_CONTROL),
            port("metrics", PORT_METRICS),
        ]),
        startup_probe: Some(probe("/healthz", 1, 60)),
        readiness_probe: Some(probe("/readyz", 1, 3)),
        liveness_probe: Some(probe("/healthz", 10, 6)),
        resources: Some(sidecar_resources()),
        security_context: Some(security(SIDECAR_UID, true)),
        volume_mounts: Some(vec![
            read_only(mount(volumes::ANCHOR, ANCHOR_DIR)),
            part(mount(volumes::WORKSPACE, SIDECAR_STATE), VOLUME_SIDECAR),
            mount(volumes::POD_STATE, SIDECAR_POD_STATE),
            mount(volumes::HOST, HOST_SOCKET_DIR),
            mount(volumes::AGENT, AGENT_SOCKET_DIR),
        ]),
        ..Container::default()
    }
}

/// `runtime`: the user's image. It mounts neither the anchor nor the sidecar's state, and writes only to its own sockets.
pub fn runtime(input: Input<'_>) -> Container {
    let settings = input.settings;
    let mut command = vec![format!("{BIN_DIR}/{HOST_BIN}"), "init".to_owned()];
    if !settings.command.is_empty() {
        command.push("--".to_owned());
        command.extend(settings.command.iter().cloned());
    }
    Container {
        name: labels::CONTAINER_RUNTIME.to_owned(),
        image: Some(settings.image.clone()),
        image_pull_policy: Some(settings.image_pull_policy.as_str().to_owned()),
        command: Some(command),
        working_dir: Some(settings.mount_path.clone()),
        env: Some(runtime_env(input)),
        resources: Some(settings.resources.clone()),
        security_context: Some(security(settings.run_as_user, false)),
        volume_mounts: Some(vec![
            part(mount(volumes::WORKSPACE, &settings.mount_path), VOLUME_HOME),
            read_only(mount(volumes::BIN, BIN_DIR)),
            mount(volumes::HOST, HOST_SOCKET_DIR),
            read_only(mount(volumes::AGENT, AGENT_SOCKET_DIR)),
            mount(volumes::BEATS, BEATS_DIR),
        ]),
        ..Container::default()
    }
}

fn sidecar_env(input: Input<'_>) -> Vec<EnvVar> {
    let settings = input.settings;
    let pod_uid = EnvVar {
        name: "CUDDY_POD_UID".to_owned(),
        value: None,
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                api_version: Some("v1".to_owned()),
                field_path: "metadata.uid".to_owned(),
            }),
            ..EnvVarSource::default()
        }),
    };
    let mut hosts = settings.hosts.clone();
    if input.has_service() {
        hosts.extend(service::host_names(input.owner));
    }
    let auth = match settings.auth_mode {
        AuthMode::Bearer => "Bearer",
        AuthMode::None => "None",
    };
    let action = match settings.idle.action {
        IdleAction::Stop => "Stop",
        IdleAction::None => "None",
    };
    let mut all = vec![
        pod_uid,
        variable("CUDDY_ANCHOR_DIR", ANCHOR_DIR),
        variable("CUDDY_STATE_DIR", SIDECAR_STATE),
        variable("CUDDY_POD_STATE_DIR", SIDECAR_POD_STATE),
        variable("CUDDY_HOST_SOCKET_DIR", HOST_SOCKET_DIR),
        variable("CUDDY_AGENT_SOCKET_DIR", AGENT_SOCKET_DIR),
        variable("CUDDY_AUTH", auth),
        variable("CUDDY_GATE", "Closed"),
        variable("CUDDY_IDLE_TIMEOUT_SECONDS", &settings.idle.timeout_seconds.to_string()),
        variable("CUDDY_IDLE_GRACE_SECONDS", &settings.idle.grace_seconds.to_string()),
        variable("CUDDY_IDLE_MAX_BUSY_SECONDS", &settings.idle.max_busy_seconds.to_string()),
        variable("CUDDY_IDLE_ACTION", action),
    ];
    if !hosts.is_empty() {
        all.push(variable("CUDDY_HOSTS", &hosts.join(",")));
    }
    if settings.auth_mode == AuthMode::None {
        // Without bearers only loopback is served: the pod itself, and port-forwards.
        all.push(variable("CUDDY_LISTEN_PLAIN", &format!("127.0.0.1:{PORT_PLAIN}")));
    }
    all
}

fn runtime_env(input: Input<'_>) -> Vec<EnvVar> {
    let home = input.settings.mount_path.as_str();
    let mut all = vec![
        variable("HOME", home),
        variable("CUDDY_HOME", home),
        variable("CUDDY_TENANT", &input.owner.tenant),
        variable("CUDDY_ENVIRONMENT", &input.owner.name),
        variable("CUDDY_HOST_SOCKET_DIR", HOST_SOCKET_DIR),
        variable("CUDDY_AGENT_SOCKET_DIR", AGENT_SOCKET_DIR),
        variable("CUDDY_BEATS_DIR", BEATS_DIR),
    ];
    all.extend(input.settings.env.iter().map(|own| variable(&own.name, &own.value)));
    all
}

/// What Pod Security "restricted" asks for, and a root that nothing can be put into where nothing needs to be.
fn security(uid: i64, read_only_root: bool) -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities { add: None, drop: Some(vec!["ALL".to_owned()]) }),
        read_only_root_filesystem: Some(read_only_root),
        run_as_non_root: Some(true),
        run_as_user: Some(uid),
        run_as_group: Some(SHARED_GID),
        ..SecurityContext::default()
    }
}

/// D47, with a limit of CPU too: what is left open, a LimitRange of the namespace would decide.
fn sidecar_resources() -> ResourceRequirements {
    let amounts = |cpu: &str, memory: &str| {
        let amount = |text: &str| Quantity(text.to_owned());
        Some(BTreeMap::from([("cpu".to_owned(), amount(cpu)), ("memory".to_owned(), amount(memory))]))
    };
    ResourceRequirements { claims: None, requests: amounts("10m", "32Mi"), limits: amounts("1", "128Mi") }
}

fn probe(path: &str, period_seconds: i32, failure_threshold: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::Int(i32::from(PORT_METRICS)),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(period_seconds),
        timeout_seconds: Some(1),
        failure_threshold: Some(failure_threshold),
        ..Probe::default()
    }
}

fn port(name: &str, number: u16) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: i32::from(number),
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    }
}

fn variable(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value.to_owned()), value_from: None }
}

fn mount(volume: &str, path: &str) -> VolumeMount {
    VolumeMount { name: volume.to_owned(), mount_path: path.to_owned(), ..VolumeMount::default() }
}

fn read_only(mount: VolumeMount) -> VolumeMount {
    VolumeMount { read_only: Some(true), ..mount }
}

fn part(mount: VolumeMount, path: &str) -> VolumeMount {
    VolumeMount { sub_path: Some(path.to_owned()), ..mount }
}

fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|text| (*text).to_owned()).collect()
}
