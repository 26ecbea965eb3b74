//! Everything that the life cycle is decided by.

use std::time::Duration;

use cuddy_crds::v1alpha1::{Mode, StopRecord, Verify};
use cuddy_protocol::control::ActivityReport;

use super::super::outcome::Blocker;
use super::super::pod_state::PodState;

/// `by` of a stop for `spec.mode: Stopped`.
pub const BY_MODE: &str = "spec.mode";
/// `by` of a stop that the annotation asked for.
pub const BY_ANNOTATION: &str = cuddy_crds::labels::STOP;
/// `by` of a stop because nobody works.
pub const BY_OPERATOR: &str = "operator";

/// What is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// The user's word.
    pub mode: Mode,
    /// The stop that holds.
    pub stop: Option<StopRecord>,
    /// Whether that stop was recorded just now and is not in the API yet.
    pub stop_is_fresh: bool,
    /// Whether `cuddy.dev/wake` holds an id that was not seen before.
    pub wake_asked: bool,
    /// Whether `cuddy.dev/stop` holds an id that was not seen before.
    pub stop_asked: bool,

    /// Why the spec cannot be met. A pod that runs already goes on under what it was made from.
    pub invalid: Option<Blocker>,
    /// Whether there is no key that would let anybody in.
    pub keys_block: bool,
    /// A policy of somebody else that opens the pod.
    pub foreign_policy: Option<Blocker>,
    /// What happens where isolation is not seen.
    pub verify: Verify,
    /// Whether it is stopped when it is idle.
    pub stops_when_idle: bool,
    /// For how long a sidecar may be silent.
    pub max_busy_seconds: u64,

    /// The pod.
    pub pod: PodState,
    /// The other children.
    pub children: Children,
    /// Whether the API server has just refused the pod.
    pub pod_refused: bool,
    /// How long the next pod waits because earlier ones failed.
    pub replace_in: Option<Duration>,

    /// What the sidecar says.
    pub report: Report,
    /// When it is asked again.
    pub next_report_in: Duration,
    /// The generation of the keys in the anchor, once it is known.
    pub generation: Option<u64>,
    /// Whether giving it the keys has just failed.
    pub push_failed: bool,
    /// What was seen of this pod's isolation. For a closed gate that was not proved it is forgotten after a while.
    pub proof: Option<Proof>,
    /// Whether the isolation of an open gate has to be seen again: the policy was changed by somebody.
    pub reprove: bool,
    /// Whether this pod's gate is known to be open.
    pub gate_is_open: bool,
    /// Whether opening it has just failed.
    pub open_failed: bool,
    /// What the sidecar answered to the request to refuse new work.
    pub quiesce: Option<Fenced>,
}

impl Facts {
    /// Says whether a policy of somebody else hinders a start.
    pub fn foreign_policy_blocks(&self) -> bool {
        self.foreign_policy.is_some() && self.verify == Verify::Gate
    }
}

/// The children apart from the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Children {
    /// Not looked at in this reconcile.
    Unknown,
    /// As they should be, the policy in this form.
    Ensured(Policy),
    /// One of them cannot be had.
    Blocked,
}

/// The form of the NetworkPolicy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// With the canary's path, while the gate is closed.
    Closed,
    /// Without it.
    Open,
    /// The one it has.
    Keep,
}

/// What the sidecar says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// It should be asked.
    Due,
    /// It was asked not long ago and said this.
    NotDue(ActivityReport),
    /// It was asked in this reconcile.
    Fresh(ActivityReport),
    /// It was asked and does not answer, for so many seconds.
    Silent {
        /// Since it last answered, or since it was first asked.
        seconds: u64,
    },
}

/// What was seen of a pod's isolation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// The forbidden paths are closed and the allowed ones open.
    Verified,
    /// A forbidden path is open.
    NotEnforced,
    /// An allowed path is closed, so that nothing is proved.
    CanaryUnreachable,
}

/// What the sidecar answered to the request to refuse new work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fenced {
    /// It refuses new work for a while.
    Yes,
    /// Somebody works, or there was no answer.
    No,
}
