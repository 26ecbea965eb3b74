//! The Service, for clients within the cluster.

use std::collections::BTreeMap;

use cuddy_crds::labels;
use cuddy_protocol::places::PORT_TLS;
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{Input, Owner, meta};

/// Builds the Service, where clients of the cluster are let in.
pub fn build(input: Input<'_>) -> Option<Service> {
    let owner = input.owner;
    input.has_service().then(|| Service {
        metadata: meta::child(owner, labels::service_name(&owner.name)),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            ip_family_policy: Some("PreferDualStack".to_owned()),
            selector: Some(BTreeMap::from([(labels::ENVIRONMENT_UID.to_owned(), owner.uid.clone())])),
            ports: Some(vec![ServicePort {
                name: Some("mcp".to_owned()),
                protocol: Some("TCP".to_owned()),
                port: i32::from(PORT_TLS),
                target_port: Some(IntOrString::Int(i32::from(PORT_TLS))),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        status: None,
    })
}

/// Returns the names under which clients of the cluster reach the Service.
pub fn host_names(owner: &Owner) -> Vec<String> {
    let name = labels::service_name(&owner.name);
    let namespace = &owner.namespace;
    vec![
        format!("{name}.{namespace}"),
        format!("{name}.{namespace}.svc"),
        format!("{name}.{namespace}.svc.cluster.local"),
    ]
}
