//! `status` of an Environment: what the operator saw. It is its only writer.

use cuddy_protocol::control::ActivitySource;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::schema;

/// The most stops that are remembered.
pub const MAX_HISTORY: usize = 10;

/// What the operator saw.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentStatus {
    /// The generation of the spec that the rest is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What holds now: Ready, Anchored, NetworkIsolated, WorkspaceBound, RuntimeAvailable, Idle, Suspended, UpToDate, Degraded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Who works, and when the environment may be stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity: Option<ActivityStatus>,
    /// Stops: the one that holds, and the last ten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopStatus>,
    /// The last value of the annotation cuddy.dev/wake that was acted upon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub last_wake: Option<String>,
    /// The pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub pod_name: Option<String>,
    /// The UID of the pod.
    #[serde(default, rename = "podUID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub pod_uid: Option<String>,
    /// The address of the pod.
    #[serde(default, rename = "podIP", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub pod_ip: Option<String>,
    /// The image that the environment was last started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub image: Option<String>,
    /// The tenant: the first half of the address tenant/environment that clients use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub tenant: Option<String>,
    /// Where the environment answers over TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EndpointStatus>,
    /// Thumbprints (RFC 7638) of the keys that the sidecar has loaded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(max = 64)), extend("x-kubernetes-list-type" = "atomic"))]
    pub keys: Vec<String>,
}

/// Who works, and when the environment may be stopped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActivityStatus {
    /// Busy or not.
    pub state: ActivityState,
    /// When somebody last did something. While nothing else changes, this is written every five minutes at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_activity: Option<Time>,
    /// What it was that somebody did last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "source")]
    pub source: Option<ActivitySource>,
    /// How many jobs run.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub jobs: u32,
    /// How many leases are held.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub leases: u32,
    /// What keeps the environment up, in words: `2 jobs`, `lease build`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 128)), extend("x-kubernetes-list-type" = "atomic"))]
    pub blockers: Vec<String>,
    /// When it is stopped if nothing happens; absent while something keeps it up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub stops_at: Option<Time>,
}

/// Busy or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ActivityState {
    /// It comes up.
    Starting,
    /// Somebody works.
    Busy,
    /// Nobody works.
    Idle,
    /// There is no report that can be believed; it counts as busy.
    Unknown,
}

/// The stop that holds, and the last ones.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StopStatus {
    /// When the stop that holds now was made; absent, as reason and by, while the environment runs or should run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub at: Option<Time>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::choice::<StopReason>")]
    pub reason: Option<StopReason>,
    /// By whom: `operator`, `spec.mode` or `cuddy.dev/stop`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub by: Option<String>,
    /// The last value of the annotation cuddy.dev/stop that was acted upon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub last_request: Option<String>,
    /// The last stops, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), extend("x-kubernetes-list-type" = "atomic"))]
    pub history: Vec<StopRecord>,
}

impl StopStatus {
    /// Returns the stop that holds now, if the environment is stopped.
    pub fn current(&self) -> Option<StopRecord> {
        let (at, reason, by) = (self.at.clone()?, self.reason?, self.by.clone()?);
        Some(StopRecord { at, reason, by })
    }

    /// Records a stop: it holds from now on, and is the newest of the history.
    pub fn record(&mut self, stop: StopRecord) {
        self.at = Some(stop.at.clone());
        self.reason = Some(stop.reason);
        self.by = Some(stop.by.clone());
        self.history.insert(0, stop);
        self.history.truncate(MAX_HISTORY);
    }

    /// Ends the stop that holds now; the history keeps it.
    pub fn clear(&mut self) {
        self.at = None;
        self.reason = None;
        self.by = None;
    }
}

/// One stop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StopRecord {
    /// When.
    #[schemars(schema_with = "schema::time")]
    pub at: Time,
    /// Why.
    pub reason: StopReason,
    /// By whom: `operator`, `spec.mode` or `cuddy.dev/stop`.
    #[schemars(length(max = 128))]
    pub by: String,
}

/// Why an environment was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StopReason {
    /// A person asked for it.
    UserStopped,
    /// Nobody worked.
    IdleStopped,
    /// `idle.maxBusySeconds` passed without a call or lease by anybody with a key, or without a report.
    MaxBusy,
}

impl StopReason {
    /// Returns the reason of the condition Suspended.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UserStopped => crate::conditions::reasons::USER_STOPPED,
            Self::IdleStopped => crate::conditions::reasons::IDLE_STOPPED,
            Self::MaxBusy => crate::conditions::reasons::MAX_BUSY,
        }
    }
}

/// Where an environment answers over TLS. The name in its certificate is `<uid of the Environment>.env.cuddy.internal`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointStatus {
    /// An IP address.
    #[schemars(length(max = 64))]
    pub address: String,
    /// A port.
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,
    /// The certificate authority to trust for it, PEM.
    #[schemars(length(max = 4096))]
    pub ca_bundle: String,
}

fn source(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["call", "job", "lease", "terminal", "traffic"] })
}
