//! `activity_lease_list`

use cuddy_protocol::lease::Lease;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::declaration::{Command, Declaration, Family, Method, NoParams, Route};

/// Lists the leases in force.
#[derive(Debug)]
pub struct ActivityLeaseList;

/// The leases in force.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ActivityLeaseListOutput {
    /// All leases in force, those of running jobs among them; expired ones and those of dead processes are gone.
    pub leases: Vec<Lease>,
}

impl Command for ActivityLeaseList {
    const DECLARATION: Declaration = Declaration {
        route: Route { method: Method::Get, path: "/activity/leases" },
        path: &["activity", "lease", "list"],
        activity: false,
        ..Declaration::read::<Self>(
            "activity_lease_list",
            Family::Activity,
            "Lists the leases that still defer auto-stop.",
        )
    };
    type Params = NoParams;
    type Output = ActivityLeaseListOutput;
}
