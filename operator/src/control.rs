//! The way to the sidecars: five questions, asked over TLS at the pod's control port (D35).
//!
//! A sidecar shares its pod with hostile code, so its answers are hostile input: bounded in time and size, known enums
//! only, numbers and times clamped, control characters taken out, before anything else sees them (`sanitize`). No answer
//! means that nothing is known; it never means idle.

mod client;
mod gate;
mod sanitize;

use std::net::IpAddr;

use cuddy_protocol::control::{ActivityReport, AnchorLoaded, AnchorPush, Blocked, Fence};
use futures::future::BoxFuture;

pub use client::{ControlClient, Ports};
pub use gate::GateTimes;

/// The sidecar meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The Environment's namespace.
    pub namespace: String,
    /// The Environment's name.
    pub name: String,
    /// The Environment's UID: its sidecar proves this name by its certificate.
    pub environment_uid: String,
    /// The pod's UID: an answer from another pod is a [`ControlError::Conflict`].
    pub pod_uid: String,
    /// The pod's address (`status.podIP`).
    pub pod_ip: IpAddr,
}

/// What became of a request to refuse new work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Quiesced {
    /// New work is refused until the fence expires.
    Fenced(Fence),
    /// Somebody works: the stop is off.
    Blocked(Blocked),
}

/// What dialling an allowed and a forbidden path in both directions has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// Three rounds in a row: the allowed paths were through, the forbidden ones were not.
    Verified,
    /// A forbidden path stayed open for as long as a fresh policy may take.
    NotEnforced,
    /// The allowed path out was not through, so that the forbidden one says nothing.
    CanaryUnreachable,
}

/// Why a sidecar gave no answer that counts.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No connection, no TLS with the environment's own name, or no answer in time.
    #[error("the sidecar cannot be reached: {0}")]
    Unreachable(String),
    /// The sidecar does not take our bearer: its anchor names other control keys, or the clocks are apart.
    #[error("the sidecar refuses the operator's bearer")]
    Refused,
    /// Another pod answers, or the sidecar holds something newer than what it was given.
    #[error("the sidecar is not in the expected state: {0}")]
    Conflict(String),
    /// The answer is too large, no JSON, of another shape or with an unknown status.
    #[error("the sidecar's answer makes no sense: {0}")]
    Malformed(String),
}

impl ControlError {
    /// Returns the kind for a metric or a log: one of four words.
    pub const fn category(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::Refused => "refused",
            Self::Conflict(_) => "conflict",
            Self::Malformed(_) => "malformed",
        }
    }
}

/// The five questions. Each call makes a connection of its own and is bounded: two seconds for one question, the gate's
/// own bound for [`SidecarControl::verify_isolation`]. Dropping a call's future cancels it.
pub trait SidecarControl: Send + Sync {
    /// Asks what the sidecar is doing.
    fn activity<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Result<ActivityReport, ControlError>>;

    /// Asks it to refuse new work. With `if_idle_since` (of the report that led to this) only if it has been idle without
    /// a break; without it, because a person asked, in any case.
    fn quiesce<'a>(
        &'a self,
        target: &'a Target,
        if_idle_since: Option<String>,
    ) -> BoxFuture<'a, Result<Quiesced, ControlError>>;

    /// Gives it a set of keys. A set older than what it holds is a [`ControlError::Conflict`].
    fn push_anchor<'a>(
        &'a self,
        target: &'a Target,
        anchor: AnchorPush,
    ) -> BoxFuture<'a, Result<AnchorLoaded, ControlError>>;

    /// Dials the allowed and the forbidden paths until three rounds in a row agree, or the bound is reached.
    fn verify_isolation<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Result<Isolation, ControlError>>;

    /// Opens the gate of this pod.
    fn open<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Result<(), ControlError>>;
}
