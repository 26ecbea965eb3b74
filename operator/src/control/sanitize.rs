//! What a sidecar says, made harmless: it ends in a status, in events and on terminals.
//!
//! What cannot be made sense of is refused as a whole (an unknown sidecar is not an idle one); what is merely long is cut.

use cuddy_protocol::anchor::MAX_KEYS;
use cuddy_protocol::control::{ActivityReport, Blocked, FENCE_SECONDS, Fence, LeaseSummary, SourceActivity};
use jiff::{SignedDuration, Timestamp};

/// The most characters of a text that people read.
const TEXT_MAX: usize = 200;
/// The most characters of an opaque value.
const OPAQUE_MAX: usize = 64;
/// The most leases that are told on. A sidecar may hold more; the rest blocks a stop just as well.
const LEASES_MAX: usize = 32;
/// The most blockers that are told on.
const BLOCKERS_MAX: usize = 16;
/// The most sources of activity that make sense: one entry each, with room for those of a newer sidecar.
const SOURCES_MAX: usize = 16;
/// The furthest that a time or a span may lie ahead: the longest idle timeout is a week.
const HORIZON: SignedDuration = SignedDuration::from_hours(24 * 31);
/// The longest that an environment can have been idle, in seconds.
const IDLE_SECONDS_MAX: u64 = 10 * 366 * 24 * 3600;
/// The length of a thumbprint: SHA-256 in base64url without padding.
const THUMBPRINT_LEN: usize = 43;

/// Returns a report in which every text is bounded and without control characters, every time is RFC 3339 and not absurdly
/// far ahead, and every number within its bounds.
pub(super) fn report(report: ActivityReport, now: Timestamp) -> Result<ActivityReport, String> {
    if report.last_activity.len() > SOURCES_MAX {
        return Err("more sources of activity than there are".to_owned());
    }
    let last_activity = report
        .last_activity
        .into_iter()
        .map(|entry| Ok(SourceActivity { source: entry.source, at: past(&entry.at, now)? }))
        .collect::<Result<_, String>>()?;
    let leases = report
        .leases
        .into_iter()
        .take(LEASES_MAX)
        .map(|lease| {
            Ok(LeaseSummary {
                id: text(&lease.id),
                name: text(&lease.name),
                holder: text(&lease.holder),
                until: time(&lease.until, now)?,
            })
        })
        .collect::<Result<_, String>>()?;
    keys(&report.keys)?;
    Ok(ActivityReport {
        boot_id: opaque(report.boot_id, "bootId")?,
        pod_uid: opaque(report.pod_uid, "podUid")?,
        state: report.state,
        idle_since: report.idle_since.map(|value| opaque(value, "idleSince")).transpose()?,
        idle_seconds: report.idle_seconds.map(|seconds| seconds.min(IDLE_SECONDS_MAX)),
        last_activity,
        jobs: report.jobs,
        leases,
        stop_at: report.stop_at.map(|at| time(&at, now)).transpose()?,
        stop_in_seconds: report.stop_in_seconds.map(|seconds| seconds.min(HORIZON.as_secs().unsigned_abs())),
        max_busy_reached: report.max_busy_reached,
        anchor_generation: report.anchor_generation,
        keys: report.keys,
        gate: report.gate,
    })
}

/// Returns a fence that holds no longer than fences do.
pub(super) fn fence(fence: Fence) -> Result<Fence, String> {
    Ok(Fence {
        fence: opaque(fence.fence, "fence")?,
        expires_in_seconds: fence.expires_in_seconds.min(FENCE_SECONDS),
    })
}

/// Returns the blockers that are told on.
pub(super) fn blocked(blocked: &Blocked) -> Blocked {
    let mut blockers: Vec<_> = blocked.blockers.iter().take(BLOCKERS_MAX).map(|b| text(b)).collect();
    if blocked.blockers.len() > BLOCKERS_MAX {
        blockers.push(format!("{} more", blocked.blockers.len() - BLOCKERS_MAX));
    }
    Blocked { blockers }
}

/// Checks that these can be the thumbprints of an anchor's keys.
pub(super) fn keys(keys: &[String]) -> Result<(), String> {
    if keys.len() > MAX_KEYS {
        return Err(format!("more than {MAX_KEYS} keys"));
    }
    let base64url = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if keys.iter().all(|key| key.len() == THUMBPRINT_LEN && key.bytes().all(base64url)) {
        Ok(())
    } else {
        Err("a key that is no thumbprint".to_owned())
    }
}

/// Returns a text for people: without control and direction characters, and cut.
pub(super) fn text(raw: &str) -> String {
    let harmless = |c: char| if c.is_control() || is_direction(c) { '\u{fffd}' } else { c };
    let mut clean: String = raw.chars().take(TEXT_MAX).map(harmless).collect();
    if raw.chars().nth(TEXT_MAX).is_some() {
        clean.push('…');
    }
    clean
}

/// Says whether a character turns the direction of what stands around it, or hides.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Checks a value that is handed back as it came.
fn opaque(value: String, field: &str) -> Result<String, String> {
    if !value.is_empty() && value.len() <= OPAQUE_MAX && value.bytes().all(|b| b.is_ascii_graphic()) {
        Ok(value)
    } else {
        Err(format!("{field} is empty, long or has odd characters"))
    }
}

fn parse(raw: &str) -> Result<Timestamp, String> {
    if raw.len() > OPAQUE_MAX {
        return Err("a time that is none".to_owned());
    }
    raw.parse().map_err(|_| "a time that is none".to_owned())
}

/// Returns a time that may lie ahead, but not absurdly far.
fn time(raw: &str, now: Timestamp) -> Result<String, String> {
    Ok(parse(raw)?.min(now.saturating_add(HORIZON).unwrap_or(Timestamp::MAX)).to_string())
}

/// Returns a time that has been: one that lies ahead by the sidecar's clock has been just now by ours.
fn past(raw: &str, now: Timestamp) -> Result<String, String> {
    Ok(parse(raw)?.min(now).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuddy_protocol::control::{ActivitySource, ActivityState, Gate};
    use proptest::prelude::*;

    fn now() -> Timestamp {
        "2026-03-01T12:00:00Z".parse().unwrap()
    }

    fn sample() -> ActivityReport {
        ActivityReport {
            boot_id: "b-1".into(),
            pod_uid: "p-1".into(),
            state: ActivityState::Idle,
            idle_since: Some("2026-03-01T11:00:00Z".into()),
            idle_seconds: Some(3600),
            last_activity: vec![SourceActivity {
                source: ActivitySource::Call,
                at: "2026-03-01T11:00:00Z".into(),
            }],
            jobs: 2,
            leases: vec![LeaseSummary {
                id: "l".into(),
                name: "build".into(),
                holder: "me".into(),
                until: "2026-03-01T13:00:00Z".into(),
            }],
            stop_at: Some("2026-03-01T12:01:00Z".into()),
            stop_in_seconds: Some(60),
            max_busy_reached: false,
            anchor_generation: 3,
            keys: vec!["kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k".into()],
            gate: Gate::Open,
        }
    }

    #[test]
    fn an_honest_report_stays_as_it_is() {
        assert_eq!(report(sample(), now()), Ok(sample()));
    }

    #[test]
    fn what_makes_no_sense_is_refused_as_a_whole() {
        type Spoil = fn(&mut ActivityReport);
        let cases: [(&str, Spoil); 11] = [
            ("boot id with a space", |r| r.boot_id = "a b".into()),
            ("empty pod uid", |r| r.pod_uid = String::new()),
            ("long idleSince", |r| r.idle_since = Some("1".repeat(65))),
            ("escape in idleSince", |r| r.idle_since = Some("\u{1b}[31m".into())),
            ("a time that is none", |r| r.last_activity[0].at = "yesterday".into()),
            ("an endless time", |r| r.last_activity[0].at = "2".repeat(70)),
            ("a lease without end", |r| r.leases[0].until = "never".into()),
            ("a stop that is no time", |r| r.stop_at = Some("\n".into())),
            ("a key that is none", |r| r.keys[0] = "x".into()),
            ("a key with odd characters", |r| r.keys[0] = "!".repeat(43)),
            ("too many keys", |r| r.keys = vec![r.keys[0].clone(); 33]),
        ];
        for (case, spoil) in cases {
            let mut spoilt = sample();
            spoil(&mut spoilt);
            assert!(report(spoilt, now()).is_err(), "{case}");
        }
        let mut many = sample();
        many.last_activity = vec![many.last_activity[0].clone(); 17];
        assert!(report(many, now()).is_err(), "too many sources");
    }

    #[test]
    fn what_is_merely_large_is_cut_and_clamped() {
        let mut large = sample();
        large.leases = vec![large.leases[0].clone(); 500];
        large.leases[0].name = "n".repeat(5000);
        large.idle_seconds = Some(u64::MAX);
        large.stop_in_seconds = Some(u64::MAX);
        large.stop_at = Some("9999-01-01T00:00:00Z".into());
        large.last_activity[0].at = "2026-03-01T15:00:00Z".into();
        large.leases[1].until = "9000-01-01T00:00:00Z".into();
        let cut = report(large, now()).unwrap();
        assert_eq!(cut.leases.len(), 32);
        assert_eq!(cut.leases[0].name.chars().count(), 201);
        assert_eq!(cut.idle_seconds, Some(IDLE_SECONDS_MAX));
        assert_eq!(cut.stop_in_seconds, Some(31 * 24 * 3600));
        assert_eq!(cut.stop_at.as_deref(), Some("2026-04-01T12:00:00Z"));
        assert_eq!(cut.leases[1].until, "2026-04-01T12:00:00Z");
        assert_eq!(cut.last_activity[0].at, "2026-03-01T12:00:00Z", "nothing has happened in the future");
    }

    #[test]
    fn a_fence_holds_no_longer_than_fences_do() {
        let long = Fence { fence: "f".into(), expires_in_seconds: 3600 };
        assert_eq!(fence(long).unwrap().expires_in_seconds, FENCE_SECONDS);
        assert!(fence(Fence { fence: "\t".into(), expires_in_seconds: 1 }).is_err());
    }

    #[test]
    fn blockers_are_cut_and_counted() {
        let told = blocked(&Blocked { blockers: vec!["job \u{7}suite".into(); 20] });
        assert_eq!(told.blockers.len(), 17);
        assert_eq!(told.blockers[0], "job \u{fffd}suite");
        assert_eq!(told.blockers[16], "4 more");
    }

    proptest! {
        #[test]
        fn no_text_keeps_what_moves_a_terminal(raw in any::<String>()) {
            let clean = text(&raw);
            prop_assert!(clean.chars().count() <= TEXT_MAX + 1);
            prop_assert!(!clean.chars().any(|c| c.is_control() || is_direction(c)));
        }
    }
}
