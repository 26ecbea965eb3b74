//! `activity_lease_take`

use cuddy_protocol::Capability;
use cuddy_protocol::lease::Lease;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::declaration::{Command, Declaration, Effect, Family, Method, Route};

/// Leases over this many seconds want admin (D41).
pub const LONG_LEASE_SECONDS: u64 = 3600;

/// Takes or renews a lease.
#[derive(Debug)]
pub struct ActivityLeaseTake;

/// The parameters.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ActivityLeaseTakeParams {
    /// What the operator sees.
    #[schemars(length(min = 1, max = 100))]
    pub name: String,
    /// The lease's id; one that you hold is renewed. Default: made from the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100))]
    pub id: Option<String>,
    /// The holder process in the runtime container; its death gives the lease back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub pid: Option<i32>,
    /// true claims the scope for one holder. Default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclusive: Option<bool>,
    /// What an exclusive claim covers. Default worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100))]
    pub scope: Option<String>,
    /// How long it lasts in seconds, 1 to 43200. Default 900, exclusive 300; over 3600 wants admin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 43200))]
    pub ttl_seconds: Option<u64>,
}

/// The lease held, and all others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActivityLeaseTakeOutput {
    /// The lease you hold now.
    pub lease: Lease,
    /// All leases in force.
    pub leases: Vec<Lease>,
}

impl Command for ActivityLeaseTake {
    const DECLARATION: Declaration = Declaration {
        effect: Effect::Change,
        capability: Capability::Operate,
        route: Route { method: Method::Post, path: "/activity/leases/take" },
        path: &["activity", "lease", "take"],
        ..Declaration::read::<Self>(
            "activity_lease_take",
            Family::Activity,
            "Takes or renews a lease that keeps the environment up, optionally claiming a scope for one holder.",
        )
    };
    type Params = ActivityLeaseTakeParams;
    type Output = ActivityLeaseTakeOutput;
}
