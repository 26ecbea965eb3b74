//! The Lease as a document: what it says, and what follows from it. Pure.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use tokio::time::Instant;

/// What to do about a Lease that somebody may hold.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// Write this.
    Take(Box<Lease>),
    /// Somebody else holds it: look again after this time at the latest.
    Wait(Duration),
}

/// Who may hold it and until when, judged by this machine's clock alone: a Lease ends when nothing about it has changed
/// for as long as it says, counted from when this process first saw it so. No two machines' clocks are compared.
#[derive(Debug, Default)]
pub(super) struct Watcher {
    seen: Option<(LeaseSpec, Instant)>,
}

impl Watcher {
    /// Returns what to do about the Lease as it is now.
    pub(super) fn look(&mut self, lease: &Lease, me: &Me, now: Instant, wall: Timestamp) -> Step {
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        if holder.is_empty() || holder == me.holder {
            return Step::Take(Box::new(me.take(lease, wall)));
        }
        let since = match &self.seen {
            Some((seen, since)) if *seen == spec => *since,
            _ => {
                self.seen = Some((spec.clone(), now));
                now
            }
        };
        // A Lease that does not say is somebody else's work; it counts as long as our own.
        let seconds = spec.lease_duration_seconds.and_then(|s| u64::try_from(s).ok());
        let lasts = seconds.map_or(me.duration, Duration::from_secs);
        match lasts.checked_sub(now.saturating_duration_since(since)) {
            Some(left) if !left.is_zero() => Step::Wait(left),
            _ => Step::Take(Box::new(me.take(lease, wall))),
        }
    }
}

/// This process as a holder.
#[derive(Debug, Clone)]
pub(super) struct Me {
    pub(super) name: String,
    pub(super) holder: String,
    pub(super) duration: Duration,
}

impl Me {
    /// Returns a new Lease held by this process.
    pub(super) fn create(&self, wall: Timestamp) -> Lease {
        let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
        self.take(&Lease { metadata, spec: None }, wall)
    }

    /// Returns the Lease held by this process. Its resourceVersion stays, so that of two takers one fails.
    pub(super) fn take(&self, lease: &Lease, wall: Timestamp) -> Lease {
        let mut lease = lease.clone();
        // The server's record of managers is not ours to send.
        lease.metadata.managed_fields = None;
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() != Some(&self.holder) {
            spec.lease_transitions = Some(spec.lease_transitions.map_or(0, |n| n.saturating_add(1)));
            spec.acquire_time = Some(MicroTime(wall));
        }
        spec.holder_identity = Some(self.holder.clone());
        spec.lease_duration_seconds = Some(i32::try_from(self.duration.as_secs()).unwrap_or(i32::MAX));
        spec.renew_time = Some(MicroTime(wall));
        lease
    }

    /// Returns the Lease given back: nobody holds it, and whoever sees it may take it at once.
    pub(super) fn release(lease: &Lease, wall: Timestamp) -> Lease {
        let mut lease = lease.clone();
        lease.metadata.managed_fields = None;
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        spec.renew_time = Some(MicroTime(wall));
        lease
    }

    /// Says whether this process holds the Lease.
    pub(super) fn holds(&self, lease: &Lease) -> bool {
        lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()) == Some(&self.holder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me(holder: &str) -> Me {
        Me { name: "cuddy-operator".into(), holder: holder.into(), duration: Duration::from_secs(15) }
    }

    fn held(by: &str, renewed: i64) -> Lease {
        me(by).create(Timestamp::from_second(renewed).unwrap())
    }

    fn holder(step: &Step) -> Option<String> {
        match step {
            Step::Take(lease) => lease.spec.as_ref()?.holder_identity.clone(),
            Step::Wait(_) => None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_ends_by_this_machines_clock() {
        let (mut watcher, a, wall) = (Watcher::default(), me("a"), Timestamp::now());
        // The other machine's clock is hours behind: that alone says nothing.
        let lease = held("b", 5);
        assert_eq!(watcher.look(&lease, &a, Instant::now(), wall), Step::Wait(Duration::from_secs(15)));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(watcher.look(&lease, &a, Instant::now(), wall), Step::Wait(Duration::from_secs(5)));
        // It was renewed: the time starts anew.
        let lease = held("b", 6);
        assert_eq!(watcher.look(&lease, &a, Instant::now(), wall), Step::Wait(Duration::from_secs(15)));
        tokio::time::advance(Duration::from_secs(15)).await;
        let step = watcher.look(&lease, &a, Instant::now(), wall);
        assert_eq!(holder(&step).as_deref(), Some("a"));
        let Step::Take(taken) = step else { panic!() };
        assert_eq!(taken.spec.unwrap().lease_transitions, Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_was_given_back_or_is_ours_is_taken_at_once() {
        let (mut watcher, a, wall) = (Watcher::default(), me("a"), Timestamp::now());
        let released = Me::release(&held("b", 5), wall);
        assert_eq!(holder(&watcher.look(&released, &a, Instant::now(), wall)).as_deref(), Some("a"));
        let own = held("a", 5);
        let Step::Take(renewed) = watcher.look(&own, &a, Instant::now(), wall) else { panic!() };
        let (before, after) = (own.spec.unwrap(), renewed.spec.unwrap());
        assert_eq!(before.lease_transitions, after.lease_transitions);
        assert_eq!(before.acquire_time, after.acquire_time);
        assert_ne!(before.renew_time, after.renew_time);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_of_odd_content_holds_as_long_as_ours() {
        let (mut watcher, a, wall) = (Watcher::default(), me("a"), Timestamp::now());
        let mut lease = held("b", 5);
        lease.spec.as_mut().unwrap().lease_duration_seconds = Some(-3);
        assert_eq!(watcher.look(&lease, &a, Instant::now(), wall), Step::Wait(Duration::from_secs(15)));
        lease.spec = None;
        assert_eq!(holder(&watcher.look(&lease, &a, Instant::now(), wall)).as_deref(), Some("a"));
    }
}
