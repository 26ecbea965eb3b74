//! What the idle clock says to people.

use std::time::Duration;

use cuddy_protocol::control::ActivitySource;

use super::{IdleAction, IdleClock, Policy, Proof, StandingFence, Verdict};
use crate::clock::Moment;
use crate::text;

/// The most blockers that are named; the rest is counted.
const MAX_BLOCKERS: usize = 20;

impl IdleClock {
    /// Returns what keeps the environment up: `call`, `job suite`, `lease build`.
    pub(super) fn blockers(&self) -> Vec<String> {
        let mut blockers = Vec::new();
        if self.proved_calls > 0 || self.unproved_calls > 0 {
            blockers.push("call".to_owned());
        }
        let jobs = self.jobs.iter().flatten();
        blockers.extend(jobs.map(|job| format!("job {}", text::one_line(&job.name, text::NAME))));
        blockers.extend(self.leases.iter().map(|l| format!("lease {}", text::one_line(&l.name, text::NAME))));
        if blockers.len() > MAX_BLOCKERS {
            let more = blockers.len() - MAX_BLOCKERS;
            blockers.truncate(MAX_BLOCKERS);
            blockers.push(format!("{more} more"));
        }
        blockers
    }

    /// Returns why it is not idle since the moment that somebody believed: what blocks, or else what happened last.
    pub(super) fn why_not_idle(&self, verdict: Verdict) -> Vec<String> {
        if !verdict.blockers.is_empty() {
            return verdict.blockers;
        }
        if !self.opened || self.jobs.is_none() {
            return vec!["starting".to_owned()];
        }
        vec![match latest(&verdict) {
            Some((source, at)) => format!("{} at {at}", name(source)),
            None => format!("start at {}", self.proved),
        }]
    }

    /// Returns the answer to "why does it (not) stop", as one sentence or two.
    pub(super) fn explain(
        &self,
        now: Moment,
        fence: Option<&StandingFence>,
        verdict: &Verdict,
        bound: Moment,
    ) -> String {
        let Policy { timeout, grace, max_busy, action } = self.policy;
        if let Some(fence) = fence {
            return format!("It is about to be stopped: new work is refused until {}.", fence.until);
        }
        if !self.opened {
            return "It is starting: the operator has not opened it yet.".to_owned();
        }
        if action == IdleAction::None {
            return "It is never stopped for being idle (idle.action is None).".to_owned();
        }
        if verdict.max_busy_reached {
            let stop = bound + grace;
            return format!(
                "No bearer has called since {}, and what runs inside may keep it up for {} at most: it is stopped at \
                 {stop} unless somebody calls.",
                self.proved,
                go_duration(max_busy.max(timeout)),
            );
        }
        if self.jobs.is_none() {
            return "It is starting: the program inside the environment has not answered yet.".to_owned();
        }
        if !verdict.blockers.is_empty() {
            let proved =
                self.proved_calls > 0 || verdict.leases.iter().any(|lease| lease.proof == Proof::Bearer);
            let latest = if proved {
                String::new()
            } else {
                format!(" At the latest it is stopped at {}, unless somebody calls.", bound + grace)
            };
            return format!(
                "It stays up because of: {}. It may be stopped {} after that ends.{latest}",
                verdict.blockers.join(", "),
                go_duration(timeout + grace),
            );
        }
        let since = match latest(verdict) {
            Some((source, at)) => format!("The last activity was a {} at {at}", name(source)),
            None => format!("Nobody has worked since it was opened at {}", self.proved),
        };
        match verdict.stop_at {
            Some(at) if at <= now => format!("{since}; it has been due to be stopped since {at}."),
            Some(at) => format!("{since}; it is stopped at {at} if nothing happens."),
            None => format!("{since}."),
        }
    }
}

fn latest(verdict: &Verdict) -> Option<(ActivitySource, Moment)> {
    verdict.last.iter().map(|(source, at)| (*source, *at)).max_by_key(|(_, at)| *at)
}

/// Returns a source's name within a sentence.
fn name(source: ActivitySource) -> &'static str {
    match source {
        ActivitySource::Call => "call",
        ActivitySource::Job => "job",
        ActivitySource::Lease => "lease",
        ActivitySource::Terminal => "terminal input",
        ActivitySource::Traffic => "forwarded connection",
    }
}

/// Returns a duration as Go writes it (`15m0s`), which is what readers of the seed's contract parse. Parts of a second
/// are left out.
pub fn go_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (h, m, s) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (h, m) {
        (0, 0) => format!("{s}s"),
        (0, _) => format!("{m}m{s}s"),
        _ => format!("{h}h{m}m{s}s"),
    }
}
