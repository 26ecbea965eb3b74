//! The trusted sidecar of an environment: it serves the doors, keeps the idle clock, leases and audit, and never runs
//! anything of the user's.

pub mod clock;
pub mod idle;
mod text;
