//! Wire types shared by every program of Cuddy.
//!
//! Shapes only: no IO, no Kubernetes, no HTTP, no clock. Requests refuse unknown fields; answers ignore them, so that
//! programs of neighbouring versions understand each other. Each type here has a golden file in `tests/snapshots`:
//! a change is a change on all sides, made in one commit.

pub mod anchor;
pub mod capability;
pub mod claims;
pub mod control;
pub mod error;
pub mod host;
pub mod ids;
pub mod job;
pub mod lease;
pub mod places;
pub mod state_file;

pub use capability::{Capabilities, Capability};
pub use error::{CommandError, ErrorCode};
pub use ids::{EnvironmentName, Scope, TenantName};

/// The API level that the CLI and the sidecar tell each other (D29): one apart is fine.
pub const API_LEVEL: u32 = 1;
