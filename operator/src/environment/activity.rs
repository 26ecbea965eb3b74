//! What a sidecar reports, as the status tells it. Pure.

use std::time::Duration;

use cuddy_crds::conditions;
use cuddy_crds::v1alpha1::{ActivityState as Told, ActivityStatus};
use cuddy_protocol::control::{ActivityReport, ActivityState, Gate};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// How often a sidecar is asked while somebody works.
const BUSY_PAUSE: Duration = Duration::from_mins(1);
/// How often it is asked until it has heard from the host: only then can it tell when it may be stopped.
const STARTING_PAUSE: Duration = Duration::from_secs(5);
/// How often it is asked while nobody does, and its time to stop is far.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// The shortest pause: its clock counts whole seconds.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// The most blockers that are told.
const BLOCKERS: usize = 16;
/// The longest blocker, in characters.
const BLOCKER_LENGTH: usize = 100;
/// While nothing else changes, times are written this often at most.
const QUIET: SignedDuration = SignedDuration::from_mins(5);
/// A time to stop that moves by less is the same one, rounded.
const ROUNDING: SignedDuration = SignedDuration::from_secs(3);

/// Returns when to ask again after a report.
pub fn pause(report: &ActivityReport) -> Duration {
    let longest = match report.state {
        ActivityState::Busy | ActivityState::Starting => BUSY_PAUSE,
        ActivityState::Idle | ActivityState::Quiesced => LONGEST_PAUSE,
    };
    match report.stop_in_seconds {
        Some(0) => BUSY_PAUSE,
        Some(seconds) => Duration::from_secs(seconds).clamp(SHORTEST_PAUSE, longest),
        None if report.state == ActivityState::Starting => STARTING_PAUSE,
        None => longest,
    }
}

/// Returns what the status tells of a report.
pub(super) fn told(report: &ActivityReport) -> ActivityStatus {
    let time = |text: &str| text.parse::<Timestamp>().ok();
    let last = report.last_activity.iter().filter_map(|one| Some((time(&one.at)?, one.source))).max();
    let jobs = (report.jobs > 0)
        .then(|| if report.jobs == 1 { "1 job".to_owned() } else { format!("{} jobs", report.jobs) });
    let leases = report.leases.iter().map(|lease| format!("lease {}", lease.name));
    ActivityStatus {
        state: match report.state {
            _ if report.gate == Gate::Closed => Told::Starting,
            ActivityState::Starting => Told::Starting,
            ActivityState::Busy => Told::Busy,
            ActivityState::Idle | ActivityState::Quiesced => Told::Idle,
        },
        last_activity: last.map(|(at, _)| Time(seconds(at))),
        source: last.map(|(_, source)| source),
        jobs: report.jobs,
        leases: u32::try_from(report.leases.len()).unwrap_or(u32::MAX),
        blockers: jobs.into_iter().chain(leases).take(BLOCKERS).map(|text| short(&text)).collect(),
        stops_at: report.stop_at.as_deref().and_then(time).map(|at| Time(seconds(at))),
    }
}

/// Returns what the status tells of a pod whose sidecar has not said anything.
pub(super) fn without_report(state: Told) -> ActivityStatus {
    ActivityStatus {
        state,
        last_activity: None,
        source: None,
        jobs: 0,
        leases: 0,
        blockers: Vec::new(),
        stops_at: None,
    }
}

/// Says whether a change is worth a write. Times that move while somebody works are not, but for every five minutes.
pub(super) fn differs(before: Option<&ActivityStatus>, after: Option<&ActivityStatus>) -> bool {
    let (Some(before), Some(after)) = (before, after) else { return before.is_some() != after.is_some() };
    let fixed = |one: &ActivityStatus| {
        (one.state, one.source, one.jobs, one.leases, one.blockers.clone(), one.stops_at.is_some())
    };
    let allowed = if after.state == Told::Idle { ROUNDING } else { QUIET };
    fixed(before) != fixed(after)
        || moved(before.stops_at.as_ref(), after.stops_at.as_ref()) > allowed
        || moved(before.last_activity.as_ref(), after.last_activity.as_ref()) >= QUIET
}

fn moved(before: Option<&Time>, after: Option<&Time>) -> SignedDuration {
    match (before, after) {
        (Some(before), Some(after)) => after.0.duration_since(before.0).abs(),
        (None, None) => SignedDuration::ZERO,
        _ => QUIET,
    }
}

/// The API keeps whole seconds.
fn seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

fn short(text: &str) -> String {
    conditions::clean(text).chars().take(BLOCKER_LENGTH).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(state: &str, stop_in: Option<u64>) -> ActivityReport {
        serde_json::from_value(json!({
            "bootId": "b", "podUid": "p", "state": state, "anchorGeneration": 1, "gate": "Open",
            "stopInSeconds": stop_in,
            "lastActivity": [
                {"source": "call", "at": "2026-01-01T00:00:01.5Z"},
                {"source": "job", "at": "2026-01-01T00:00:09Z"},
                {"source": "terminal", "at": "yesterday"},
            ],
            "jobs": 2,
            "leases": [{"id": "l", "name": "bui\u{1b}ld", "holder": "h", "until": "2026-01-01T01:00:00Z"}],
        }))
        .unwrap()
    }

    #[test]
    fn a_report_is_told_in_few_words() {
        let told = told(&report("Busy", None));
        assert_eq!(told.last_activity.unwrap().0.to_string(), "2026-01-01T00:00:09Z");
        assert_eq!(serde_json::to_value(told.source).unwrap(), "job");
        assert_eq!(told.blockers, ["2 jobs", "lease bui ld"]);
        assert_eq!((told.jobs, told.leases), (2, 1));
    }

    #[test]
    fn questions_come_as_often_as_needed() {
        for (state, stop_in, seconds) in [
            ("Busy", None, 60),
            ("Busy", Some(900), 60),
            ("Busy", Some(10), 10),
            ("Idle", Some(840), 300),
            ("Idle", Some(45), 45),
            ("Idle", Some(0), 60),
            ("Idle", None, 300),
            ("Starting", None, 5),
            ("Starting", Some(900), 60),
        ] {
            assert_eq!(pause(&report(state, stop_in)).as_secs(), seconds, "{state} {stop_in:?}");
        }
    }

    #[test]
    fn times_that_move_are_not_worth_a_write() {
        let at = |text: &str| Some(Time(text.parse().unwrap()));
        let base = told(&report("Busy", None));
        let later = |text: &str| ActivityStatus { last_activity: at(text), ..base.clone() };
        assert!(!differs(Some(&base), Some(&base)));
        assert!(!differs(Some(&base), Some(&later("2026-01-01T00:04:00Z"))));
        assert!(differs(Some(&base), Some(&later("2026-01-01T00:05:09Z"))));
        assert!(differs(Some(&base), None));
        assert!(differs(Some(&base), Some(&ActivityStatus { jobs: 1, ..base.clone() })));
        let idle = |text: &str| ActivityStatus { state: Told::Idle, stops_at: at(text), ..base.clone() };
        assert!(!differs(Some(&idle("2026-01-01T00:10:00Z")), Some(&idle("2026-01-01T00:10:02Z"))));
        assert!(differs(Some(&idle("2026-01-01T00:10:00Z")), Some(&idle("2026-01-01T00:11:00Z"))));
        let busy = |text: &str| ActivityStatus { stops_at: at(text), ..base.clone() };
        assert!(!differs(Some(&busy("2026-01-01T00:10:00Z")), Some(&busy("2026-01-01T00:11:00Z"))));
    }
}
