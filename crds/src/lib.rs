//! The API of `cuddy.dev`: `Environment` and `EnvironmentClass`, what they mean together, and how they are told.
//!
//! Pure: nothing here talks to a cluster or reads a clock. The YAML in `crds/yaml` is made from these types by
//! `cargo run -p cuddy-crds --bin crdgen`, and a test compares the two.

pub mod conditions;
pub mod defaults;
pub mod labels;
pub mod public_key;
pub mod quantity;
pub mod schema;
pub mod v1alpha1;

pub use v1alpha1::{
    Environment, EnvironmentClass, EnvironmentClassSpec, EnvironmentSpec, EnvironmentStatus,
    environment_class_crd, environment_crd, parse_environment,
};
