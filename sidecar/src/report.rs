//! What the sidecar says of itself: to the operator as a report, to callers as the command `idle`. Both come from one
//! verdict of the idle clock, so they agree.

use cuddy_commands::idle::{IdleActivity, IdleOutput};
use cuddy_protocol::control::{
    ActivityReport, ActivitySource, AnchorLoaded, Gate as GateState, LeaseSummary, SourceActivity,
};
use cuddy_protocol::lease::Lease;

use crate::clock::Moment;
use crate::idle::{Policy, Verdict, go_duration};
use crate::text;

/// The most leases in a report, so that it stays within its 64 KiB whatever their names are.
const MAX_LEASES: usize = 32;
/// The most characters of a holder there.
const MAX_HOLDER: usize = 200;

/// What a report tells beside the verdict.
#[derive(Debug)]
pub struct Facts<'a> {
    /// Changes with each start of the sidecar.
    pub boot_id: &'a str,
    /// The pod.
    pub pod_uid: &'a str,
    /// The keys in force.
    pub anchor: AnchorLoaded,
    /// Whether the gate is open.
    pub gate_open: bool,
}

/// Returns the report to the operator.
pub fn activity(now: Moment, verdict: &Verdict, facts: Facts<'_>) -> ActivityReport {
    let lease = |lease: &crate::idle::HeldLease| LeaseSummary {
        id: lease.id.clone(),
        name: lease.name.clone(),
        holder: text::one_line(&lease.holder, MAX_HOLDER),
        until: lease.until.to_string(),
    };
    ActivityReport {
        boot_id: facts.boot_id.to_owned(),
        pod_uid: facts.pod_uid.to_owned(),
        state: verdict.state,
        idle_since: verdict.idle_since.map(|at| at.to_string()),
        idle_seconds: verdict.idle_since.map(|at| now.since(at).as_secs()),
        last_activity: verdict
            .last
            .iter()
            .map(|(source, at)| SourceActivity { source: *source, at: at.to_string() })
            .collect(),
        jobs: u32::try_from(verdict.jobs.len()).unwrap_or(u32::MAX),
        leases: verdict.leases.iter().take(MAX_LEASES).map(lease).collect(),
        stop_at: verdict.stop_at.map(|at| at.to_string()),
        // Rounded up: 0 says that it may be stopped now.
        stop_in_seconds: verdict.stop_at.map(|at| at.since(now).as_millis().div_ceil(1000) as u64),
        max_busy_reached: verdict.max_busy_reached,
        anchor_generation: facts.anchor.generation,
        keys: facts.anchor.keys,
        gate: if facts.gate_open { GateState::Open } else { GateState::Closed },
    }
}

/// Returns the answer of the command `idle`.
pub fn idle(policy: &Policy, verdict: &Verdict, leases: Vec<Lease>) -> IdleOutput {
    let last = |source| verdict.last.get(&source).map(Moment::to_string);
    IdleOutput {
        timeout: go_duration(policy.timeout),
        working_hours: String::new(),
        timezone: "UTC".to_owned(),
        managed_cloud: false,
        eligible_for_stop: verdict.eligible,
        activity: IdleActivity {
            last_terminal_input: last(ActivitySource::Terminal),
            last_network_traffic_window: None,
            // Without working hours every hour is one.
            within_working_hours: true,
            last_call: last(ActivitySource::Call),
            running_jobs: u32::try_from(verdict.jobs.len()).unwrap_or(u32::MAX),
        },
        leases,
        blockers: verdict.blockers.clone(),
        stop_at: verdict.stop_at.map(|at| at.to_string()),
        explanation: verdict.explanation.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cuddy_protocol::control::MAX_BODY;
    use cuddy_protocol::host::{HostActivity, RunningJob};

    use super::*;
    use crate::idle::{HeldLease, IdleAction, IdleClock, Proof};

    fn policy() -> Policy {
        Policy {
            timeout: Duration::from_mins(15),
            grace: Duration::from_mins(1),
            max_busy: Duration::from_hours(24),
            action: IdleAction::Stop,
        }
    }

    fn facts() -> Facts<'static> {
        let keys = vec!["x".repeat(43); 32];
        Facts {
            boot_id: "b",
            pod_uid: "p",
            anchor: AnchorLoaded { generation: u64::MAX, keys },
            gate_open: true,
        }
    }

    #[test]
    fn report_and_idle_agree() {
        let at = |seconds: i64| Moment::from_millis(1_800_000_000_000 + seconds * 1000);
        let mut clock = IdleClock::new(policy(), at(0));
        clock.open(at(0));
        clock.host_seen(at(0), HostActivity::default());
        for now in [0, 60, 959, 960, 5000] {
            let verdict = clock.verdict(at(now));
            let report = activity(at(now), &verdict, facts());
            let idle = idle(&policy(), &verdict, Vec::new());
            assert_eq!(report.stop_at, idle.stop_at);
            assert_eq!(report.stop_in_seconds, Some(u64::try_from((960 - now).max(0)).unwrap()));
            assert_eq!(idle.eligible_for_stop, report.stop_in_seconds == Some(0));
            assert_eq!(idle.timeout, "15m0s");
        }
        let almost = at(959) + Duration::from_millis(1);
        let verdict = clock.verdict(almost);
        assert_eq!(activity(almost, &verdict, facts()).stop_in_seconds, Some(1));
        assert!(!verdict.eligible);
    }

    #[test]
    fn the_largest_report_fits() {
        let now = Moment::from_millis(1_800_000_000_000);
        let wide = "\u{1F600}".repeat(100);
        let mut clock = IdleClock::new(policy(), now);
        let lease = |n: usize| HeldLease {
            id: format!("{n}-{}", "x".repeat(96)),
            name: wide.clone(),
            holder: "\u{1F600}".repeat(800),
            until: now + Duration::from_secs(9),
            proof: Proof::Bearer,
        };
        clock.leases_are(now, (0..256).map(lease).collect());
        let job = RunningJob { id: wide.clone(), name: wide.clone(), started_at: String::new(), pid: 1 };
        clock.host_seen(now, HostActivity { jobs: vec![job; 100], terminal_idle_seconds: Some(1) });
        let report = activity(now, &clock.verdict(now), facts());
        assert!(serde_json::to_vec(&report).unwrap().len() < MAX_BODY);
    }
}
