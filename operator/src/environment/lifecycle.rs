//! What happens next, decided by one pure function from what is known. The driver does one step, learns something by it, and
//! asks again, until the answer is to stay.

mod facts;
#[cfg(test)]
mod tests;

use std::time::Duration;

use cuddy_crds::v1alpha1::{Mode, StopReason, Verify};
use cuddy_protocol::control::{ActivityReport, ActivityState, Gate};

pub use super::activity::pause;
pub use super::pod_state::{PodState, Problem, Started};
pub use facts::{BY_ANNOTATION, BY_MODE, BY_OPERATOR, Children, Facts, Fenced, Policy, Proof, Report};

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Make or mend the children, the policy in this form.
    Ensure(Policy),
    /// Create the pod.
    CreatePod,
    /// Ask the sidecar what it is doing.
    FetchReport,
    /// Give the sidecar the keys.
    PushKeys,
    /// See whether the policy is enforced.
    VerifyGate,
    /// Open the gate.
    Open,
    /// Ask the sidecar to refuse new work; with the time since when it is idle only if it has been so without a break.
    Quiesce {
        /// `idleSince` of the report.
        if_idle_since: Option<String>,
    },
    /// Write down that it is stopped.
    RecordStop {
        /// Why.
        reason: StopReason,
        /// By whom.
        by: &'static str,
    },
    /// The stop that holds is over, or off.
    ForgetStop,
    /// Delete the pod with this UID and no other.
    DeletePod {
        /// The UID.
        uid: String,
        /// Whether it has failed, so that the next one waits.
        failed: bool,
    },
    /// Nothing now.
    Stay(Wait),
}

/// Until when nothing happens, if nothing changes before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Until something changes.
    ForChange,
    /// For so long.
    For(Duration),
    /// As long as the back-off of this Environment says: somebody refused something.
    BackOff,
}

/// How often a sidecar that does not answer is asked.
const SILENT: Duration = Duration::from_secs(15);
/// The same while it comes up.
const SILENT_AT_FIRST: Duration = Duration::from_secs(1);
/// For how long a sidecar counts as coming up.
const AT_FIRST_SECONDS: u64 = 10;
/// How soon a gate that could not be proved is looked at again.
pub const REPROVE: Duration = Duration::from_secs(30);
/// How soon a sidecar is asked again that was about to stop and then was not.
const AFTER_BLOCKED: Duration = Duration::from_mins(1);
/// How soon a call that failed is tried again.
const RETRY: Duration = Duration::from_secs(2);
/// How often a pod that ends is looked at: nothing tells when it becomes overdue.
const ENDING: Duration = Duration::from_secs(30);

/// Decides what happens next.
pub fn next(facts: &Facts) -> Step {
    match intent(facts) {
        Intent::Do(step) => step,
        Intent::Run => running(facts),
        Intent::Stopped(reason) => stopped(facts, reason),
        Intent::Restart => end(facts).unwrap_or(Step::Stay(Wait::For(ENDING))),
    }
}

/// Says whether the Environment should be stopped, given everything known.
pub fn is_to_be_stopped(facts: &Facts) -> bool {
    matches!(intent(facts), Intent::Stopped(_) | Intent::Do(Step::RecordStop { .. }))
}

enum Intent {
    Run,
    Stopped(StopReason),
    /// Stop and start in one, asked for by both annotations at once.
    Restart,
    Do(Step),
}

/// The user's word in `spec.mode` comes first, then what was asked for by annotation, then the stop that holds.
fn intent(facts: &Facts) -> Intent {
    let stop = facts.stop.as_ref();
    if facts.mode == Mode::Stopped {
        return match stop {
            Some(stop) if stop.by == BY_MODE => Intent::Stopped(stop.reason),
            _ => Intent::Do(Step::RecordStop { reason: StopReason::UserStopped, by: BY_MODE }),
        };
    }
    match (facts.stop_asked, facts.wake_asked, stop) {
        (true, true, _) if facts.pod.is_alive() => Intent::Restart,
        (_, true, Some(_)) => Intent::Do(Step::ForgetStop),
        (_, true, None) | (false, false, None) => Intent::Run,
        (true, false, None) => {
            Intent::Do(Step::RecordStop { reason: StopReason::UserStopped, by: BY_ANNOTATION })
        }
        (false, false, Some(stop)) if stop.by == BY_MODE => Intent::Do(Step::ForgetStop),
        // A stop that may still be called off becomes one that a person asked for.
        (true, false, Some(stop)) if stop.reason != StopReason::UserStopped && facts.pod.is_alive() => {
            Intent::Do(Step::RecordStop { reason: StopReason::UserStopped, by: BY_ANNOTATION })
        }
        (_, false, Some(stop)) => Intent::Stopped(stop.reason),
    }
}

fn stopped(facts: &Facts, reason: StopReason) -> Step {
    let by_itself = reason != StopReason::UserStopped;
    if by_itself && facts.stop_is_fresh {
        // It has to be in the API before the pod goes: otherwise an operator that starts anew would start the pod too.
        return Step::Stay(Wait::For(Duration::ZERO));
    }
    if let (StopReason::IdleStopped, PodState::Started(_)) = (reason, &facts.pod) {
        return stop_while_idle(facts);
    }
    if let (StopReason::MaxBusy, PodState::Started(_)) = (reason, &facts.pod) {
        match &facts.report {
            Report::Due => return Step::FetchReport,
            Report::Fresh(report) if !report.max_busy_reached => return Step::ForgetStop,
            Report::Fresh(_) | Report::Silent { .. } | Report::NotDue(_) => {}
        }
    }
    if let Some(step) = end(facts) {
        return step;
    }
    match facts.pod {
        PodState::Terminating { .. } => Step::Stay(Wait::For(ENDING)),
        _ => ensure(facts, Policy::Keep).unwrap_or(Step::Stay(Wait::ForChange)),
    }
}

/// The stop was recorded, and is only carried out if the sidecar says again that nobody works, and holds still.
fn stop_while_idle(facts: &Facts) -> Step {
    match (&facts.report, facts.quiesce) {
        (Report::Due | Report::NotDue(_), None) => Step::FetchReport,
        (Report::Fresh(report), None) if may_stop(report) => {
            Step::Quiesce { if_idle_since: report.idle_since.clone() }
        }
        (_, Some(Fenced::Yes)) => delete(facts, false).unwrap_or(Step::Stay(Wait::ForChange)),
        _ => Step::ForgetStop,
    }
}

/// Ends a pod that is alive, after telling its sidecar, which may be out of reach.
fn end(facts: &Facts) -> Option<Step> {
    match &facts.pod {
        PodState::Started(_) if facts.quiesce.is_none() => Some(Step::Quiesce { if_idle_since: None }),
        pod if pod.is_alive() => delete(facts, false),
        _ => None,
    }
}

fn delete(facts: &Facts, failed: bool) -> Option<Step> {
    facts.pod.uid().map(|uid| Step::DeletePod { uid: uid.to_owned(), failed })
}

fn running(facts: &Facts) -> Step {
    match &facts.pod {
        PodState::Absent => start(facts),
        PodState::Terminating { .. } => ensure(facts, Policy::Keep).unwrap_or(Step::Stay(Wait::For(ENDING))),
        PodState::Ended { uid, .. } if facts.invalid.is_none() => {
            Step::DeletePod { uid: uid.clone(), failed: true }
        }
        PodState::Ended { .. } => Step::Stay(Wait::ForChange),
        PodState::Pending { .. } => {
            ensure(facts, Policy::Closed).unwrap_or_else(|| rest(facts, Wait::ForChange))
        }
        PodState::Started(_) => started(facts),
    }
}

fn start(facts: &Facts) -> Step {
    if facts.invalid.is_some() {
        return Step::Stay(Wait::ForChange);
    }
    if let Some(step) = ensure(facts, Policy::Closed) {
        return step;
    }
    if facts.children == Children::Blocked || facts.pod_refused {
        return Step::Stay(Wait::BackOff);
    }
    if facts.keys_block || facts.foreign_policy_blocks() {
        return Step::Stay(Wait::ForChange);
    }
    match facts.replace_in {
        Some(wait) if !wait.is_zero() => Step::Stay(Wait::For(wait)),
        _ => Step::CreatePod,
    }
}

fn started(facts: &Facts) -> Step {
    let before = if facts.gate_is_open { Policy::Open } else { Policy::Keep };
    if facts.children == Children::Unknown
        && let Some(step) = ensure(facts, before)
    {
        return step;
    }
    let report = match &facts.report {
        Report::Due => return Step::FetchReport,
        Report::Silent { seconds } => return silent(facts, *seconds),
        Report::NotDue(report) | Report::Fresh(report) => report,
    };
    let keys_are_old = facts.generation.is_some_and(|generation| generation != report.anchor_generation);
    if keys_are_old && !facts.push_failed {
        return Step::PushKeys;
    }
    match report.gate {
        Gate::Closed => open(facts, keys_are_old),
        Gate::Open => serve(facts, report),
    }
}

/// No answer means that nothing is known, never that nobody works; only the bound of `maxBusySeconds` holds.
fn silent(facts: &Facts, seconds: u64) -> Step {
    if facts.stops_when_idle && seconds >= facts.max_busy_seconds {
        return Step::RecordStop { reason: StopReason::MaxBusy, by: BY_OPERATOR };
    }
    let pause = if seconds < AT_FIRST_SECONDS { SILENT_AT_FIRST } else { SILENT };
    Step::Stay(Wait::For(pause))
}

/// The way to an open gate: keys, policy, proof, and only then.
fn open(facts: &Facts, keys_are_old: bool) -> Step {
    if facts.invalid.is_some() || facts.foreign_policy_blocks() {
        return Step::Stay(Wait::ForChange);
    }
    if keys_are_old {
        return Step::Stay(Wait::For(RETRY));
    }
    if facts.children == Children::Blocked {
        return Step::Stay(Wait::BackOff);
    }
    match facts.proof {
        None => ensure(facts, Policy::Closed).unwrap_or(Step::VerifyGate),
        Some(proof) if proof == Proof::Verified || facts.verify == Verify::Report => {
            let unopened = if facts.open_failed { Step::Stay(Wait::For(RETRY)) } else { Step::Open };
            ensure(facts, Policy::Open).unwrap_or(unopened)
        }
        Some(_) => Step::Stay(Wait::For(REPROVE)),
    }
}

/// The gate is open: keep the children right, and stop when nobody works.
fn serve(facts: &Facts, report: &ActivityReport) -> Step {
    if facts.reprove
        && facts.proof.is_none()
        && facts.invalid.is_none()
        && facts.children != Children::Blocked
    {
        return ensure(facts, Policy::Closed).unwrap_or(Step::VerifyGate);
    }
    if let Some(step) = ensure(facts, Policy::Open) {
        return step;
    }
    if facts.stops_when_idle && matches!(facts.report, Report::Fresh(_)) {
        if report.max_busy_reached && report.stop_in_seconds == Some(0) {
            return Step::RecordStop { reason: StopReason::MaxBusy, by: BY_OPERATOR };
        }
        match facts.quiesce {
            None if may_stop(report) => return Step::Quiesce { if_idle_since: report.idle_since.clone() },
            None => {}
            Some(Fenced::Yes) => {
                return Step::RecordStop { reason: StopReason::IdleStopped, by: BY_OPERATOR };
            }
            Some(Fenced::No) => return rest(facts, Wait::For(AFTER_BLOCKED)),
        }
    }
    rest(facts, Wait::For(facts.next_report_in))
}

/// Idle for long enough, by the sidecar's own clock. A fence of ours that still stands counts as idle.
fn may_stop(report: &ActivityReport) -> bool {
    matches!(report.state, ActivityState::Idle | ActivityState::Quiesced)
        && report.stop_in_seconds == Some(0)
        && report.idle_since.is_some()
}

fn rest(facts: &Facts, wait: Wait) -> Step {
    Step::Stay(if facts.children == Children::Blocked { Wait::BackOff } else { wait })
}

/// Asks for the children in a form, unless that was done or cannot be done.
fn ensure(facts: &Facts, policy: Policy) -> Option<Step> {
    let done = match facts.children {
        Children::Blocked => true,
        Children::Unknown => false,
        Children::Ensured(form) => policy == Policy::Keep || form == policy,
    };
    (!done && facts.invalid.is_none()).then_some(Step::Ensure(policy))
}
