//! `usage`

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::declaration::{Command, Declaration, Family, Hosted, Method, Route};

/// The shortest CPU sample window, in seconds.
pub const MIN_INTERVAL_SECONDS: f64 = 0.1;
/// The longest CPU sample window, in seconds.
pub const MAX_INTERVAL_SECONDS: f64 = 30.0;
/// Memory at this share of its limit warns, in percent.
pub const MEMORY_WARNING_PERCENT: f64 = 85.0;
/// Memory's peak at this share of the limit warns, in percent.
pub const PEAK_WARNING_PERCENT: f64 = 95.0;
/// A file system at this share of its size warns, in percent.
pub const DISK_WARNING_PERCENT: f64 = 90.0;

/// Measures CPU, memory and disk.
#[derive(Debug)]
pub struct Usage;

/// The parameters.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UsageParams {
    /// CPU sample window in seconds, 0.1 to 30; values outside are clamped. Default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_seconds: Option<f64>,
}

/// What the container uses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageOutput {
    /// The tenant.
    pub tenant: String,
    /// The environment.
    pub environment: String,
    /// Where the numbers come from: `cgroup2` or `cgroup1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// CPU.
    pub cpu: CpuUsage,
    /// Memory.
    pub memory: MemoryUsage,
    /// File systems.
    pub disk: Vec<DiskUsage>,
    /// What crossed a threshold; absent when nothing did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// CPU over the sample window.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CpuUsage {
    /// The quota in cores; absent when unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_cores: Option<f64>,
    /// Use of the quota over the window, or of one core where there is none, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilization_percent: Option<f64>,
    /// The window in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_seconds: Option<f64>,
    /// Why it could not be read; then there are no numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
}

/// Memory.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryUsage {
    /// In use, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_bytes: Option<u64>,
    /// The high-water mark, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<u64>,
    /// The limit, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// Current over limit, percent, one decimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent_of_limit: Option<f64>,
    /// Processes ended for want of memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom_kills: Option<u64>,
    /// True when there is no limit; then there is no percentage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unlimited: Option<bool>,
    /// Why it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
}

/// One file system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiskUsage {
    /// Where it is mounted.
    pub mount: String,
    /// Its size, bytes.
    pub total_bytes: u64,
    /// In use, bytes.
    pub used_bytes: u64,
    /// In use, percent.
    pub percent_used: f64,
}

impl Command for Usage {
    const DECLARATION: Declaration = Declaration {
        hosted: Hosted::Host,
        route: Route { method: Method::Get, path: "/usage" },
        path: &["usage"],
        deadline: Duration::from_secs(40),
        activity: false,
        ..Declaration::read::<Self>(
            "usage",
            Family::TopLevel,
            "Measures live CPU, memory and disk use from the container's own cgroup and file system.",
        )
    };
    type Params = UsageParams;
    type Output = UsageOutput;
}
