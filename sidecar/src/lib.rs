//! The trusted sidecar of an environment: it serves the doors, keeps the idle clock, leases and audit, and never runs
//! anything of the user's.

pub mod activity;
pub mod clock;
pub mod idle;
pub mod leases;
pub mod store;
mod text;
