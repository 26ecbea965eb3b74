//! The other side of the host's socket. All that it says is hostile: bounded in size and time, checked in shape.

pub mod client;
mod json_bound;
pub mod pass;
pub mod reply;
mod socket;
pub mod watch;
