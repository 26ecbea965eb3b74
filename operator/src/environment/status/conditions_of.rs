//! The nine conditions. Pure.

use cuddy_crds::conditions::{self, Status, Verdict, reasons, types};
use cuddy_crds::labels;
use cuddy_crds::v1alpha1::{AuthMode, EnvironmentStatus, StopReason, Verify};
use cuddy_protocol::control::{ActivityReport, ActivityState};

use super::Applied;
use crate::environment::lifecycle::{BY_MODE, Proof, Report};
use crate::environment::outcome::Blocker;
use crate::environment::pod_state::PodState;

/// Returns all of them, in the order in which they are written.
pub(super) fn all(before: &EnvironmentStatus, applied: &Applied) -> Vec<Verdict> {
    vec![
        ready(applied),
        anchored(applied),
        isolated(applied),
        bound(applied),
        runtime(applied),
        idle(applied),
        suspended(before, applied),
        up_to_date(applied),
        degraded(applied),
    ]
}

fn verdict(
    type_: &'static str,
    status: impl Into<Status>,
    reason: &'static str,
    message: impl Into<String>,
) -> Verdict {
    Verdict { type_, status: status.into(), reason, message: message.into() }
}

fn blocked(type_: &'static str, blocker: &Blocker) -> Verdict {
    verdict(type_, false, blocker.reason, blocker.message.clone())
}

/// What the sidecar of the pod that runs said last.
fn report(applied: &Applied) -> Option<&ActivityReport> {
    match (&applied.facts.pod, &applied.facts.report) {
        (PodState::Started(_), Report::Fresh(report) | Report::NotDue(report)) => Some(report),
        _ => None,
    }
}

fn ready(applied: &Applied) -> Verdict {
    let type_ = types::READY;
    let facts = &applied.facts;
    if applied.is_stopped() {
        return verdict(type_, false, reasons::STOPPED, how_to_start(applied));
    }
    let remark = applied.plan.as_ref().and_then(|plan| plan.remark.clone()).unwrap_or_default();
    if facts.pod.is_ready() {
        return match trouble(applied) {
            Some(blocker) => {
                let message = format!("{}: {}", blocker.reason, blocker.message);
                verdict(type_, true, reasons::DEGRADED, message)
            }
            None if remark.is_empty() => verdict(type_, true, reasons::RUNNING, "it answers its clients"),
            None => verdict(type_, true, reasons::RUNNING, format!("it answers its clients; {remark}")),
        };
    }
    match hindrance(applied) {
        Some(blocker) => blocked(type_, &blocker),
        None => verdict(type_, false, reasons::STARTING, starting(applied)),
    }
}

/// What keeps the environment from coming up, the first of it.
fn hindrance(applied: &Applied) -> Option<Blocker> {
    let facts = &applied.facts;
    let unproved = |proof: &Proof| *proof != Proof::Verified && facts.verify == Verify::Gate;
    facts
        .invalid
        .clone()
        .or_else(|| applied.keys.clone().filter(|_| facts.keys_block))
        .or_else(|| applied.blocked.first_child().cloned())
        .or_else(|| facts.foreign_policy.clone().filter(|_| facts.foreign_policy_blocks()))
        .or_else(|| applied.blocked.pod.clone())
        .or_else(|| pod_problem(applied))
        .or_else(|| facts.proof.as_ref().filter(|proof| unproved(proof)).map(|proof| leak(applied, *proof)))
}

/// What is wrong with an environment that serves.
fn trouble(applied: &Applied) -> Option<Blocker> {
    let facts = &applied.facts;
    let silent = matches!(facts.report, Report::Silent { .. })
        .then(|| Blocker::new(reasons::SIDECAR_SILENT, silence(applied)));
    let unproved = facts.proof.filter(|proof| *proof != Proof::Verified && facts.verify == Verify::Gate);
    facts
        .invalid
        .clone()
        .or_else(|| applied.keys.clone())
        .or_else(|| applied.blocked.first_child().cloned())
        .or_else(|| facts.foreign_policy.clone())
        .or_else(|| unproved.map(|proof| leak(applied, proof)))
        .or(silent)
}

fn starting(applied: &Applied) -> &'static str {
    match &applied.facts.pod {
        PodState::Absent if applied.facts.replace_in.is_some() => {
            "the last pod failed; the next one waits a moment"
        }
        PodState::Absent => "the pod is about to be made",
        PodState::Terminating { .. } => "the old pod has to end first",
        PodState::Ended { .. } => "the pod failed and is made anew",
        PodState::Pending { .. } if !is_bound(applied) => "the pod waits for its volume",
        PodState::Pending { .. } => "the pod comes up",
        PodState::Started(_) if applied.facts.gate_is_open => "the user's container comes up",
        PodState::Started(_) => "the sidecar runs, its gate is still closed",
    }
}

fn how_to_start(applied: &Applied) -> String {
    match &applied.facts.stop {
        Some(stop) if stop.by == BY_MODE => {
            "spec.mode: Stopped holds it; `cuddy env start` sets it to Running".to_owned()
        }
        Some(_) => "the next call of a tool starts it, and so does `cuddy env start`".to_owned(),
        None => String::new(),
    }
}

fn anchored(applied: &Applied) -> Verdict {
    let type_ = types::ANCHORED;
    if let Some(problem) = applied.keys.as_ref().or(applied.blocked.anchor.as_ref()) {
        return blocked(type_, problem);
    }
    let mode = applied.plan.as_ref().map(|plan| plan.settings.auth_mode);
    match report(applied) {
        Some(report) if Some(report.anchor_generation) == applied.facts.generation => {
            let message = match (report.keys.len(), mode) {
                (_, Some(AuthMode::None)) => "auth.mode: None asks for no key".to_owned(),
                (1, _) => "the sidecar trusts 1 key".to_owned(),
                (count, _) => format!("the sidecar trusts {count} keys"),
            };
            verdict(type_, true, reasons::KEYS_LOADED, message)
        }
        Some(_) if applied.facts.generation.is_some() => {
            let why = applied.silence.as_deref().unwrap_or("the sidecar has not loaded the keys yet");
            verdict(type_, false, reasons::PUSHING, why)
        }
        _ => verdict(type_, Status::Unknown, reasons::PUSHING, "there is no sidecar to ask"),
    }
}

fn isolated(applied: &Applied) -> Verdict {
    let type_ = types::NETWORK_ISOLATED;
    let facts = &applied.facts;
    if let Some(problem) = applied.blocked.policy.as_ref().or(facts.foreign_policy.as_ref()) {
        return blocked(type_, problem);
    }
    match (facts.proof, facts.verify) {
        (Some(Proof::Verified), _) => verdict(
            type_,
            true,
            reasons::VERIFIED,
            "the forbidden paths were seen to be closed, in both directions",
        ),
        (Some(proof), Verify::Report) if facts.gate_is_open => {
            let found = leak(applied, proof);
            let message = format!("started without proof, as network.verify: Report asks: {}", found.message);
            verdict(type_, false, reasons::REPORTED, message)
        }
        (Some(Proof::NotEnforced), _) => blocked(type_, &leak(applied, Proof::NotEnforced)),
        (Some(Proof::CanaryUnreachable), _) => {
            let found = leak(applied, Proof::CanaryUnreachable);
            verdict(type_, Status::Unknown, found.reason, found.message)
        }
        (None, _) => {
            let message =
                if matches!(facts.pod, PodState::Started(_)) { "not seen yet" } else { "nothing runs" };
            verdict(type_, Status::Unknown, reasons::VERIFYING, message)
        }
    }
}

fn leak(applied: &Applied, proof: Proof) -> Blocker {
    match proof {
        Proof::Verified | Proof::NotEnforced => Blocker::new(
            reasons::NOT_ENFORCED,
            "a path that the NetworkPolicy forbids is open: the cluster's network does not enforce policies; network.verify: Report starts it nevertheless",
        ),
        Proof::CanaryUnreachable => {
            let why = applied.silence.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
            Blocker::new(
                reasons::CANARY_UNREACHABLE,
                format!(
                    "a path that the NetworkPolicy allows is closed, so that nothing is proved; it is tried again{why}"
                ),
            )
        }
    }
}

fn is_bound(applied: &Applied) -> bool {
    applied.claim.as_ref().and_then(|claim| claim.status.as_ref()?.phase.as_deref()) == Some("Bound")
}

fn bound(applied: &Applied) -> Verdict {
    let type_ = types::WORKSPACE_BOUND;
    if let Some(problem) = &applied.blocked.workspace {
        return blocked(type_, problem);
    }
    let phase = applied.claim.as_ref().and_then(|claim| claim.status.as_ref()?.phase.as_deref());
    match phase {
        Some("Bound") => verdict(type_, true, reasons::BOUND, ""),
        Some("Lost") => verdict(type_, false, reasons::REFUSED, "the volume of the claim is gone"),
        _ if applied.claim.is_none() => verdict(type_, false, reasons::PENDING, "there is no claim yet"),
        _ => verdict(type_, false, reasons::PENDING, "the claim waits for its volume"),
    }
}

fn runtime(applied: &Applied) -> Verdict {
    let type_ = types::RUNTIME_AVAILABLE;
    if let Some(problem) = applied.blocked.pod.clone().or_else(|| pod_problem(applied)) {
        return blocked(type_, &problem);
    }
    if applied.facts.pod.is_ready() {
        return verdict(type_, true, reasons::AVAILABLE, "");
    }
    if applied.is_stopped() {
        return verdict(type_, false, reasons::STOPPED, "");
    }
    verdict(type_, false, reasons::STARTING, starting(applied))
}

fn pod_problem(applied: &Applied) -> Option<Blocker> {
    if let PodState::Terminating { overdue: true, .. } = applied.facts.pod {
        let pod = applied.pod.as_ref();
        let name = pod.and_then(|pod| pod.metadata.name.clone()).unwrap_or_default();
        let namespace = pod.and_then(|pod| pod.metadata.namespace.clone()).unwrap_or_default();
        let node = pod.and_then(|pod| pod.spec.as_ref()?.node_name.clone()).unwrap_or_default();
        return Some(Blocker::new(
            reasons::NODE_LOST,
            format!(
                "the pod should have ended, but node {node} does not say so; once you know that the node is off: kubectl delete pod {name} -n {namespace} --force --grace-period=0"
            ),
        ));
    }
    applied.facts.pod.problem().map(|problem| Blocker::new(problem.reason, problem.message.clone()))
}

fn idle(applied: &Applied) -> Verdict {
    let type_ = types::IDLE;
    let state = report(applied).filter(|_| applied.facts.gate_is_open).map(|report| report.state);
    match state {
        Some(ActivityState::Busy) => verdict(type_, false, reasons::BUSY, ""),
        Some(ActivityState::Idle | ActivityState::Quiesced) => verdict(type_, true, reasons::IDLE, ""),
        Some(ActivityState::Starting) => {
            verdict(type_, Status::Unknown, reasons::UNKNOWN, "it has not been up for long enough to say")
        }
        None => verdict(type_, Status::Unknown, reasons::UNKNOWN, "there is no report"),
    }
}

fn suspended(before: &EnvironmentStatus, applied: &Applied) -> Verdict {
    let type_ = types::SUSPENDED;
    let facts = &applied.facts;
    if applied.is_stopped() {
        let reason = facts.stop.as_ref().map_or(StopReason::UserStopped, |stop| stop.reason);
        let why = match (reason, &facts.stop) {
            (StopReason::UserStopped, Some(stop)) => format!("asked for by {}", stop.by),
            (StopReason::UserStopped, None) => format!("asked for by {BY_MODE}"),
            (StopReason::IdleStopped, _) => "nobody worked".to_owned(),
            (StopReason::MaxBusy, _) => {
                "no call or lease of anybody with a key for idle.maxBusySeconds".to_owned()
            }
        };
        let pod = if facts.pod == PodState::Absent { "the pod is gone" } else { "the pod ends" };
        return verdict(type_, true, reason.as_str(), format!("{why}; {pod}, the workspace is kept"));
    }
    if let PodState::Terminating { .. } = facts.pod {
        let message = "it starts as soon as the old pod is gone";
        return verdict(type_, false, reasons::WAITING_FOR_TERMINATION, message);
    }
    if !facts.pod.is_ready() && was_suspended(before) {
        return verdict(type_, false, reasons::WAKING, "it starts again");
    }
    verdict(type_, false, reasons::RUNNING, "")
}

fn was_suspended(before: &EnvironmentStatus) -> bool {
    conditions::find(&before.conditions, types::SUSPENDED).is_some_and(|condition| {
        condition.status == "True"
            || condition.reason == reasons::WAKING
            || condition.reason == reasons::WAITING_FOR_TERMINATION
    })
}

fn up_to_date(applied: &Applied) -> Verdict {
    let type_ = types::UP_TO_DATE;
    let made_from = applied
        .pod
        .as_ref()
        .filter(|_| applied.facts.pod.is_alive())
        .and_then(|pod| pod.metadata.annotations.as_ref()?.get(labels::POD_FINGERPRINT));
    match (made_from, &applied.fingerprint) {
        (Some(was), Some(now)) if was != now => verdict(
            type_,
            false,
            reasons::RESTART_PENDING,
            "the pod was made from an older spec, class or version; the next start takes the changes up, and so does `cuddy env restart`",
        ),
        (Some(_), None) => {
            verdict(type_, Status::Unknown, reasons::RESTART_PENDING, "the spec cannot be met")
        }
        _ => verdict(type_, true, reasons::CURRENT, ""),
    }
}

fn degraded(applied: &Applied) -> Verdict {
    let type_ = types::DEGRADED;
    if applied.facts.gate_is_open && matches!(applied.facts.report, Report::Silent { .. }) {
        return verdict(type_, true, reasons::SIDECAR_SILENT, silence(applied));
    }
    verdict(type_, false, reasons::NONE, "")
}

fn silence(applied: &Applied) -> String {
    let why = applied.silence.as_deref().unwrap_or("no answer");
    format!("{why}; it counts as busy, for idle.maxBusySeconds at most")
}
