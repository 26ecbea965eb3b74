//! `activity_lease_release`

use cuddy_protocol::Capability;
use cuddy_protocol::lease::Lease;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::declaration::{Command, Declaration, Effect, Family, Method, Route};

/// Gives a lease back.
#[derive(Debug)]
pub struct ActivityLeaseRelease;

/// The parameters.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActivityLeaseReleaseParams {
    /// The lease to give back; one that is not there is no error.
    #[schemars(length(min = 1, max = 100))]
    pub id: String,
}

/// What is still held.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ActivityLeaseReleaseOutput {
    /// All leases still in force.
    pub leases: Vec<Lease>,
}

impl Command for ActivityLeaseRelease {
    const DECLARATION: Declaration = Declaration {
        effect: Effect::Change,
        capability: Capability::Operate,
        route: Route { method: Method::Post, path: "/activity/leases/release" },
        path: &["activity", "lease", "release"],
        ..Declaration::read::<Self>("activity_lease_release", Family::Activity, "Gives a lease back.")
    };
    type Params = ActivityLeaseReleaseParams;
    type Output = ActivityLeaseReleaseOutput;
}
