//! Jobs: records, output and beats on the disk, and what the host does with them.
//!
//! A job belongs to its supervisor, not to the host: the supervisor writes the record, the host reads it, and writes only to
//! demote a job whose supervisor is gone. So a host that is killed loses nothing.

pub mod await_job;
pub mod beat;
pub mod cancel;
pub mod durable;
pub mod id;
pub mod input;
pub mod output;
pub mod page;
pub mod record;
pub mod start;
pub mod store;

/// The most jobs that run at a time (D21).
pub const MAX_RUNNING: usize = 100;
/// The most records that are kept (D21).
pub const MAX_RECORDS: usize = 1000;
