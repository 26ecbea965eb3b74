//! What the operator and the sidecar say to each other on the control port (D35).
//!
//! HTTP/1.1 over TLS, JSON, at most [`MAX_BODY`] bytes, within [`TIMEOUT_SECONDS`]; each request carries a bearer of the
//! operator (audience `cuddy-control:<uid>`). The operator treats every answer as hostile input.

use serde::{Deserialize, Serialize};

use crate::anchor::TrustedKey;

/// The largest body in either direction, in bytes.
pub const MAX_BODY: usize = 64 * 1024;
/// How long either side waits, in seconds.
pub const TIMEOUT_SECONDS: u64 = 2;
/// How long a fence holds before the sidecar drops it by itself, in seconds.
pub const FENCE_SECONDS: u64 = 30;

/// `GET`: [`ActivityReport`].
pub const ACTIVITY_PATH: &str = "/control/v1/activity";
/// `POST` [`QuiesceRequest`]: [`Fence`], or 409 with [`Blocked`].
pub const QUIESCE_PATH: &str = "/control/v1/quiesce";
/// `POST` [`AnchorPush`]: [`AnchorLoaded`].
pub const ANCHOR_PATH: &str = "/control/v1/anchor";
/// `POST` [`ProbeRequest`]: [`ProbeAnswer`].
pub const PROBE_PATH: &str = "/control/v1/probe";
/// `POST` [`OpenRequest`]: 204.
pub const OPEN_PATH: &str = "/control/v1/open";

/// What the sidecar is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ActivityState {
    /// The gate is closed, or the environment has not been seen idle for long enough to say so.
    Starting,
    /// Somebody works.
    Busy,
    /// Nobody works.
    Idle,
    /// New work is refused until the fence expires.
    Quiesced,
}

/// Where evidence of work comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ActivitySource {
    /// A command called with a bearer.
    Call,
    /// A job that runs.
    Job,
    /// A lease that is held.
    Lease,
    /// Input to a terminal.
    Terminal,
    /// Traffic through a forward.
    Traffic,
}

/// The last evidence from one source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceActivity {
    /// The source.
    pub source: ActivitySource,
    /// When, RFC 3339.
    pub at: String,
}

/// A lease as the report names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseSummary {
    /// The lease's id.
    pub id: String,
    /// What people see.
    pub name: String,
    /// Issuer and subject of the holder.
    pub holder: String,
    /// When it ends by itself, RFC 3339.
    pub until: String,
}

/// Whether the doors are open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Gate {
    /// Every door but the probes answers 503 STARTING.
    Closed,
    /// The operator has opened this pod.
    Open,
}

/// The sidecar's report. Ages are told beside times so that no two machines' clocks are compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ActivityReport {
    /// Changes whenever the sidecar's process starts anew.
    pub boot_id: String,
    /// The UID of the pod that the sidecar believes to be in.
    pub pod_uid: String,
    /// Busy or not.
    pub state: ActivityState,
    /// Since when it is idle, RFC 3339, on the sidecar's clock. The value is opaque to the operator: it hands it back in
    /// [`QuiesceRequest::if_idle_since`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_since: Option<String>,
    /// For how many seconds it has been idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_seconds: Option<u64>,
    /// The last evidence per source.
    #[serde(default)]
    pub last_activity: Vec<SourceActivity>,
    /// How many jobs run.
    #[serde(default)]
    pub jobs: u32,
    /// The leases that are held.
    #[serde(default)]
    pub leases: Vec<LeaseSummary>,
    /// When the environment may be stopped if nothing happens, RFC 3339 on the sidecar's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_at: Option<String>,
    /// How many seconds are left until then; 0 means that it may be stopped now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_in_seconds: Option<u64>,
    /// Whether the bound on what hostile code can make up has been reached (`maxBusySeconds`).
    #[serde(default)]
    pub max_busy_reached: bool,
    /// The generation of the keys that are loaded.
    pub anchor_generation: u64,
    /// The thumbprints of the keys that are loaded.
    #[serde(default)]
    pub keys: Vec<String>,
    /// Whether the doors are open.
    pub gate: Gate,
}

/// Asks the sidecar to refuse new work, if it is still idle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QuiesceRequest {
    /// The `idleSince` of the report that led to this; another value by now means that somebody worked. Absent when a
    /// person asked for the stop: then work does not hinder it, and the answer is a fence in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_idle_since: Option<String>,
}

/// The sidecar refuses new work now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fence {
    /// An opaque id.
    pub fence: String,
    /// After how many seconds it ends by itself.
    pub expires_in_seconds: u64,
}

/// Why the sidecar does not let itself be stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Blocked {
    /// What keeps it up, in words: `call`, `job suite`, `lease build`.
    pub blockers: Vec<String>,
}

/// New keys for a running sidecar.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AnchorPush {
    /// The generation of this set.
    pub generation: u64,
    /// The whole set; what is not in it is no longer trusted.
    pub keys: Vec<TrustedKey>,
}

/// What the sidecar has loaded after a push.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AnchorLoaded {
    /// The generation in force.
    pub generation: u64,
    /// The thumbprints in force.
    pub keys: Vec<String>,
}

/// Asks the sidecar to dial the operator's two listeners, and to answer with a nonce on its own probe listener meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProbeRequest {
    /// `address:port` of the operator's listener that the policy allows while the gate is closed.
    pub control_address: String,
    /// `address:port` of the twin on the same address that nothing allows.
    pub canary_address: String,
    /// What both listeners answer, and what the sidecar's own probe listener answers in this round: 32 hex digits.
    pub nonce: String,
}

/// What became of one dial. Only a nonce counts as through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Dial {
    /// The nonce came back.
    Through,
    /// Refused, reset, timed out or a wrong answer.
    NotThrough,
}

/// What the sidecar saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProbeAnswer {
    /// The path that must be open: otherwise the probe says nothing.
    pub control: Dial,
    /// The path that must be closed.
    pub canary: Dial,
}

/// Opens the gate of one pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OpenRequest {
    /// The pod meant; another one answers 409.
    pub pod_uid: String,
}
