//! The pod: the trusted sidecar and the user's container, and nothing of the cluster in either of them.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cuddy_crds::labels;
use cuddy_protocol::places::SHARED_GID;
use k8s_openapi::api::core::v1::{
    EmptyDirVolumeSource, LocalObjectReference, PersistentVolumeClaimVolumeSource, Pod, PodSecurityContext,
    PodSpec, SeccompProfile, SecretVolumeSource, Volume,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use sha2::{Digest, Sha256};

use super::{Input, meta, pod_containers};

/// The volumes' names.
pub mod volumes {
    /// The persistent volume.
    pub const WORKSPACE: &str = "workspace";
    /// The anchor Secret.
    pub const ANCHOR: &str = "anchor";
    /// The host program.
    pub const BIN: &str = "bin";
    /// The host's socket.
    pub const HOST: &str = "host";
    /// The agent's socket.
    pub const AGENT: &str = "agent";
    /// The beats of jobs.
    pub const BEATS: &str = "beats";
    /// The sidecar's state that lives as long as the pod.
    pub const POD_STATE: &str = "pod-state";
}

/// For how long the pod may take to end, in seconds (D10).
const GRACE_SECONDS: i64 = 10;

/// Builds the pod, with the fingerprint of all of it as an annotation.
pub fn build(input: Input<'_>) -> Result<Pod, serde_json::Error> {
    let mut metadata = meta::child(input.owner, labels::pod_name(&input.owner.name));
    let spec = spec(input);
    let fingerprint = fingerprint(&spec)?;
    metadata.annotations = Some(BTreeMap::from([
        (labels::POD_FINGERPRINT.to_owned(), fingerprint),
        // Which container `kubectl exec` and `kubectl logs` mean when none is named.
        ("kubectl.kubernetes.io/default-container".to_owned(), labels::CONTAINER_RUNTIME.to_owned()),
    ]));
    Ok(Pod { metadata, spec: Some(spec), status: None })
}

/// Returns the digest of a pod's spec: it differs when the next start would make another pod.
fn fingerprint(spec: &PodSpec) -> Result<String, serde_json::Error> {
    let digest = Sha256::digest(serde_json::to_vec(spec)?);
    Ok(URL_SAFE_NO_PAD.encode(digest))
}

fn spec(input: Input<'_>) -> PodSpec {
    PodSpec {
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        share_process_namespace: Some(false),
        termination_grace_period_seconds: Some(GRACE_SECONDS),
        restart_policy: Some("Always".to_owned()),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            fs_group: Some(SHARED_GID),
            fs_group_change_policy: Some("OnRootMismatch".to_owned()),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                localhost_profile: None,
            }),
            ..PodSecurityContext::default()
        }),
        image_pull_secrets: pull_secrets(input),
        init_containers: Some(vec![pod_containers::install(input), pod_containers::sidecar(input)]),
        containers: vec![pod_containers::runtime(input)],
        volumes: Some(pod_volumes(input)),
        ..PodSpec::default()
    }
}

fn pull_secrets(input: Input<'_>) -> Option<Vec<LocalObjectReference>> {
    let names = &input.settings.image_pull_secrets;
    let references = names.iter().map(|name| LocalObjectReference { name: name.clone() }).collect::<Vec<_>>();
    Some(references).filter(|references| !references.is_empty())
}

fn pod_volumes(input: Input<'_>) -> Vec<Volume> {
    let name = &input.owner.name;
    vec![
        Volume {
            name: volumes::WORKSPACE.to_owned(),
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: labels::workspace_name(name),
                read_only: None,
            }),
            ..Volume::default()
        },
        Volume {
            name: volumes::ANCHOR.to_owned(),
            secret: Some(SecretVolumeSource {
                secret_name: Some(labels::anchor_name(name)),
                default_mode: Some(0o440),
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        },
        empty(volumes::BIN, "64Mi", None),
        empty(volumes::HOST, "1Mi", None),
        empty(volumes::AGENT, "1Mi", None),
        empty(volumes::BEATS, "8Mi", Some("Memory")),
        empty(volumes::POD_STATE, "8Mi", None),
    ]
}

fn empty(name: &str, limit: &str, medium: Option<&str>) -> Volume {
    Volume {
        name: name.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource {
            medium: medium.map(str::to_owned),
            size_limit: Some(Quantity(limit.to_owned())),
        }),
        ..Volume::default()
    }
}
