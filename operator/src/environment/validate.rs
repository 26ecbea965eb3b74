//! Step two: what an Environment asks for, or which field cannot be met. Pure.

use cuddy_crds::conditions::reasons;
use cuddy_crds::defaults::{self, Class, Settings};
use cuddy_crds::v1alpha1::{EnvironmentSpec, Verify};
use cuddy_protocol::{EnvironmentName, Scope, TenantName};
use kube::ResourceExt;

use super::build::Owner;
use super::classes::{ClassError, Found};
use super::outcome::Blocker;
use crate::config::{self, OperatorConfig};

/// What an Environment asks for, all of it possible.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    /// Who its children belong to.
    pub owner: Owner,
    /// Its address.
    pub scope: Scope,
    /// What it and its class come to.
    pub settings: Settings,
    /// What an administrator should know about the class.
    pub remark: Option<String>,
}

/// Checks all that can be checked without looking at the cluster again.
pub(super) fn validate(
    owner: &Owner,
    spec: &EnvironmentSpec,
    class: Result<&Found, &ClassError>,
    config: &OperatorConfig,
) -> Result<Plan, Blocker> {
    let invalid = |path: &str, message: &str| Blocker::new(reasons::INVALID, format!("{path}: {message}"));
    let environment: EnvironmentName =
        owner.name.parse().map_err(|error| invalid("metadata.name", &format!("{error}")))?;
    let tenant: TenantName =
        owner.tenant.parse().map_err(|error| invalid("metadata.namespace", &format!("{error}")))?;
    let found = class.map_err(|error| invalid(reasons::CLASS_NOT_FOUND, &error.to_string()))?;
    let name = found.class.name_any();
    let mut settings = defaults::resolve(spec, Class { name: &name, spec: &found.class.spec })
        .map_err(|error| Blocker::new(reasons::INVALID, error.to_string()))?;
    if spec.network.as_ref().and_then(|network| network.verify).is_none() {
        settings.verify = match config.default_verify {
            config::Verify::Gate => Verify::Gate,
            config::Verify::Report => Verify::Report,
        };
    }
    Ok(Plan {
        owner: owner.clone(),
        scope: Scope { tenant, environment },
        settings,
        remark: found.remark.clone(),
    })
}
