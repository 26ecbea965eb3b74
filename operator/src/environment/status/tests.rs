//! The status from facts, and what of it is written.

use std::time::Duration;

use cuddy_crds::v1alpha1::{Mode, StopReason, StopRecord, Verify};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::*;
use crate::environment::lifecycle::{BY_MODE, BY_OPERATOR, Children, Policy, Proof};
use crate::environment::pod_state::{Problem, Started};

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "literals are made where they are passed")]
fn environment(status: Value) -> Environment {
    serde_json::from_value(json!({
        "apiVersion": "cuddy.dev/v1alpha1", "kind": "Environment",
        "metadata": {"name": "dev", "namespace": "acme", "uid": "u-1", "generation": 3},
        "spec": {}, "status": status,
    }))
    .unwrap()
}

fn facts(pod: PodState) -> Facts {
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
        pod,
        children: Children::Ensured(Policy::Closed),
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

fn applied(facts: Facts) -> Applied {
    let alive = facts.pod != PodState::Absent;
    let pod = json!({
        "metadata": {"name": "dev", "namespace": "acme", "uid": "p-1", "annotations": {"cuddy.dev/fingerprint": "f"}},
        "spec": {"nodeName": "n1", "containers": [{"name": "runtime", "image": "debian"}]},
        "status": {"podIP": "10.0.0.1"},
    });
    Applied {
        facts,
        blocked: Blocked::default(),
        keys: None,
        plan: None,
        pod: alive.then(|| Arc::new(serde_json::from_value(pod).unwrap())),
        fingerprint: Some("f".into()),
        claim: Some(Arc::new(serde_json::from_value(json!({"status": {"phase": "Bound"}})).unwrap())),
        silence: None,
        ca: "CA".into(),
    }
}

fn up(ready: bool) -> PodState {
    PodState::Started(Started { uid: "p-1".into(), ip: [10, 0, 0, 1].into(), ready, problem: None })
}

fn pending(problem: Option<(&'static str, &str)>) -> PodState {
    let problem = problem.map(|(reason, message)| Problem { reason, message: message.to_owned() });
    PodState::Pending { uid: "p-1".into(), problem }
}

fn report(state: &str, gate: &str) -> Report {
    Report::Fresh(
        serde_json::from_value(json!({
            "bootId": "b", "podUid": "p-1", "state": state, "anchorGeneration": 7, "gate": gate, "keys": ["k1"],
            "lastActivity": [{"source": "call", "at": "2025-12-31T23:59:00Z"}],
            "stopAt": "2026-01-01T00:15:00Z",
        }))
        .unwrap(),
    )
}

fn serving() -> Facts {
    Facts {
        report: report("Busy", "Open"),
        gate_is_open: true,
        proof: Some(Proof::Verified),
        children: Children::Ensured(Policy::Open),
        ..facts(up(true))
    }
}

fn stopped(by: &str, pod: PodState) -> Facts {
    let stop = StopRecord { at: Time(now()), reason: StopReason::IdleStopped, by: by.to_owned() };
    let reason = if by == BY_MODE { StopReason::UserStopped } else { stop.reason };
    let mode = if by == BY_MODE { Mode::Stopped } else { Mode::Running };
    Facts { mode, stop: Some(StopRecord { reason, ..stop }), ..facts(pod) }
}

fn told(status: &EnvironmentStatus, type_: &str) -> (String, String) {
    let condition = conditions::find(&status.conditions, type_).unwrap();
    (condition.status.clone(), condition.reason.clone())
}

#[test]
fn everything_is_told_at_the_first_visit() {
    let status = compute(&environment(json!({})), &applied(facts(pending(None))), now());
    insta::assert_yaml_snapshot!(status);
}

#[test]
fn an_environment_that_serves() {
    insta::assert_yaml_snapshot!(compute(&environment(json!({})), &applied(serving()), now()));
}

#[test]
fn an_environment_that_is_idle_stopped() {
    let facts = stopped(BY_OPERATOR, PodState::Absent);
    insta::assert_yaml_snapshot!(compute(&environment(json!({})), &applied(facts), now()));
}

#[test]
fn ready_names_what_stands_in_the_way() {
    let blocker = |reason| Some(Blocker::new(reason, "words"));
    let base = || facts(PodState::Absent);
    let unproved =
        |proof| Facts { proof: Some(proof), report: report("Starting", "Closed"), ..facts(up(false)) };
    let blocked = |pod| Applied { blocked: Blocked { pod, ..Blocked::default() }, ..applied(base()) };
    let child =
        |workspace| Applied { blocked: Blocked { workspace, ..Blocked::default() }, ..applied(base()) };
    let keys = Applied {
        keys: blocker(reasons::KEY_SOURCE_MISSING),
        ..applied(Facts { keys_block: true, ..base() })
    };
    for (applied, expected, reason) in vec![
        (applied(facts(pending(None))), "False", reasons::STARTING),
        (applied(Facts { invalid: blocker(reasons::INVALID), ..base() }), "False", reasons::INVALID),
        (keys, "False", reasons::KEY_SOURCE_MISSING),
        (blocked(blocker(reasons::QUOTA_EXCEEDED)), "False", reasons::QUOTA_EXCEEDED),
        (child(blocker(reasons::NAME_CONFLICT)), "False", reasons::NAME_CONFLICT),
        (applied(facts(pending(Some((reasons::IMAGE_ERROR, "x"))))), "False", reasons::IMAGE_ERROR),
        (
            applied(Facts { foreign_policy: blocker(reasons::FOREIGN_POLICY), ..base() }),
            "False",
            reasons::FOREIGN_POLICY,
        ),
        (applied(unproved(Proof::NotEnforced)), "False", reasons::NOT_ENFORCED),
        (applied(unproved(Proof::CanaryUnreachable)), "False", reasons::CANARY_UNREACHABLE),
        (
            applied(facts(PodState::Terminating { uid: "p".into(), overdue: true })),
            "False",
            reasons::NODE_LOST,
        ),
        (
            applied(facts(PodState::Terminating { uid: "p".into(), overdue: false })),
            "False",
            reasons::STARTING,
        ),
        (applied(serving()), "True", reasons::RUNNING),
        (applied(Facts { invalid: blocker(reasons::INVALID), ..serving() }), "True", reasons::DEGRADED),
        (applied(Facts { report: Report::Silent { seconds: 9 }, ..serving() }), "True", reasons::DEGRADED),
        (applied(stopped(BY_OPERATOR, PodState::Absent)), "False", reasons::STOPPED),
        (applied(stopped(BY_MODE, up(true))), "False", reasons::STOPPED),
    ] {
        let status = compute(&environment(json!({})), &applied, now());
        assert_eq!(told(&status, types::READY), (expected.to_owned(), reason.to_owned()));
    }
}

#[test]
fn conditions_tell_each_its_own() {
    let message = |applied: &Applied, type_: &str| {
        let status = compute(&environment(json!({})), applied, now());
        conditions::find(&status.conditions, type_).unwrap().message.clone()
    };
    let lost = applied(facts(PodState::Terminating { uid: "p".into(), overdue: true }));
    let command = "kubectl delete pod dev -n acme --force --grace-period=0";
    assert!(message(&lost, types::RUNTIME_AVAILABLE).contains(command));
    let newer = Applied { fingerprint: Some("g".into()), ..applied(serving()) };
    let status = compute(&environment(json!({})), &newer, now());
    assert_eq!(told(&status, types::UP_TO_DATE), ("False".into(), "RestartPending".into()));
    assert_eq!(told(&status, types::READY), ("True".into(), "Running".into()), "an upgrade restarts nothing");
    let reported = Facts { verify: Verify::Report, proof: Some(Proof::NotEnforced), ..serving() };
    let status = compute(&environment(json!({})), &applied(reported), now());
    assert_eq!(told(&status, types::NETWORK_ISOLATED), ("False".into(), "Reported".into()));
    assert_eq!(told(&status, types::READY), ("True".into(), "Running".into()));
    let pushing = Facts { generation: Some(8), ..serving() };
    let status = compute(&environment(json!({})), &applied(pushing), now());
    assert_eq!(told(&status, types::ANCHORED), ("False".into(), "Pushing".into()));
    let silent = Facts { report: Report::Silent { seconds: 3 }, ..serving() };
    let status = compute(&environment(json!({})), &applied(silent), now());
    assert_eq!(told(&status, types::DEGRADED), ("True".into(), "SidecarSilent".into()));
    assert_eq!(told(&status, types::IDLE), ("Unknown".into(), "Unknown".into()), "no answer is never idle");
}

#[test]
fn waking_and_waiting_are_told() {
    let suspended = json!({"conditions": [{"type": "Suspended", "status": "True", "reason": "IdleStopped",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    let of =
        |facts| told(&compute(&environment(suspended.clone()), &applied(facts), now()), types::SUSPENDED).1;
    assert_eq!(of(facts(pending(None))), reasons::WAKING);
    assert_eq!(
        of(facts(PodState::Terminating { uid: "p".into(), overdue: false })),
        reasons::WAITING_FOR_TERMINATION
    );
    assert_eq!(of(serving()), reasons::RUNNING);
    assert_eq!(of(stopped(BY_OPERATOR, PodState::Absent)), reasons::IDLE_STOPPED);
}

#[test]
fn stops_are_remembered_ten_deep() {
    let mut object = environment(json!({}));
    for second in 0..12 {
        let at = Time(Timestamp::from_second(1_767_225_600 + second).unwrap());
        let stop = StopRecord { at, reason: StopReason::IdleStopped, by: BY_OPERATOR.into() };
        let facts = Facts { stop: Some(stop.clone()), ..facts(PodState::Absent) };
        let status = compute(&object, &applied(facts), now());
        assert_eq!(status.stop.as_ref().unwrap().current(), Some(stop));
        object.status = Some(status);
    }
    let history = &object.status.as_ref().unwrap().stop.as_ref().unwrap().history;
    assert_eq!((history.len(), history[0].at.0.as_second()), (10, 1_767_225_611));
    let woken = compute(&object, &applied(serving()), now()).stop.unwrap();
    assert_eq!((woken.current(), woken.history.len()), (None, 10));
}

#[test]
fn ids_count_as_seen_once_told() {
    let mut object = environment(json!({}));
    object.metadata.annotations =
        Some([(labels::WAKE.to_owned(), "w".repeat(300)), (labels::STOP.to_owned(), "s".to_owned())].into());
    let status = compute(&object, &applied(serving()), now());
    assert_eq!(status.last_wake, Some("w".repeat(256)));
    assert_eq!(status.stop.unwrap().last_request.as_deref(), Some("s"));
    object.metadata.annotations = None;
    object.status = Some(EnvironmentStatus { last_wake: Some("w".into()), ..EnvironmentStatus::default() });
    let removed = compute(&object, &applied(serving()), now());
    assert_eq!(removed.last_wake.as_deref(), Some("w"), "its removal means nothing");
}

#[tokio::test(start_paused = true)]
async fn only_real_changes_are_written() {
    let start = Instant::now();
    let seconds = |n| start + Duration::from_secs(n);
    let of = |facts| compute(&environment(json!({})), &applied(facts), now());
    let (coming, on, serves) = (of(facts(pending(None))), of(facts(up(false))), of(serving()));
    assert_eq!(worth(&serves, &serves, None, start), Worth::Nothing);
    assert_eq!(worth(&EnvironmentStatus::default(), &coming, None, start), Worth::Now, "the first visit");
    assert_eq!(worth(&coming, &on, Some(start), seconds(2)), Worth::Later(Duration::from_secs(28)));
    assert_eq!(worth(&coming, &on, Some(start), seconds(30)), Worth::Now);
    assert_eq!(worth(&coming, &on, None, seconds(1)), Worth::Now, "nobody knows when it was last told");
    assert_eq!(worth(&coming, &serves, Some(start), seconds(1)), Worth::Now, "ready");
    let failing = of(facts(pending(Some((reasons::IMAGE_ERROR, "no such image")))));
    assert_eq!(worth(&coming, &failing, Some(start), seconds(1)), Worth::Now, "trouble");
    let mut seen = on.clone();
    seen.last_wake = Some("w".into());
    assert_eq!(worth(&coming, &seen, Some(start), seconds(1)), Worth::Now, "an id that was acted upon");
}

#[test]
fn a_full_status_is_small() {
    let long = || Some(Blocker::new(reasons::ADMISSION_REFUSED, "x".repeat(5000)));
    let facts = Facts { invalid: long(), ..facts(pending(Some((reasons::IMAGE_ERROR, &"y".repeat(5000))))) };
    let mut object = environment(json!({}));
    object.status = Some(EnvironmentStatus::default());
    let blocked = Blocked { workspace: long(), ..Blocked::default() };
    let status = compute(&object, &Applied { blocked, ..applied(facts) }, now());
    let size = serde_json::to_vec(&status).unwrap().len();
    assert!(size < 8 * 1024, "{size}");
}

#[test]
fn events_are_told_once() {
    let of = |facts| compute(&environment(json!({})), &applied(facts), now()).conditions;
    let failing = |message| of(facts(pending(Some((reasons::IMAGE_ERROR, message)))));
    let reasons_of = |before: &[_], after: &[_]| -> Vec<_> {
        notices::of(before, after).into_iter().map(|notice| notice.reason).collect()
    };
    let (coming, serves) = (of(facts(pending(None))), of(serving()));
    assert_eq!(reasons_of(&[], &coming), Vec::<&str>::new());
    assert_eq!(reasons_of(&coming, &failing("a")), [reasons::IMAGE_ERROR]);
    assert_eq!(reasons_of(&failing("a"), &failing("b")), Vec::<&str>::new());
    assert_eq!(reasons_of(&failing("a"), &serves), [reasons::RUNNING]);
    assert_eq!(reasons_of(&serves, &of(stopped(BY_OPERATOR, PodState::Absent))), [reasons::IDLE_STOPPED]);
}
