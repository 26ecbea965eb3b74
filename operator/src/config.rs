//! What the operator was started with, parsed once.

mod cidr;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

pub use cidr::{Cidr, CidrError};
pub use cuddy_crds::labels::FIELD_MANAGER;

/// The settings.
#[derive(Debug, Clone)]
pub struct OperatorConfig {
    /// The image of `install` and `sidecar` in every pod.
    pub sidecar_image: String,
    /// How the kubelet gets that image.
    pub sidecar_pull_policy: PullPolicy,
    /// The namespace that the operator runs in: its Lease, its identity's Secret, and what policies name as a peer.
    pub operator_namespace: String,
    /// The operator pod's name: holder of the Lease, reporting instance of events.
    pub pod_name: String,
    /// The operator pod's own address: what sidecars dial to prove their isolation.
    pub pod_ip: IpAddr,
    /// The one namespace to look after, with a Role only; absent means the whole cluster.
    pub namespace: Option<String>,
    /// The classes as a mounted file; only with `namespace`, where classes of the cluster cannot be read.
    pub class_file: Option<PathBuf>,
    /// Where pods may ask for names (D46).
    pub dns: DnsResolver,
    /// The cluster's own ranges.
    pub ranges: ClusterRanges,
    /// What happens without proved isolation where neither Environment nor class says so.
    pub default_verify: Verify,
}

/// How the kubelet gets an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum PullPolicy {
    /// Ask the registry each time.
    Always,
    /// Ask it when the node has none.
    IfNotPresent,
    /// Never ask.
    Never,
}

impl PullPolicy {
    /// Returns the policy as a container's `imagePullPolicy`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::IfNotPresent => "IfNotPresent",
            Self::Never => "Never",
        }
    }
}

/// What a cluster that does not enforce policies means for an Environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum Verify {
    /// It does not start.
    Gate,
    /// It starts and a condition says so.
    Report,
}

/// The cluster's resolver as peers of a policy: pods by label in one namespace, and addresses (NodeLocal's).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsResolver {
    /// The namespace of the resolver's pods.
    pub namespace: String,
    /// The labels of the resolver's pods.
    pub labels: BTreeMap<String, String>,
    /// Addresses that answer names and are no pods of the namespace.
    pub addresses: Vec<IpAddr>,
}

impl Default for DnsResolver {
    fn default() -> Self {
        Self {
            namespace: "kube-system".to_owned(),
            labels: BTreeMap::from([("k8s-app".to_owned(), "kube-dns".to_owned())]),
            addresses: Vec::new(),
        }
    }
}

/// The ranges that the cluster itself uses. `egress: Internet` closes all of them, `egress: Cluster` opens `pods` and no
/// other. Kubernetes has no API that tells them, so the chart's values do; private ranges are closed in any case.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterRanges {
    /// Where pods get their addresses from.
    pub pods: Vec<Cidr>,
    /// Where Services get their addresses from.
    pub services: Vec<Cidr>,
    /// Where the nodes are, the API server included.
    pub nodes: Vec<Cidr>,
}
