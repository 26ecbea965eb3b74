//! The types and reasons of an Environment's conditions (D40), and how a condition changes.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Condition types, in the order in which they are written.
pub mod types {
    /// The Environment answers its clients.
    pub const READY: &str = "Ready";
    /// The sidecar trusts exactly the keys that the Environment and its class name.
    pub const ANCHORED: &str = "Anchored";
    /// The NetworkPolicy is in place and was seen to work.
    pub const NETWORK_ISOLATED: &str = "NetworkIsolated";
    /// The volume of the workspace is there.
    pub const WORKSPACE_BOUND: &str = "WorkspaceBound";
    /// The user's container runs.
    pub const RUNTIME_AVAILABLE: &str = "RuntimeAvailable";
    /// Nobody works in the Environment.
    pub const IDLE: &str = "Idle";
    /// The pod is stopped on purpose; the workspace is kept.
    pub const SUSPENDED: &str = "Suspended";
    /// The pod was made from what the spec says now.
    pub const UP_TO_DATE: &str = "UpToDate";
    /// Something works less well than it should.
    pub const DEGRADED: &str = "Degraded";

    /// All of them.
    pub const ALL: [&str; 9] = [
        READY,
        ANCHORED,
        NETWORK_ISOLATED,
        WORKSPACE_BOUND,
        RUNTIME_AVAILABLE,
        IDLE,
        SUSPENDED,
        UP_TO_DATE,
        DEGRADED,
    ];
}

/// Reasons. Where something stands in the way of Ready, the reason of Ready is the reason of that condition.
pub mod reasons {
    /// Ready, Suspended: it runs.
    pub const RUNNING: &str = "Running";
    /// Ready: it comes up.
    pub const STARTING: &str = "Starting";
    /// Ready: stopped on purpose.
    pub const STOPPED: &str = "Stopped";
    /// Ready: it runs, and something is wrong.
    pub const DEGRADED: &str = "Degraded";
    /// Ready: the spec cannot be met; the message begins with the field's path or with [`CLASS_NOT_FOUND`].
    pub const INVALID: &str = "Invalid";
    /// Beginning of the message under [`INVALID`]: there is no such class, or no default class.
    pub const CLASS_NOT_FOUND: &str = "ClassNotFound";

    /// Anchored: the sidecar has loaded the keys.
    pub const KEYS_LOADED: &str = "KeysLoaded";
    /// Anchored: no key is named, so that nobody could get in.
    pub const NO_KEYS: &str = "NoKeys";
    /// Anchored: a ConfigMap's entry is not an Ed25519 public key.
    pub const BAD_KEY: &str = "BadKey";
    /// Anchored: a ConfigMap or its entry is missing, or it does not carry the label.
    pub const KEY_SOURCE_MISSING: &str = "KeySourceMissing";
    /// Anchored: the sidecar has not loaded the keys yet.
    pub const PUSHING: &str = "Pushing";

    /// NetworkIsolated: the forbidden paths were seen to be closed.
    pub const VERIFIED: &str = "Verified";
    /// NetworkIsolated: not seen yet.
    pub const VERIFYING: &str = "Verifying";
    /// NetworkIsolated: a forbidden path was open.
    pub const NOT_ENFORCED: &str = "NotEnforced";
    /// NetworkIsolated: an allowed path was closed, so that nothing is proved.
    pub const CANARY_UNREACHABLE: &str = "CanaryUnreachable";
    /// NetworkIsolated: a policy that is not ours opens the pod.
    pub const FOREIGN_POLICY: &str = "ForeignPolicy";
    /// NetworkIsolated: `network.verify: Report` let it start without proof.
    pub const REPORTED: &str = "Reported";

    /// WorkspaceBound: the volume is there.
    pub const BOUND: &str = "Bound";
    /// WorkspaceBound: the volume is not there yet.
    pub const PENDING: &str = "Pending";
    /// WorkspaceBound: the API server refuses the claim.
    pub const REFUSED: &str = "Refused";
    /// An object of the child's name belongs to somebody else.
    pub const NAME_CONFLICT: &str = "NameConflict";
    /// WorkspaceBound: the volume is full.
    pub const FULL: &str = "Full";

    /// RuntimeAvailable: the container runs.
    pub const AVAILABLE: &str = "Available";
    /// RuntimeAvailable: an image cannot be had.
    pub const IMAGE_ERROR: &str = "ImageError";
    /// RuntimeAvailable: a container ends again and again.
    pub const CRASH_LOOP: &str = "CrashLoop";
    /// RuntimeAvailable: no node takes the pod.
    pub const UNSCHEDULABLE: &str = "Unschedulable";
    /// RuntimeAvailable: the namespace's quota is used up.
    pub const QUOTA_EXCEEDED: &str = "QuotaExceeded";
    /// RuntimeAvailable: the API server refuses the pod.
    pub const ADMISSION_REFUSED: &str = "AdmissionRefused";
    /// RuntimeAvailable: the sidecar found one of its ports taken.
    pub const PORT_TAKEN: &str = "PortTaken";
    /// RuntimeAvailable: the node does not answer.
    pub const NODE_LOST: &str = "NodeLost";

    /// Idle: somebody works.
    pub const BUSY: &str = "Busy";
    /// Idle: nobody works.
    pub const IDLE: &str = "Idle";
    /// Idle: there is no report.
    pub const UNKNOWN: &str = "Unknown";

    /// Suspended: a person stopped it.
    pub const USER_STOPPED: &str = "UserStopped";
    /// Suspended: nobody worked.
    pub const IDLE_STOPPED: &str = "IdleStopped";
    /// Suspended: `idle.maxBusySeconds` passed without a call by anybody.
    pub const MAX_BUSY: &str = "MaxBusy";
    /// Suspended: it starts again.
    pub const WAKING: &str = "Waking";
    /// Suspended: the old pod is not gone yet.
    pub const WAITING_FOR_TERMINATION: &str = "WaitingForTermination";

    /// UpToDate: nothing to do.
    pub const CURRENT: &str = "Current";
    /// UpToDate: the next start takes the changes up.
    pub const RESTART_PENDING: &str = "RestartPending";

    /// Degraded: nothing is wrong.
    pub const NONE: &str = "None";
    /// Degraded: the sidecar gives no valid report.
    pub const SIDECAR_SILENT: &str = "SidecarSilent";
    /// Degraded: audit lines were lost.
    pub const AUDIT_LOST: &str = "AuditLost";
}

/// The longest message of a condition that is written, in bytes. Words of others are cut to it.
pub const MAX_MESSAGE: usize = 1024;

/// A condition as it is decided, before its times are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// One of [`types`].
    pub type_: &'static str,
    /// True, False or Unknown.
    pub status: Status,
    /// One of [`reasons`].
    pub reason: &'static str,
    /// For people; may be empty.
    pub message: String,
}

/// The three values of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It is so.
    True,
    /// It is not so.
    False,
    /// Not known.
    Unknown,
}

impl Status {
    /// Returns the value as the API spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for Status {
    fn from(value: bool) -> Self {
        if value { Self::True } else { Self::False }
    }
}

/// Turns verdicts into conditions. A condition keeps its transition time unless its status changes. Conditions in
/// `before` that no verdict is about are dropped: the operator writes all of them each time.
pub fn merge(
    before: &[Condition],
    verdicts: &[Verdict],
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    verdicts
        .iter()
        .map(|verdict| {
            let since = find(before, verdict.type_)
                .filter(|old| old.status == verdict.status.as_str())
                .map_or(Time(now), |old| old.last_transition_time.clone());
            Condition {
                type_: verdict.type_.to_owned(),
                status: verdict.status.as_str().to_owned(),
                reason: verdict.reason.to_owned(),
                message: clean(&verdict.message),
                last_transition_time: since,
                observed_generation: generation,
            }
        })
        .collect()
}

/// Returns the condition of a type.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Makes others' words fit for a status, an Event or a terminal: control characters become spaces, and the text is cut
/// to [`MAX_MESSAGE`] bytes at a character's edge.
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(MAX_MESSAGE));
    for character in text.trim().chars() {
        let shown = if is_safe(character) { character } else { ' ' };
        if out.len() + shown.len_utf8() > MAX_MESSAGE - '…'.len_utf8() {
            out.push('…');
            break;
        }
        out.push(shown);
    }
    out
}

/// Control characters move a terminal's cursor; the bidirectional ones reorder what is read.
fn is_safe(character: char) -> bool {
    !character.is_control()
        && !matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(status: Status, reason: &'static str) -> Verdict {
        Verdict { type_: types::READY, status, reason, message: String::new() }
    }

    #[test]
    fn transition_time_is_kept_unless_the_status_flips() {
        let t0: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let t1: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let first = merge(&[], &[verdict(Status::False, reasons::STARTING)], Some(1), t0);
        let other_reason = merge(&first, &[verdict(Status::False, reasons::IMAGE_ERROR)], Some(2), t1);
        assert_eq!(other_reason[0].last_transition_time, Time(t0));
        assert_eq!(other_reason[0].observed_generation, Some(2));
        let flipped = merge(&other_reason, &[verdict(Status::True, reasons::RUNNING)], Some(2), t1);
        assert_eq!(flipped[0].last_transition_time, Time(t1));
    }

    #[test]
    fn words_of_others_are_made_harmless() {
        assert_eq!(clean("a\u{1b}[31mred\nline\u{202e}x "), "a [31mred line x");
        let long = clean(&"é".repeat(5000));
        assert!(long.len() <= MAX_MESSAGE && long.ends_with('…'), "{}", long.len());
        assert_eq!(clean(&"x".repeat(1000)).len(), 1000);
    }
}
