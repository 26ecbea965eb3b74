//! The children of an Environment, from what it asks for. Pure: the same plan gives the same objects, byte for byte.

pub mod meta;
pub mod network_policy;
pub mod pod;
pub mod pod_containers;
pub mod ranges;
pub mod secret;
pub mod service;
pub mod workspace;

use cuddy_crds::defaults::Settings;

use crate::config::OperatorConfig;

/// Who the children belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The Environment's namespace.
    pub namespace: String,
    /// The Environment's name.
    pub name: String,
    /// The Environment's UID.
    pub uid: String,
    /// The first half of its address.
    pub tenant: String,
}

/// Everything that the builders read.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// Who the children belong to.
    pub owner: &'a Owner,
    /// What the Environment and its class come to.
    pub settings: &'a Settings,
    /// What the operator was started with.
    pub config: &'a OperatorConfig,
}

impl Input<'_> {
    /// Says whether clients of the cluster are let in, and a Service is made for them.
    pub fn has_service(&self) -> bool {
        !self.settings.ingress_from.is_empty()
    }
}
