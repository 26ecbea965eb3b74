//! The idle clock (DESIGN section 7): pure, driven by moments and events, asked for a verdict.
//!
//! There are two kinds of evidence. What a bearer proves (calls, leases) keeps an environment up as long as it lasts. What
//! code inside the environment can make up (jobs, terminals, leases and calls without a bearer) counts too, but for at
//! most [`Policy::max_busy`] since the last proved evidence.
//!
//! Absent on purpose: IO, locks, and any clock of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use cuddy_protocol::control::{ActivitySource, ActivityState, FENCE_SECONDS};
use cuddy_protocol::host::{HostActivity, RunningJob};

use crate::clock::Moment;

mod words;

#[cfg(test)]
mod tests;

pub use words::go_duration;

/// How long nothing must happen before an environment counts as idle, unless its timeout is shorter.
const SETTLE: Duration = Duration::from_mins(1);
/// The most jobs that are looked at: what the host may run (D21). More is made up.
const MAX_JOBS: usize = 100;
/// The host tells a terminal's age in whole seconds, so the moment computed from it wavers by one; less than this is no
/// new input.
const TERMINAL_WAVER: Duration = Duration::from_secs(2);

/// What may be done about an idle environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdleAction {
    /// It is stopped.
    Stop,
    /// Nothing.
    None,
}

/// The idle policy of an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// How long without activity until it may be stopped.
    pub timeout: Duration,
    /// The warning before the stop.
    pub grace: Duration,
    /// How long evidence that nobody proved may keep it up.
    pub max_busy: Duration,
    /// What is done.
    pub action: IdleAction,
}

/// Whether a bearer stands behind a piece of evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Proof {
    /// A bearer was checked.
    Bearer,
    /// Code inside the environment may have made it up.
    None,
}

/// A lease, as far as idle is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldLease {
    /// The handle.
    pub id: String,
    /// What people see.
    pub name: String,
    /// Issuer and subject.
    pub holder: String,
    /// When it ends by itself.
    pub until: Moment,
    /// Whether a bearer took it.
    pub proof: Proof,
}

/// New work is refused until then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StandingFence {
    /// An opaque id.
    pub id: String,
    /// When it ends by itself.
    pub until: Moment,
}

/// What the clock says at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// Busy or not.
    pub state: ActivityState,
    /// Since when it is idle.
    pub idle_since: Option<Moment>,
    /// The last evidence per source.
    pub last: BTreeMap<ActivitySource, Moment>,
    /// The running jobs.
    pub jobs: Vec<RunningJob>,
    /// The leases held.
    pub leases: Vec<HeldLease>,
    /// What keeps it up, in words.
    pub blockers: Vec<String>,
    /// When it may be stopped if nothing happens.
    pub stop_at: Option<Moment>,
    /// Whether the bound on evidence without proof has been reached.
    pub max_busy_reached: bool,
    /// Whether it may be stopped now.
    pub eligible: bool,
    /// Why it does (not) stop.
    pub explanation: String,
}

/// The state machine.
#[derive(Debug)]
pub struct IdleClock {
    policy: Policy,
    opened: bool,
    /// The last proved evidence; to begin with the start, which somebody asked for.
    proved: Moment,
    /// The last evidence without proof.
    unproved: Option<Moment>,
    last: BTreeMap<ActivitySource, Moment>,
    proved_calls: u32,
    unproved_calls: u32,
    /// The running jobs; none until the host has answered once.
    jobs: Option<Vec<RunningJob>>,
    leases: Vec<HeldLease>,
    fence: Option<StandingFence>,
}

impl IdleClock {
    /// Returns a clock that starts now, the gate closed.
    pub fn new(policy: Policy, now: Moment) -> Self {
        Self {
            policy,
            opened: false,
            proved: now,
            unproved: None,
            last: BTreeMap::new(),
            proved_calls: 0,
            unproved_calls: 0,
            jobs: None,
            leases: Vec::new(),
            fence: None,
        }
    }

    /// Returns the policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The gate has opened: the time counts from now.
    pub fn open(&mut self, now: Moment) {
        if !self.opened {
            self.opened = true;
            self.proved = self.proved.max(now);
        }
    }

    /// The sidecar was started again in a pod whose gate is open. The start is no proof that somebody works, so the bound
    /// on evidence without proof goes on counting from `proved`; the timeout counts from now, since what ran until just
    /// now is forgotten.
    pub fn open_again(&mut self, now: Moment, proved: Moment) {
        self.opened = true;
        self.proved = proved.min(now);
        self.unproved = Some(now);
    }

    /// Returns the last proved evidence.
    pub fn proved(&self) -> Moment {
        self.proved
    }

    /// Returns the fence that stands now.
    pub fn fence(&mut self, now: Moment) -> Option<&StandingFence> {
        self.fence.take_if(|fence| fence.until <= now);
        self.fence.as_ref()
    }

    /// A call that counts as activity has begun.
    pub fn call_began(&mut self, now: Moment, proof: Proof) {
        let calls = self.calls(proof);
        *calls = calls.saturating_add(1);
        self.note(ActivitySource::Call, proof, now);
    }

    /// A call that counts as activity has ended.
    pub fn call_ended(&mut self, now: Moment, proof: Proof) {
        let calls = self.calls(proof);
        *calls = calls.saturating_sub(1);
        self.note(ActivitySource::Call, proof, now);
    }

    /// Bytes went through a forward, or something else was seen that has no end of its own.
    pub fn seen(&mut self, source: ActivitySource, proof: Proof, at: Moment) {
        self.note(source, proof, at);
    }

    /// The host has told what runs.
    pub fn host_seen(&mut self, now: Moment, activity: HostActivity) {
        let mut jobs = activity.jobs;
        jobs.truncate(MAX_JOBS);
        let ran = self.jobs.as_ref().is_some_and(|jobs| !jobs.is_empty());
        if ran || !jobs.is_empty() {
            // A job that is gone ended at some time since it was last seen: now, for want of better knowledge.
            self.note(ActivitySource::Job, Proof::None, now);
        }
        self.jobs = Some(jobs);
        if let Some(age) = activity.terminal_idle_seconds {
            let at = now - Duration::from_secs(age);
            let known = self.last.get(&ActivitySource::Terminal);
            if known.is_none_or(|known| at >= *known + TERMINAL_WAVER) {
                self.note(ActivitySource::Terminal, Proof::None, at);
            }
        }
    }

    /// The leases have changed.
    pub fn leases_are(&mut self, now: Moment, leases: Vec<HeldLease>) {
        self.settle(now);
        self.leases = leases;
        self.settle(now);
    }

    /// Refuses new work from now on, if nobody has worked since `if_idle_since`, or in any case when that is absent: a
    /// person's stop is not hindered by work. A second request renews the fence that stands.
    ///
    /// # Errors
    /// Names what keeps the environment up.
    pub fn quiesce(
        &mut self,
        now: Moment,
        if_idle_since: Option<&str>,
        id: impl FnOnce() -> String,
    ) -> Result<StandingFence, Vec<String>> {
        self.settle(now);
        if let Some(expected) = if_idle_since {
            let verdict = self.judge(now, None);
            let since = verdict.idle_since.map(|at| at.to_string());
            if since.as_deref() != Some(expected) {
                return Err(self.why_not_idle(verdict));
            }
        }
        let id = self.fence.take().map_or_else(id, |standing| standing.id);
        let fence = StandingFence { id, until: now + Duration::from_secs(FENCE_SECONDS) };
        self.fence = Some(fence.clone());
        Ok(fence)
    }

    /// Returns what the clock says now.
    pub fn verdict(&mut self, now: Moment) -> Verdict {
        self.settle(now);
        self.judge(now, self.fence.as_ref())
    }

    fn calls(&mut self, proof: Proof) -> &mut u32 {
        match proof {
            Proof::Bearer => &mut self.proved_calls,
            Proof::None => &mut self.unproved_calls,
        }
    }

    fn note(&mut self, source: ActivitySource, proof: Proof, at: Moment) {
        let last = self.last.entry(source).or_insert(at);
        *last = at.max(*last);
        match proof {
            Proof::Bearer => self.proved = self.proved.max(at),
            Proof::None => self.unproved = Some(self.unproved.map_or(at, |known| known.max(at))),
        }
    }

    /// Brings evidence that lasts up to the present.
    fn settle(&mut self, now: Moment) {
        if self.proved_calls > 0 {
            self.note(ActivitySource::Call, Proof::Bearer, now);
        }
        if self.unproved_calls > 0 {
            self.note(ActivitySource::Call, Proof::None, now);
        }
        if self.jobs.as_ref().is_some_and(|jobs| !jobs.is_empty()) {
            self.note(ActivitySource::Job, Proof::None, now);
        }
        for lease in std::mem::take(&mut self.leases) {
            self.note(ActivitySource::Lease, lease.proof, lease.until.min(now));
            if lease.until > now {
                self.leases.push(lease);
            }
        }
        self.fence.take_if(|fence| fence.until <= now);
    }

    fn judge(&self, now: Moment, fence: Option<&StandingFence>) -> Verdict {
        let Policy { timeout, grace, max_busy, action } = self.policy;
        let latest = self.unproved.map_or(self.proved, |at| at.max(self.proved));
        let held = |proof| self.leases.iter().any(|lease| lease.proof == proof);
        let proved_blocks = self.proved_calls > 0 || held(Proof::Bearer);
        let blockers = self.blockers();
        let blocked = !blockers.is_empty() || self.jobs.is_none();

        // Without proof nothing counts beyond this moment. A timeout longer than the bound is still granted in full.
        let bound = self.proved + max_busy.max(timeout);
        let by_itself = (!blocked).then(|| latest + timeout + grace);
        let over = !proved_blocks && by_itself.is_none_or(|stop| stop > bound + grace);
        let max_busy_reached = self.opened && over && now >= bound;
        let stops = self.opened && action == IdleAction::Stop;
        let stop_at = match by_itself {
            _ if !stops => None,
            _ if max_busy_reached => Some(bound + grace),
            Some(stop) => Some(stop.min(bound + grace)),
            None => None,
        };
        let idle = self.opened && !blocked && now.since(latest) >= SETTLE.min(timeout);
        let state = match fence {
            Some(_) => ActivityState::Quiesced,
            None if idle => ActivityState::Idle,
            None if !self.opened || self.jobs.is_none() => ActivityState::Starting,
            None if self.last.is_empty() && !blocked => ActivityState::Starting,
            None => ActivityState::Busy,
        };
        let mut verdict = Verdict {
            state,
            idle_since: idle.then_some(latest),
            last: self.last.clone(),
            jobs: self.jobs.clone().unwrap_or_default(),
            leases: self.leases.clone(),
            blockers,
            stop_at,
            max_busy_reached,
            eligible: stop_at.is_some_and(|at| at <= now) && (idle || max_busy_reached),
            explanation: String::new(),
        };
        verdict.explanation = self.explain(now, fence, &verdict, bound);
        verdict
    }
}
