//! Tables of the life cycle.

use std::time::Duration;

use cuddy_crds::v1alpha1::{Mode, StopReason, StopRecord, Verify};
use cuddy_protocol::control::{ActivityReport, ActivityState, Gate};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;
use crate::environment::outcome::Blocker;
use crate::environment::pod_state::{Problem, Started};

fn facts() -> Facts {
    Facts {
        mode: Mode::Running,
        stop: None,
        stop_is_fresh: false,
        wake_asked: false,
        stop_asked: false,
        invalid: None,
        keys_block: false,
        foreign_policy: None,
        verify: Verify::Gate,
        stops_when_idle: true,
        max_busy_seconds: 86_400,
        pod: PodState::Absent,
        children: Children::Unknown,
        pod_refused: false,
        replace_in: None,
        report: Report::Due,
        next_report_in: Duration::from_mins(1),
        generation: Some(7),
        push_failed: false,
        proof: None,
        reprove: false,
        gate_is_open: false,
        open_failed: false,
        quiesce: None,
    }
}

fn up(ready: bool) -> PodState {
    PodState::Started(Started { uid: "p".into(), ip: [10, 0, 0, 1].into(), ready, problem: None })
}

fn report(state: ActivityState, gate: Gate, stop_in: Option<u64>) -> ActivityReport {
    let idle = matches!(state, ActivityState::Idle | ActivityState::Quiesced);
    ActivityReport {
        boot_id: "b".into(),
        pod_uid: "p".into(),
        state,
        idle_since: idle.then(|| "since".to_owned()),
        idle_seconds: idle.then_some(960),
        last_activity: vec![],
        jobs: 0,
        leases: vec![],
        stop_at: None,
        stop_in_seconds: stop_in,
        max_busy_reached: false,
        anchor_generation: 7,
        keys: vec![],
        gate,
    }
}

fn idle() -> ActivityReport {
    report(ActivityState::Idle, Gate::Open, Some(0))
}

#[expect(clippy::unnecessary_wraps, reason = "the field of the facts is an option")]
fn stop(reason: StopReason, by: &str) -> Option<StopRecord> {
    Some(StopRecord { at: Time("2026-01-01T00:00:00Z".parse().unwrap()), reason, by: by.to_owned() })
}

/// An environment that serves, its children in order.
fn serving(report: Report) -> Facts {
    Facts {
        pod: up(true),
        children: Children::Ensured(Policy::Open),
        gate_is_open: true,
        proof: Some(Proof::Verified),
        report,
        ..facts()
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the field of the facts is an option")]
fn blocker() -> Option<Blocker> {
    Some(Blocker::new("Invalid", "spec.image: no image"))
}

const STAY: Step = Step::Stay(Wait::ForChange);

fn table(cases: Vec<(&str, Facts, Step)>) {
    for (name, facts, expected) in cases {
        assert_eq!(next(&facts), expected, "{name}");
    }
}

#[test]
fn a_pod_is_created_only_behind_its_closed_policy() {
    let closed = Facts { children: Children::Ensured(Policy::Closed), ..facts() };
    table(vec![
        ("children first", facts(), Step::Ensure(Policy::Closed)),
        (
            "an open policy will not do",
            Facts { children: Children::Ensured(Policy::Open), ..facts() },
            Step::Ensure(Policy::Closed),
        ),
        (
            "nor one that was left as it is",
            Facts { children: Children::Ensured(Policy::Keep), ..facts() },
            Step::Ensure(Policy::Closed),
        ),
        ("then the pod", closed.clone(), Step::CreatePod),
        (
            "children that cannot be had",
            Facts { children: Children::Blocked, ..facts() },
            Step::Stay(Wait::BackOff),
        ),
        ("a pod that is refused", Facts { pod_refused: true, ..closed.clone() }, Step::Stay(Wait::BackOff)),
        ("no key", Facts { keys_block: true, ..closed.clone() }, STAY),
        ("a foreign policy", Facts { foreign_policy: blocker(), ..closed.clone() }, STAY),
        (
            "a foreign policy that is only told",
            Facts { foreign_policy: blocker(), verify: Verify::Report, ..closed.clone() },
            Step::CreatePod,
        ),
        ("an impossible spec", Facts { invalid: blocker(), ..facts() }, STAY),
        (
            "after failures",
            Facts { replace_in: Some(Duration::from_secs(8)), ..closed.clone() },
            Step::Stay(Wait::For(Duration::from_secs(8))),
        ),
        ("when the wait is over", Facts { replace_in: Some(Duration::ZERO), ..closed }, Step::CreatePod),
    ]);
}

#[test]
fn an_old_pod_is_waited_for_and_a_failed_one_replaced() {
    let problem = Problem { reason: "CrashLoop", message: "Evicted".into() };
    let ended = PodState::Ended { uid: "p".into(), problem };
    let ensured = Children::Ensured(Policy::Closed);
    let ending = PodState::Terminating { uid: "p".into(), overdue: true };
    table(vec![
        (
            "waking while the old pod ends",
            Facts { pod: ending.clone(), children: ensured, ..facts() },
            Step::Stay(Wait::For(ENDING)),
        ),
        (
            "failed",
            Facts { pod: ended.clone(), ..facts() },
            Step::DeletePod { uid: "p".into(), failed: true },
        ),
        ("failed, but nothing can take its place", Facts { pod: ended, invalid: blocker(), ..facts() }, STAY),
        (
            "not up yet",
            Facts { pod: PodState::Pending { uid: "p".into(), problem: None }, ..facts() },
            Step::Ensure(Policy::Closed),
        ),
        (
            "not up yet, all in order",
            Facts { pod: PodState::Pending { uid: "p".into(), problem: None }, children: ensured, ..facts() },
            STAY,
        ),
    ]);
}

#[test]
fn the_gate_opens_after_keys_policy_and_proof() {
    let closed = report(ActivityState::Starting, Gate::Closed, None);
    let base = Facts {
        pod: up(false),
        children: Children::Ensured(Policy::Closed),
        report: Report::Fresh(closed.clone()),
        ..facts()
    };
    let old_keys = Report::Fresh(ActivityReport { anchor_generation: 6, ..closed });
    table(vec![
        (
            "children are looked at",
            Facts { children: Children::Unknown, ..base.clone() },
            Step::Ensure(Policy::Keep),
        ),
        ("the sidecar is asked", Facts { report: Report::Due, ..base.clone() }, Step::FetchReport),
        ("keys first", Facts { report: old_keys.clone(), ..base.clone() }, Step::PushKeys),
        (
            "no keys, no gate",
            Facts { report: old_keys, push_failed: true, ..base.clone() },
            Step::Stay(Wait::For(RETRY)),
        ),
        (
            "the policy has to be the closed one",
            Facts { children: Children::Ensured(Policy::Keep), ..base.clone() },
            Step::Ensure(Policy::Closed),
        ),
        ("proof", base.clone(), Step::VerifyGate),
        (
            "proved: the policy first",
            Facts { proof: Some(Proof::Verified), ..base.clone() },
            Step::Ensure(Policy::Open),
        ),
        (
            "then the gate",
            Facts { proof: Some(Proof::Verified), children: Children::Ensured(Policy::Open), ..base.clone() },
            Step::Open,
        ),
        (
            "a gate that did not open",
            Facts {
                proof: Some(Proof::Verified),
                children: Children::Ensured(Policy::Open),
                open_failed: true,
                ..base.clone()
            },
            Step::Stay(Wait::For(RETRY)),
        ),
        (
            "an impossible spec",
            Facts { invalid: blocker(), proof: Some(Proof::Verified), ..base.clone() },
            STAY,
        ),
        (
            "a foreign policy",
            Facts { foreign_policy: blocker(), proof: Some(Proof::Verified), ..base.clone() },
            STAY,
        ),
        (
            "children that cannot be had",
            Facts { children: Children::Blocked, proof: Some(Proof::Verified), ..base.clone() },
            Step::Stay(Wait::BackOff),
        ),
    ]);
    for proof in [Proof::NotEnforced, Proof::CanaryUnreachable] {
        let unproved = Facts { proof: Some(proof), ..base.clone() };
        assert_eq!(next(&unproved), Step::Stay(Wait::For(REPROVE)), "{proof:?}");
        let reported =
            Facts { verify: Verify::Report, children: Children::Ensured(Policy::Open), ..unproved };
        assert_eq!(next(&reported), Step::Open, "{proof:?}, only reported");
    }
}

#[test]
fn an_idle_environment_is_fenced_recorded_and_only_then_deleted() {
    let fresh = || Report::Fresh(idle());
    let quiesce = || Step::Quiesce { if_idle_since: Some("since".to_owned()) };
    let record = Step::RecordStop { reason: StopReason::IdleStopped, by: BY_OPERATOR };
    let delete = Step::DeletePod { uid: "p".into(), failed: false };
    let recorded = |report| Facts { stop: stop(StopReason::IdleStopped, BY_OPERATOR), ..serving(report) };
    let busy = || Report::Fresh(report(ActivityState::Busy, Gate::Open, Some(840)));
    table(vec![
        ("fence", serving(fresh()), quiesce()),
        ("record", Facts { quiesce: Some(Fenced::Yes), ..serving(fresh()) }, record),
        (
            "somebody works",
            Facts { quiesce: Some(Fenced::No), ..serving(fresh()) },
            Step::Stay(Wait::For(AFTER_BLOCKED)),
        ),
        (
            "into the API before anything else",
            Facts { stop_is_fresh: true, quiesce: Some(Fenced::Yes), ..recorded(fresh()) },
            Step::Stay(Wait::For(Duration::ZERO)),
        ),
        ("asked again", recorded(Report::Due), Step::FetchReport),
        ("an old answer does not count", recorded(Report::NotDue(idle())), Step::FetchReport),
        ("fenced again", recorded(fresh()), quiesce()),
        ("deleted", Facts { quiesce: Some(Fenced::Yes), ..recorded(fresh()) }, delete),
        ("a call came in between", recorded(busy()), Step::ForgetStop),
        ("blocked", Facts { quiesce: Some(Fenced::No), ..recorded(fresh()) }, Step::ForgetStop),
        ("silent is not idle", recorded(Report::Silent { seconds: 5 }), Step::ForgetStop),
        ("gone", Facts { pod: PodState::Absent, ..recorded(Report::Due) }, STAY),
    ]);
}

#[test]
fn what_is_not_idle_long_enough_is_not_stopped() {
    let starting = report(ActivityState::Starting, Gate::Open, Some(0));
    for (name, report, stops) in [
        ("busy", report(ActivityState::Busy, Gate::Open, Some(0)), true),
        ("idle for a while", report(ActivityState::Idle, Gate::Open, Some(30)), true),
        ("idle, and nothing stops it", report(ActivityState::Idle, Gate::Open, None), true),
        ("without a time", ActivityReport { idle_since: None, ..idle() }, true),
        ("starting", starting, true),
        ("only told", idle(), false),
    ] {
        let facts = Facts { stops_when_idle: stops, ..serving(Report::Fresh(report)) };
        assert_eq!(next(&facts), Step::Stay(Wait::For(Duration::from_mins(1))), "{name}");
    }
    let old = serving(Report::NotDue(idle()));
    assert_eq!(next(&old), Step::Stay(Wait::For(Duration::from_mins(1))), "an old report");
}

#[test]
fn what_hostile_code_makes_up_is_bounded() {
    let over = ActivityReport { max_busy_reached: true, ..report(ActivityState::Busy, Gate::Open, Some(0)) };
    let warned = ActivityReport { stop_in_seconds: Some(30), ..over.clone() };
    let record = Step::RecordStop { reason: StopReason::MaxBusy, by: BY_OPERATOR };
    let recorded = |report| Facts { stop: stop(StopReason::MaxBusy, BY_OPERATOR), ..serving(report) };
    let told = Step::Quiesce { if_idle_since: None };
    table(vec![
        ("the bound", serving(Report::Fresh(over.clone())), record.clone()),
        ("grace first", serving(Report::Fresh(warned)), Step::Stay(Wait::For(Duration::from_mins(1)))),
        ("asked again", recorded(Report::Due), Step::FetchReport),
        ("still", recorded(Report::Fresh(over)), told.clone()),
        ("somebody called with a bearer", recorded(Report::Fresh(idle())), Step::ForgetStop),
        ("a silent one", recorded(Report::Silent { seconds: 90_000 }), told),
        ("silent for too long", serving(Report::Silent { seconds: 86_400 }), record),
        ("silent", serving(Report::Silent { seconds: 86_399 }), Step::Stay(Wait::For(SILENT))),
        ("silent at first", serving(Report::Silent { seconds: 2 }), Step::Stay(Wait::For(SILENT_AT_FIRST))),
        (
            "silent, and nothing stops it",
            Facts { stops_when_idle: false, ..serving(Report::Silent { seconds: 90_000 }) },
            Step::Stay(Wait::For(SILENT)),
        ),
    ]);
}

#[test]
fn a_person_stops_and_starts() {
    let running = || serving(Report::NotDue(report(ActivityState::Busy, Gate::Open, None)));
    let record = |by| Step::RecordStop { reason: StopReason::UserStopped, by };
    let by_mode = || stop(StopReason::UserStopped, BY_MODE);
    let by_annotation = || stop(StopReason::UserStopped, BY_ANNOTATION);
    let by_operator = || stop(StopReason::IdleStopped, BY_OPERATOR);
    let delete = Step::DeletePod { uid: "p".into(), failed: false };
    let tell = Step::Quiesce { if_idle_since: None };
    let absent = || Facts { children: Children::Ensured(Policy::Keep), ..facts() };
    table(vec![
        ("mode", Facts { mode: Mode::Stopped, ..running() }, record(BY_MODE)),
        ("mode, told", Facts { mode: Mode::Stopped, stop: by_mode(), ..running() }, tell.clone()),
        (
            "mode, whatever the sidecar says",
            Facts {
                mode: Mode::Stopped,
                stop: by_mode(),
                stop_is_fresh: true,
                quiesce: Some(Fenced::No),
                ..running()
            },
            delete.clone(),
        ),
        (
            "mode over an idle stop",
            Facts { mode: Mode::Stopped, stop: by_operator(), ..absent() },
            record(BY_MODE),
        ),
        (
            "a wake does nothing then",
            Facts { mode: Mode::Stopped, stop: by_mode(), wake_asked: true, ..absent() },
            STAY,
        ),
        ("mode Running again", Facts { stop: by_mode(), ..absent() }, Step::ForgetStop),
        ("asked to stop", Facts { stop_asked: true, ..running() }, record(BY_ANNOTATION)),
        ("told", Facts { stop: by_annotation(), stop_is_fresh: true, ..running() }, tell.clone()),
        (
            "deleted",
            Facts { stop: by_annotation(), stop_is_fresh: true, quiesce: Some(Fenced::Yes), ..running() },
            delete.clone(),
        ),
        ("asked to stop what is stopped", Facts { stop_asked: true, stop: by_operator(), ..absent() }, STAY),
        (
            "asked to stop what may still be called off",
            Facts { stop_asked: true, stop: by_operator(), ..running() },
            record(BY_ANNOTATION),
        ),
        (
            "wake after an idle stop",
            Facts { wake_asked: true, stop: by_operator(), ..absent() },
            Step::ForgetStop,
        ),
        (
            "wake after a person's stop",
            Facts { wake_asked: true, stop: by_annotation(), ..absent() },
            Step::ForgetStop,
        ),
        ("wake what runs", Facts { wake_asked: true, ..running() }, next(&running())),
        ("restart", Facts { wake_asked: true, stop_asked: true, ..running() }, tell),
        (
            "restart, told",
            Facts { wake_asked: true, stop_asked: true, quiesce: Some(Fenced::No), ..running() },
            delete,
        ),
        (
            "restart of what does not run",
            Facts { wake_asked: true, stop_asked: true, stop: by_operator(), ..absent() },
            Step::ForgetStop,
        ),
        (
            "a pod that is not up has nobody to tell",
            Facts {
                stop: by_annotation(),
                pod: PodState::Pending { uid: "q".into(), problem: None },
                ..facts()
            },
            Step::DeletePod { uid: "q".into(), failed: false },
        ),
        (
            "stopped, children looked after",
            Facts { stop: by_annotation(), ..facts() },
            Step::Ensure(Policy::Keep),
        ),
        ("stopped, at rest", Facts { stop: by_annotation(), ..absent() }, STAY),
    ]);
}

#[test]
fn a_running_environment_outlives_a_spec_that_became_impossible() {
    let base = |report| Facts {
        invalid: blocker(),
        children: Children::Unknown,
        generation: None,
        ..serving(report)
    };
    table(vec![
        ("asked", base(Report::Due), Step::FetchReport),
        (
            "served on",
            base(Report::Fresh(report(ActivityState::Busy, Gate::Open, None))),
            Step::Stay(Wait::For(Duration::from_mins(1))),
        ),
        ("and stopped", base(Report::Fresh(idle())), Step::Quiesce { if_idle_since: Some("since".into()) }),
    ]);
}

#[test]
fn a_changed_policy_is_proved_again() {
    let busy = || Report::NotDue(report(ActivityState::Busy, Gate::Open, None));
    let base = Facts { reprove: true, proof: None, ..serving(busy()) };
    table(vec![
        ("the canary's path", base.clone(), Step::Ensure(Policy::Closed)),
        ("proof", Facts { children: Children::Ensured(Policy::Closed), ..base.clone() }, Step::VerifyGate),
        (
            "and closed again",
            Facts {
                children: Children::Ensured(Policy::Closed),
                proof: Some(Proof::NotEnforced),
                ..base.clone()
            },
            Step::Ensure(Policy::Open),
        ),
        (
            "not while it cannot be had",
            Facts { children: Children::Blocked, ..base },
            Step::Stay(Wait::BackOff),
        ),
    ]);
}

/// No set of facts leads in circles: from each one the driver comes to rest within its bound, when each step has its usual
/// effect.
#[test]
fn every_way_comes_to_rest() {
    let reports = [
        Report::Due,
        Report::Fresh(idle()),
        Report::Fresh(report(ActivityState::Starting, Gate::Closed, None)),
        Report::Fresh(ActivityReport { anchor_generation: 1, ..idle() }),
        Report::Silent { seconds: 90_000 },
    ];
    let pods = [
        PodState::Absent,
        up(false),
        up(true),
        PodState::Pending { uid: "p".into(), problem: None },
        PodState::Terminating { uid: "p".into(), overdue: false },
    ];
    let stops = [
        None,
        stop(StopReason::IdleStopped, BY_OPERATOR),
        stop(StopReason::MaxBusy, BY_OPERATOR),
        stop(StopReason::UserStopped, BY_MODE),
    ];
    let bools = [false, true];
    let mut ways = 0;
    for report in &reports {
        for pod in &pods {
            for stop in &stops {
                for mode in [Mode::Running, Mode::Stopped] {
                    for bits in 0..32_u8 {
                        let bit = |n: u8| bools[usize::from(bits >> n & 1)];
                        let start = Facts {
                            mode,
                            stop: stop.clone(),
                            wake_asked: bit(0),
                            stop_asked: bit(1),
                            invalid: bit(2).then(|| Blocker::new("Invalid", "x")),
                            gate_is_open: bit(3),
                            reprove: bit(4),
                            report: report.clone(),
                            pod: pod.clone(),
                            ..facts()
                        };
                        walk(start);
                        ways += 1;
                    }
                }
            }
        }
    }
    assert_eq!(ways, 5 * 5 * 4 * 2 * 32);
}

fn walk(mut facts: Facts) {
    let start = facts.clone();
    for _ in 0..super::super::drive::MOST_STEPS {
        let gate = |facts: &mut Facts, gate| {
            if let Report::Fresh(report) | Report::NotDue(report) = &mut facts.report {
                report.gate = gate;
            }
        };
        match next(&facts) {
            Step::Stay(_) => return,
            Step::Ensure(policy) => facts.children = Children::Ensured(policy),
            Step::CreatePod => facts.pod = PodState::Pending { uid: "n".into(), problem: None },
            Step::FetchReport => facts.report = Report::Fresh(idle()),
            Step::PushKeys => {
                if let Report::Fresh(report) = &mut facts.report {
                    report.anchor_generation = 7;
                }
            }
            Step::VerifyGate => facts.proof = Some(Proof::Verified),
            Step::Open => {
                facts.gate_is_open = true;
                gate(&mut facts, Gate::Open);
            }
            Step::Quiesce { .. } => facts.quiesce = Some(Fenced::Yes),
            Step::RecordStop { reason, by } => {
                facts.stop = stop(reason, by);
                facts.stop_is_fresh = true;
                facts.stop_asked = false;
            }
            Step::ForgetStop => {
                facts.stop = None;
                facts.wake_asked = false;
                facts.stop_asked = false;
            }
            Step::DeletePod { uid, .. } => facts.pod = PodState::Terminating { uid, overdue: false },
        }
    }
    panic!("no rest from {start:#?}");
}
