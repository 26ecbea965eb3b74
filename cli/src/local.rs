//! An environment on this machine: the sidecar and the host as two processes of the user's own (DESIGN section 2).
//!
//! Same commands, same doors, always a bearer. What is absent is the wall: both processes, the agent's work and the user
//! are one and the same to the system.

pub(crate) mod anchor;
pub(crate) mod children;
pub(crate) mod found;
pub(crate) mod layout;
pub(crate) mod lock;
pub(crate) mod programs;
pub(crate) mod record;
pub(crate) mod restart;
pub(crate) mod supervise;

/// The name of an environment that was given none.
pub(crate) const DEFAULT_NAME: &str = "dev";

/// What is said whenever one is started.
pub(crate) const NO_WALL: &str =
    "there is no wall between the agent and you: what it runs has your rights on this machine";
