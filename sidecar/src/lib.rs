//! The trusted sidecar of an environment: it serves the doors, keeps the idle clock, leases and audit, and never runs
//! anything of the user's.

pub mod activity;
pub mod anchor;
pub mod build_info;
pub mod clock;
pub mod gate;
pub mod host;
pub mod idle;
pub mod leases;
pub mod probe;
pub mod store;
mod text;
