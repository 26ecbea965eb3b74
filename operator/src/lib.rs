//! The operator: it watches Environments and EnvironmentClasses, makes what stands for them, and is the only writer of
//! their status.
//!
//! Data flows one way: leadership -> identity -> canary listeners -> the controller of `environment`. Whatever a reconcile
//! needs of the world comes in through [`context::Context`]: the API server's client (which refuses to write when the lease
//! is too old), the sidecars, events, metrics. Nothing below `app` reads the process's environment or arguments.

pub mod admin;
pub mod app;
pub mod backoff;
pub mod canary;
pub mod chain;
pub mod cli;
pub mod config;
pub mod context;
pub mod control;
pub mod crd;
pub mod environment;
pub mod events;
pub mod identity;
pub mod leader;
pub mod metrics;

#[cfg(test)]
mod mock_api;
#[cfg(test)]
mod testing;
