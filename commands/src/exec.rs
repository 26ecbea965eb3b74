//! The family `exec`: running things, and coming back to them.

pub mod job_await;
pub mod job_cancel;
pub mod job_output;
pub mod job_status;
pub mod raw;
