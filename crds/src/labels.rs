//! Names, labels and annotations that tie an Environment to what is made for it (D33, D34).

use std::collections::BTreeMap;

/// The API group.
pub const GROUP: &str = "cuddy.dev";
/// The field manager of every write by the operator, and the name of its Lease.
pub const FIELD_MANAGER: &str = "cuddy-operator";
/// The namespace of the operator unless the chart says otherwise.
pub const OPERATOR_NAMESPACE: &str = "cuddy-system";
/// The value of `app.kubernetes.io/name` on the operator's pods: NetworkPolicies name it as a peer.
pub const OPERATOR_APP_NAME: &str = "cuddy-operator";

/// Says who made an object; its value is [`MANAGED_BY_CUDDY`].
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY`] on children.
pub const MANAGED_BY_CUDDY: &str = "cuddy";
/// The name of the Environment that an object belongs to.
pub const ENVIRONMENT: &str = "cuddy.dev/environment";
/// The UID of the Environment that an object belongs to. Every selector uses this label alone.
pub const ENVIRONMENT_UID: &str = "cuddy.dev/environment-uid";
/// Marks a ConfigMap, with any value, as one whose keys Environments of its namespace may trust.
pub const KEYS: &str = "cuddy.dev/keys";

/// Annotation: an opaque id; one that was not seen before starts an Environment that was stopped.
pub const WAKE: &str = "cuddy.dev/wake";
/// Annotation: an opaque id; one that was not seen before stops the Environment, and the next wake starts it again.
pub const STOP: &str = "cuddy.dev/stop";
/// Annotation of an EnvironmentClass: with the value `true` it serves Environments that name no class.
pub const IS_DEFAULT_CLASS: &str = "cuddy.dev/is-default-class";
/// Annotation of the pod: the fingerprint of what it was made from.
pub const POD_FINGERPRINT: &str = "cuddy.dev/fingerprint";
/// Annotation of the anchor Secret: which keys came from which entry of `spec.auth.keys`.
pub const KEY_SOURCES: &str = "cuddy.dev/key-sources";
/// Annotation of the anchor Secret: the names in its serving certificate, separated by commas.
pub const CERTIFICATE_NAMES: &str = "cuddy.dev/certificate-names";
/// Annotation of the anchor Secret: when its serving certificate ends, RFC 3339.
pub const CERTIFICATE_NOT_AFTER: &str = "cuddy.dev/certificate-not-after";

/// The init container that puts the host program in place and prepares the volume.
pub const CONTAINER_INSTALL: &str = "install";
/// The trusted container.
pub const CONTAINER_SIDECAR: &str = "sidecar";
/// The user's container.
pub const CONTAINER_RUNTIME: &str = "runtime";

/// Returns the name of the pod of an Environment.
pub fn pod_name(environment: &str) -> String {
    environment.to_owned()
}

/// Returns the name of the NetworkPolicy of an Environment.
pub fn network_policy_name(environment: &str) -> String {
    environment.to_owned()
}

/// Returns the name of the Service of an Environment, which exists only where clients of the cluster are let in.
pub fn service_name(environment: &str) -> String {
    environment.to_owned()
}

/// Returns the name of the PersistentVolumeClaim of an Environment.
pub fn workspace_name(environment: &str) -> String {
    format!("{environment}-workspace")
}

/// Returns the name of the Secret with keys and serving certificate of an Environment.
pub fn anchor_name(environment: &str) -> String {
    format!("{environment}-anchor")
}

/// Returns the labels of every child of an Environment.
pub fn child_labels(environment: &str, uid: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        (MANAGED_BY.to_owned(), MANAGED_BY_CUDDY.to_owned()),
        (ENVIRONMENT.to_owned(), environment.to_owned()),
        (ENVIRONMENT_UID.to_owned(), uid.to_owned()),
    ])
}
