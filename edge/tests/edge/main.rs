//! The doors as their callers meet them: tokens made by hand, requests in process, and raw sockets.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod bearers;
mod calls;
mod doors;
mod program;
mod sdk;
mod sessions;
mod sockets;
mod streams;
mod support;
