//! Exact tables: every moment is told in seconds since the gate opened.

use cuddy_protocol::control::ActivityState::{Busy, Idle, Quiesced, Starting};

use proptest::prelude::*;

use super::*;

const T0: i64 = 1_800_000_000_000;

fn at(seconds: i64) -> Moment {
    Moment::from_millis(T0 + seconds * 1000)
}

fn policy(timeout: u64, grace: u64, max_busy: u64) -> Policy {
    Policy {
        timeout: Duration::from_secs(timeout),
        grace: Duration::from_secs(grace),
        max_busy: Duration::from_secs(max_busy),
        action: IdleAction::Stop,
    }
}

fn shipped() -> Policy {
    policy(900, 60, 86_400)
}

fn jobs(names: &[&str]) -> HostActivity {
    let job = |name: &&str| RunningJob {
        id: (*name).to_owned(),
        name: (*name).to_owned(),
        started_at: String::new(),
        pid: 1,
    };
    HostActivity { jobs: names.iter().map(job).collect(), terminal_idle_seconds: None }
}

fn lease(name: &str, until: i64, proof: Proof) -> HeldLease {
    HeldLease {
        id: name.to_owned(),
        name: name.to_owned(),
        holder: "i#s".to_owned(),
        until: at(until),
        proof,
    }
}

/// Opened at 0 with a host that answers and nothing that runs.
fn open(policy: Policy) -> IdleClock {
    let mut clock = IdleClock::new(policy, at(-5));
    clock.open(at(0));
    clock.host_seen(at(0), HostActivity::default());
    clock
}

/// Checks state, idle since, stop time and eligibility at some seconds.
type Row = (i64, ActivityState, Option<i64>, Option<i64>, bool);

#[track_caller]
fn check(clock: &mut IdleClock, rows: &[Row]) {
    for (now, state, idle_since, stop_at, eligible) in rows {
        let verdict = clock.verdict(at(*now));
        let got = (*now, verdict.state, verdict.idle_since, verdict.stop_at, verdict.eligible);
        assert_eq!(got, (*now, *state, idle_since.map(at), stop_at.map(at), *eligible), "{verdict:?}");
        assert!(!verdict.explanation.is_empty());
    }
}

#[test]
fn the_shipped_default_stops_after_fifteen_minutes_and_the_grace() {
    check(
        &mut open(shipped()),
        &[
            (0, Starting, None, Some(960), false),
            (59, Starting, None, Some(960), false),
            (60, Idle, Some(0), Some(960), false),
            (959, Idle, Some(0), Some(960), false),
            (960, Idle, Some(0), Some(960), true),
        ],
    );
}

#[test]
fn a_call_is_evidence_while_it_runs_and_from_its_end() {
    let mut clock = open(shipped());
    clock.call_began(at(100), Proof::Bearer);
    check(&mut clock, &[(100, Busy, None, None, false), (5000, Busy, None, None, false)]);
    assert_eq!(clock.verdict(at(5000)).blockers, ["call"]);
    clock.call_ended(at(5000), Proof::Bearer);
    check(
        &mut clock,
        &[
            (5000, Busy, None, Some(5960), false),
            (5059, Busy, None, Some(5960), false),
            (5060, Idle, Some(5000), Some(5960), false),
            (5960, Idle, Some(5000), Some(5960), true),
        ],
    );
}

#[test]
fn a_short_timeout_shortens_the_settling() {
    check(
        &mut open(policy(10, 0, 86_400)),
        &[(9, Starting, None, Some(10), false), (10, Idle, Some(0), Some(10), true)],
    );
}

#[test]
fn before_the_gate_opens_nothing_counts() {
    let mut clock = IdleClock::new(shipped(), at(0));
    clock.host_seen(at(0), HostActivity::default());
    check(&mut clock, &[(0, Starting, None, None, false), (1_000_000, Starting, None, None, false)]);
    assert!(!clock.verdict(at(1_000_000)).max_busy_reached);
    clock.open(at(1_000_000));
    check(&mut clock, &[(1_000_960, Idle, Some(1_000_000), Some(1_000_960), true)]);
}

#[test]
fn a_host_that_never_answers_is_no_idle_host_but_bounded() {
    let mut clock = IdleClock::new(shipped(), at(0));
    clock.open(at(0));
    check(
        &mut clock,
        &[
            (5000, Starting, None, None, false),
            (86_400, Starting, None, Some(86_460), false),
            (86_460, Starting, None, Some(86_460), true),
        ],
    );
    assert!(clock.verdict(at(86_400)).max_busy_reached);
}

#[test]
fn a_job_keeps_it_up_until_the_bound() {
    let mut clock = open(policy(900, 60, 3600));
    clock.call_began(at(10), Proof::Bearer);
    clock.call_ended(at(20), Proof::Bearer);
    clock.host_seen(at(25), jobs(&["suite"]));
    check(&mut clock, &[(25, Busy, None, None, false), (3619, Busy, None, None, false)]);
    assert_eq!(clock.verdict(at(3619)).blockers, ["job suite"]);
    // 3,600 s after the last call by a bearer, then the grace.
    check(&mut clock, &[(3620, Busy, None, Some(3680), false), (3680, Busy, None, Some(3680), true)]);
    assert!(clock.verdict(at(3620)).max_busy_reached);
    // Somebody calls: the bound starts anew.
    clock.call_began(at(3681), Proof::Bearer);
    clock.call_ended(at(3681), Proof::Bearer);
    check(&mut clock, &[(3682, Busy, None, None, false)]);
    assert!(!clock.verdict(at(3682)).max_busy_reached);
}

#[test]
fn a_job_that_ended_starts_the_time() {
    let mut clock = open(shipped());
    clock.host_seen(at(100), jobs(&["a", "b"]));
    clock.host_seen(at(200), HostActivity::default());
    check(&mut clock, &[(259, Busy, None, Some(1160), false), (260, Idle, Some(200), Some(1160), false)]);
}

#[test]
fn terminals_cannot_trickle_past_the_bound() {
    let mut clock = open(policy(900, 60, 3600));
    let typed = HostActivity { jobs: Vec::new(), terminal_idle_seconds: Some(0) };
    for now in (600..=6000).step_by(600) {
        clock.host_seen(at(now), typed.clone());
        let verdict = clock.verdict(at(now));
        let expected = (now + 960).min(3660);
        assert_eq!(verdict.stop_at, Some(at(expected)), "at {now}");
        assert_eq!(verdict.max_busy_reached, now >= 3600, "at {now}");
        assert_eq!(verdict.eligible, now >= 3660, "at {now}");
    }
}

#[test]
fn a_terminal_that_nobody_uses_does_not_move_the_idle_time() {
    let mut clock = open(shipped());
    let mut since = None;
    // The age comes in whole seconds, the host is asked at odd moments: one and the same input at 100.
    for tenth in (1_700..9_000_i64).step_by(53) {
        let now = Moment::from_millis(T0 + tenth * 100);
        let age = u64::try_from((tenth - 1_000) / 10).unwrap();
        clock.host_seen(now, HostActivity { jobs: Vec::new(), terminal_idle_seconds: Some(age) });
        let verdict = clock.verdict(now);
        assert_eq!(verdict.state, Idle);
        assert_eq!(*since.get_or_insert(verdict.idle_since), verdict.idle_since, "at {tenth}");
    }
}

#[test]
fn a_sidecar_that_is_started_again_gives_no_more_time_to_what_runs_inside() {
    let mut clock = IdleClock::new(policy(900, 60, 3600), at(3000));
    clock.open_again(at(3000), at(0));
    clock.host_seen(at(3000), HostActivity::default());
    // Without anything that runs the timeout counts from the new start.
    check(
        &mut clock,
        &[(3059, Starting, None, Some(3660), false), (3060, Idle, Some(3000), Some(3660), false)],
    );
    clock.host_seen(at(3100), jobs(&["loop"]));
    check(&mut clock, &[(3599, Busy, None, None, false), (3660, Busy, None, Some(3660), true)]);
}

#[test]
fn a_lease_with_a_bearer_behind_it_holds_beyond_the_bound() {
    let mut clock = open(policy(900, 60, 3600));
    clock.leases_are(at(0), vec![lease("build", 20_000, Proof::Bearer)]);
    check(&mut clock, &[(19_999, Busy, None, None, false)]);
    assert_eq!(clock.verdict(at(19_999)).blockers, ["lease build"]);
    // It ended by itself at 20,000, long before anybody looked.
    check(&mut clock, &[(20_500, Idle, Some(20_000), Some(20_960), false)]);
    assert!(clock.verdict(at(20_500)).leases.is_empty());
}

#[test]
fn a_lease_of_the_environment_itself_is_bounded() {
    let mut clock = open(policy(900, 60, 3600));
    clock.leases_are(at(0), vec![lease("loop", 1_000_000, Proof::None)]);
    check(&mut clock, &[(3599, Busy, None, None, false), (3660, Busy, None, Some(3660), true)]);
}

#[test]
fn a_lease_given_back_starts_the_time() {
    let mut clock = open(shipped());
    clock.leases_are(at(0), vec![lease("build", 20_000, Proof::Bearer)]);
    clock.leases_are(at(500), Vec::new());
    check(&mut clock, &[(560, Idle, Some(500), Some(1460), false)]);
}

#[test]
fn a_timeout_longer_than_the_bound_is_granted() {
    let mut clock = open(policy(7200, 0, 600));
    clock.host_seen(at(1), jobs(&["x"]));
    check(&mut clock, &[(700, Busy, None, None, false), (7200, Busy, None, Some(7200), true)]);
}

#[test]
fn without_the_action_it_never_stops() {
    let mut clock = open(Policy { action: IdleAction::None, ..shipped() });
    check(&mut clock, &[(100_000, Idle, Some(0), None, false)]);
}

#[test]
fn a_fence_stands_thirty_seconds() {
    let mut clock = open(shipped());
    let since = clock.verdict(at(970)).idle_since.unwrap().to_string();
    let fence = clock.quiesce(at(970), Some(&since), || "f1".to_owned()).unwrap();
    assert_eq!(fence, StandingFence { id: "f1".to_owned(), until: at(1000) });
    check(&mut clock, &[(999, Quiesced, Some(0), Some(960), true)]);
    assert!(clock.fence(at(999)).is_some());
    assert!(clock.fence(at(1000)).is_none());
    check(&mut clock, &[(1000, Idle, Some(0), Some(960), true)]);
    // An answer that got lost is asked for again: the same fence, renewed.
    clock.quiesce(at(1001), Some(&since), || "f2".to_owned()).unwrap();
    let again = clock.quiesce(at(1002), Some(&since), || "f3".to_owned()).unwrap();
    assert_eq!(again, StandingFence { id: "f2".to_owned(), until: at(1032) });
}

#[test]
fn work_since_the_report_takes_the_stop_back() {
    let mut clock = open(shipped());
    let since = clock.verdict(at(960)).idle_since.unwrap().to_string();
    clock.call_began(at(961), Proof::Bearer);
    assert_eq!(clock.quiesce(at(962), Some(&since), String::new).unwrap_err(), ["call"]);
    clock.call_ended(at(963), Proof::Bearer);
    let blockers = clock.quiesce(at(964), Some(&since), String::new).unwrap_err();
    assert_eq!(blockers, [format!("call at {}", at(963))]);
    // Idle again by now, but not since then.
    assert!(clock.quiesce(at(5000), Some(&since), String::new).is_err());
    assert!(clock.fence(at(5000)).is_none());
}

#[test]
fn a_persons_stop_is_not_hindered() {
    let mut clock = open(shipped());
    clock.call_began(at(1), Proof::Bearer);
    clock.host_seen(at(1), jobs(&["suite"]));
    assert!(clock.quiesce(at(2), None, || "f".to_owned()).is_ok());
    check(&mut clock, &[(3, Quiesced, None, None, false)]);
}

#[test]
fn what_the_host_makes_up_is_bounded_and_harmless() {
    let mut clock = open(shipped());
    let name = format!("\u{1b}[2J{}", "x".repeat(5000));
    clock.host_seen(at(1), jobs(&vec![name.as_str(); 5000]));
    let verdict = clock.verdict(at(1));
    assert_eq!(verdict.jobs.len(), MAX_JOBS);
    assert_eq!(verdict.blockers.len(), 21);
    assert!(verdict.blockers.iter().all(|b| b.chars().count() < 120 && !b.contains('\u{1b}')));
    let old = HostActivity { jobs: Vec::new(), terminal_idle_seconds: Some(u64::MAX) };
    clock.host_seen(at(2), old);
    assert!(clock.verdict(at(100)).idle_since.is_some());
}

#[test]
fn explanations_answer_why() {
    let mut clock = IdleClock::new(shipped(), at(0));
    let mut said = vec![clock.verdict(at(0)).explanation];
    clock.open(at(0));
    said.push(clock.verdict(at(0)).explanation);
    clock.host_seen(at(0), HostActivity::default());
    said.push(clock.verdict(at(10)).explanation);
    clock.call_began(at(20), Proof::Bearer);
    said.push(clock.verdict(at(20)).explanation);
    clock.call_ended(at(30), Proof::Bearer);
    said.push(clock.verdict(at(31)).explanation);
    said.push(clock.verdict(at(990)).explanation);
    clock.host_seen(at(1000), jobs(&["suite"]));
    said.push(clock.verdict(at(1000)).explanation);
    said.push(clock.verdict(at(90_000)).explanation);
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn durations_are_gos() {
    let table =
        [(0, "0s"), (45, "45s"), (300, "5m0s"), (900, "15m0s"), (3600, "1h0m0s"), (90_061, "25h1m1s")];
    for (seconds, text) in table {
        assert_eq!(go_duration(Duration::from_secs(seconds)), text);
    }
}

/// What may happen, in any order.
#[derive(Debug, Clone)]
enum Event {
    Began(bool),
    Ended(bool),
    Host { jobs: usize, terminal: Option<u64> },
    Lease { seconds: i64, proved: bool },
    NoLeases,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        any::<bool>().prop_map(Event::Began),
        any::<bool>().prop_map(Event::Ended),
        (0_usize..3, proptest::option::of(0_u64..5000))
            .prop_map(|(jobs, terminal)| Event::Host { jobs, terminal }),
        (1_i64..5000, any::<bool>()).prop_map(|(seconds, proved)| Event::Lease { seconds, proved }),
        Just(Event::NoLeases),
    ]
}

fn proof(proved: bool) -> Proof {
    if proved { Proof::Bearer } else { Proof::None }
}

proptest! {
    /// Whatever happens: proved work is never in danger, and without any the environment stops in bounded time.
    #[test]
    fn proved_work_is_safe_and_the_rest_is_bounded(
        events in proptest::collection::vec((0_i64..900, event()), 0..60),
        timeout in 10_u64..2000,
        grace in 0_u64..300,
        max_busy in 60_u64..5000,
    ) {
        let mut clock = open(policy(timeout, grace, max_busy));
        let (mut now, mut calls, mut proved_until) = (0, 0_u32, 0);
        for (pause, event) in events {
            now += pause;
            let before = clock.verdict(at(now));
            let proved_now = calls > 0 || now < proved_until;
            let last = if proved_now { now } else { proved_until };
            prop_assert!(!(proved_now && before.eligible), "proved work goes on: {before:?}");
            if now < last + (timeout + grace) as i64 {
                prop_assert!(!before.eligible, "too early: {before:?}");
            }
            if now >= last + (max_busy.max(timeout) + grace) as i64 {
                prop_assert!(before.eligible, "beyond the bound: {before:?}");
            }
            match event {
                Event::Began(proved) => {
                    clock.call_began(at(now), proof(proved));
                    if proved {
                        calls += 1;
                    }
                }
                Event::Ended(proved) => {
                    if proved && calls == 0 {
                        continue;
                    }
                    clock.call_ended(at(now), proof(proved));
                    if proved {
                        calls -= 1;
                        proved_until = proved_until.max(now);
                    }
                }
                Event::Host { jobs: count, terminal } => {
                    let names = vec!["j"; count];
                    clock.host_seen(at(now), HostActivity { terminal_idle_seconds: terminal, ..jobs(&names) });
                }
                Event::Lease { seconds, proved } => {
                    // The one lease is replaced: a proved one that goes early ends now.
                    proved_until = proved_until.min(now.max(last));
                    clock.leases_are(at(now), vec![lease("l", now + seconds, proof(proved))]);
                    if proved {
                        proved_until = now + seconds;
                    }
                }
                Event::NoLeases => {
                    proved_until = proved_until.min(now.max(last));
                    clock.leases_are(at(now), Vec::new());
                }
            }
        }
    }
}
