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
pub(super) fn blocked(blocked: Blocked) -> Blocked {
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
