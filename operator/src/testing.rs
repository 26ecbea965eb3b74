//! What tests of whole reconciles need: an API server in memory, a sidecar that says what it is told, and the world around.

pub(crate) mod fake_api;
pub(crate) mod fake_sidecar;
pub(crate) mod world;

pub(crate) use fake_api::{FakeApi, Fault};
pub(crate) use fake_sidecar::FakeSidecar;
pub(crate) use world::World;
