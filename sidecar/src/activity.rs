//! The one place where evidence of work meets the fence: whether a call may begin and whether the environment may be
//! fenced are decided under the same lock, so that no call slips in between.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cuddy_protocol::control::ActivitySource;
use cuddy_protocol::host::HostActivity;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::clock::{Clock, Moment};
use crate::idle::{HeldLease, IdleClock, Policy, Proof, StandingFence, Verdict};

/// For how long after the last call the host is asked often.
const RECENT: Duration = Duration::from_mins(1);

/// The idle clock, shared.
pub struct Activity {
    clock: Clock,
    idle: Mutex<IdleClock>,
    /// Something may have started in the host: ask it soon.
    stirred: Notify,
}

impl fmt::Debug for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Activity").field(&*self.idle.lock()).finish()
    }
}

/// A call that runs; dropped when it ends.
#[derive(Debug)]
pub struct RunningCall {
    activity: Arc<Activity>,
    proof: Proof,
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        let mut idle = self.activity.idle.lock();
        idle.call_ended(self.activity.clock.now(), self.proof);
        drop(idle);
        self.activity.stir();
    }
}

impl Activity {
    /// Returns the activity of an environment that starts now.
    pub fn new(clock: Clock, policy: Policy) -> Arc<Self> {
        let idle = Mutex::new(IdleClock::new(policy, clock.now()));
        Arc::new(Self { clock, idle, stirred: Notify::new() })
    }

    /// Returns the clock.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Returns the policy.
    pub fn policy(&self) -> Policy {
        *self.idle.lock().policy()
    }

    /// The gate has opened.
    pub fn open(&self) {
        self.idle.lock().open(self.clock.now());
        self.stir();
    }

    /// The gate was open when the sidecar started; `proved` is what the last one kept.
    pub fn open_again(&self, proved: Moment) {
        self.idle.lock().open_again(self.clock.now(), proved);
        self.stir();
    }

    /// Returns the last proved evidence.
    pub fn proved(&self) -> Moment {
        self.idle.lock().proved()
    }

    /// Begins work, unless a fence stands; evidence only where there is a proof or a reason to believe it (`counts`).
    pub fn begin(self: &Arc<Self>, counts: Option<Proof>) -> Result<Option<RunningCall>, StandingFence> {
        let mut idle = self.idle.lock();
        let now = self.clock.now();
        if let Some(fence) = idle.fence(now) {
            return Err(fence.clone());
        }
        let Some(proof) = counts else { return Ok(None) };
        idle.call_began(now, proof);
        Ok(Some(RunningCall { activity: Arc::clone(self), proof }))
    }

    /// The host has told what runs.
    pub fn host_seen(&self, activity: HostActivity) {
        self.idle.lock().host_seen(self.clock.now(), activity);
    }

    /// The leases have changed.
    pub fn leases_are(&self, leases: Vec<HeldLease>) {
        self.idle.lock().leases_are(self.clock.now(), leases);
    }

    /// Refuses new work from now on; see [`IdleClock::quiesce`].
    pub fn quiesce(&self, if_idle_since: Option<&str>) -> Result<StandingFence, Vec<String>> {
        let id = || uuid::Uuid::new_v4().to_string();
        self.idle.lock().quiesce(self.clock.now(), if_idle_since, id)
    }

    /// Returns what the idle clock says, and when.
    pub fn verdict(&self) -> (Moment, Verdict) {
        let now = self.clock.now();
        (now, self.idle.lock().verdict(now))
    }

    /// Asks for the host to be looked at soon.
    pub fn stir(&self) {
        self.stirred.notify_one();
    }

    /// Waits until somebody asked for the host to be looked at.
    pub async fn stirred(&self) {
        self.stirred.notified().await;
    }

    /// Says whether something runs or was just called, so that the host is worth asking often.
    pub fn is_lively(&self) -> bool {
        let (now, verdict) = self.verdict();
        let called = verdict.last.get(&ActivitySource::Call);
        !verdict.jobs.is_empty()
            || verdict.blockers.iter().any(|b| b == "call")
            || called.is_some_and(|at| now.since(*at) < RECENT)
    }
}
