//! The trusted sidecar of an environment: it serves the doors, keeps the idle clock, leases and audit, and never runs
//! anything of the user's.
//!
//! `assembly` puts the parts together, `app` serves them. Evidence of work meets the fence in `activity`; what the host says comes in through
//! `host`; what the operator says through `control`.

pub mod activity;
pub mod admin;
pub mod admission;
pub mod anchor;
pub mod app;
pub mod assembly;
pub mod audit;
pub mod build_info;
pub mod cli;
pub mod clock;
pub mod config;
pub mod control;
pub mod disk;
pub mod gate;
pub mod handlers;
pub mod host;
pub mod idle;
pub mod leases;
pub mod listen;
pub mod metrics;
pub mod probe;
pub mod proved;
pub mod report;
pub mod store;
mod text;
