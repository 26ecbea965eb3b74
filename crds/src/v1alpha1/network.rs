//! What an environment may reach, and who reaches it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// What an environment may reach, and who reaches it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Network {
    /// What the environment may reach. Default: Internet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::choice::<Egress>")]
    pub egress: Option<Egress>,
    /// Pods of the cluster that may call the environment, with a trusted token like everybody. With at least one, a Service
    /// of the environment's name is made. Default: none; `cuddy open` and the API server's port-forward always work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub ingress_from: Vec<Peer>,
    /// Further host names under which clients call the environment; others than these and its own are refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 253)), extend(
        "x-kubernetes-list-type" = "set",
        "x-kubernetes-validations" = [{
            "rule": "self.all(host, host.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$'))",
            "message": "a host is a name in lower-case letters, without scheme, port or path",
        }],
    ))]
    pub hosts: Vec<String>,
    /// What happens where the cluster is not seen to enforce the network policy. Default: Gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::choice::<Verify>")]
    pub verify: Option<Verify>,
}

/// What an environment may reach.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Egress {
    /// The Internet, and nothing private: no pods, nodes, metadata services or private networks.
    #[default]
    Internet,
    /// Pods of the cluster, and neither nodes nor the API server.
    Cluster,
    /// Nothing, name resolution included.
    None,
}

/// What happens where the cluster is not seen to enforce the network policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Verify {
    /// The environment does not start.
    #[default]
    Gate,
    /// It starts, and a condition says that nothing holds it in.
    Report,
}

/// Pods of the cluster. With both selectors, pods that match in namespaces that match.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "has(self.namespaceSelector) || has(self.podSelector)",
    "message": "a peer needs a namespaceSelector, a podSelector or both",
}]))]
pub struct Peer {
    /// The namespaces. Default: the environment's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub namespace_selector: Option<LabelSelector>,
    /// The pods. Default: all of the namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub pod_selector: Option<LabelSelector>,
}
