//! Activity leases (seed, "Idle policy").

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How long a plain lease lasts unless asked otherwise, in seconds.
pub const DEFAULT_TTL_SECONDS: u64 = 15 * 60;
/// How long an exclusive claim lasts unless asked otherwise, in seconds.
pub const DEFAULT_EXCLUSIVE_TTL_SECONDS: u64 = 5 * 60;
/// The bound on a lease from its start, however often it is renewed, in seconds.
pub const CEILING_SECONDS: u64 = 12 * 3600;
/// The scope of an exclusive claim that names none.
pub const DEFAULT_SCOPE: &str = "worktree";

/// A lease as callers see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lease {
    /// The handle.
    pub id: String,
    /// What people see.
    pub name: String,
    /// The process whose death gives the lease back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// When it began, RFC 3339.
    pub started_at: String,
    /// When it was last renewed, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renewed_at: Option<String>,
    /// When it ends by itself, RFC 3339.
    pub expires_at: String,
    /// What an exclusive claim covers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Whether nobody else may claim the scope.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclusive: bool,
    /// Issuer and subject of the holder, taken from the bearer, never from the arguments.
    pub holder: String,
}
