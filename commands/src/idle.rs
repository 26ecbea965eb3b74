//! `idle`

use cuddy_protocol::lease::Lease;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::declaration::{Command, Declaration, Family, Method, NoParams, Route};

/// Reports the idle policy and what keeps the environment up.
#[derive(Debug)]
pub struct Idle;

/// The policy, the activity, and the answer to "why does it (not) stop". Field case as the seed has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IdleOutput {
    /// The idle timeout as a Go duration (`15m0s`).
    pub timeout: String,
    /// Working hours, `HH:MM-HH:MM`; empty when none are set.
    pub working_hours: String,
    /// The zone of the working hours.
    pub timezone: String,
    /// Whether the environment is on a managed cloud; never here.
    pub managed_cloud: bool,
    /// Whether it could be stopped now.
    pub eligible_for_stop: bool,
    /// What is going on.
    pub activity: IdleActivity,
    /// The leases in force, those of running jobs among them.
    pub leases: Vec<Lease>,
    /// What keeps it up, in words; empty when nothing does.
    pub blockers: Vec<String>,
    /// When it may be stopped if nothing happens, RFC 3339; absent while something blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_at: Option<String>,
    /// The answer as one sentence.
    pub explanation: String,
}

/// The last evidence of work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IdleActivity {
    /// The last input to a terminal, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_terminal_input: Option<String>,
    /// The last window of traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_network_traffic_window: Option<TrafficWindow>,
    /// Whether it is within working hours.
    pub within_working_hours: bool,
    /// The last call of a command that counts, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_call: Option<String>,
    /// How many jobs run.
    pub running_jobs: u32,
}

/// A window of traffic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrafficWindow {
    /// Its start, RFC 3339.
    pub started: String,
    /// The bytes in it.
    pub bytes: u64,
}

impl Command for Idle {
    const DECLARATION: Declaration = Declaration {
        route: Route { method: Method::Get, path: "/idle" },
        path: &["idle"],
        activity: false,
        ..Declaration::read::<Self>(
            "idle",
            Family::Idle,
            "Reports the idle policy, present activity, leases, and when and why the environment will (not) stop.",
        )
    };
    type Params = NoParams;
    type Output = IdleOutput;
}
