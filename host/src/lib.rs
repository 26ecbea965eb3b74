//! The host: the small static program inside the user's container.
//!
//! Four verbs: `install` copies the program there, `init` is the container's first process, `host` answers the sidecar over
//! a unix socket, `job` supervises one piece of work. It holds no secret and trusts nothing less than the agent does: both
//! run as the same user. Absent on purpose: HTTP, Kubernetes, policy, bearers.

pub mod activity;
pub mod build_info;
pub mod cli;
pub mod exec;
pub mod home;
pub mod init;
pub mod install;
pub mod jobs;
pub mod log;
pub mod process;
pub mod serve;
pub mod settings;
pub mod signals;
pub mod supervisor;
pub mod tree;
pub mod usage;
