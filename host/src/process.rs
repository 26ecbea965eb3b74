//! Processes, as `/proc` shows them.

pub mod identity;
pub mod reap;
pub mod stat;

pub use identity::{Identity, Place};
pub use stat::Process;
