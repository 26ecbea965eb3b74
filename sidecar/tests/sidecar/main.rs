//! The sidecar as a whole: its routers in process, and the real programs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod control;
mod fence;
mod keys;
mod none;
mod real;
mod support;
