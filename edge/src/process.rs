//! What every long-running program here does the same way.

pub mod logging;
pub mod signal;
