//! Leadership: one process of many writes, decided by a Lease (D26).
//!
//! Whoever holds the Lease renews it every [`LeaseTimes::renew_every`]; who could not for [`LeaseTimes::give_up`] ends,
//! well before others may take over after [`LeaseTimes::duration`]. Between two renewals each write checks the age of the
//! last one by a clock that also runs while the machine sleeps ([`Leadership::check`], [`WriteFence`]).

mod election;
mod fence;
mod lease;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use election::{ElectionError, Elector, LeaseTimes};
pub use fence::WriteFence;

/// A clock that never stops or goes back, sleep of the machine included, from an arbitrary start.
pub trait Clock: Send + Sync {
    /// Returns the time since the clock's start.
    fn now(&self) -> Duration;
}

/// CLOCK_BOOTTIME: a paused virtual machine that wakes up finds its lease old.
#[derive(Debug, Clone, Copy, Default)]
pub struct BootClock;

impl Clock for BootClock {
    fn now(&self) -> Duration {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
        Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or_default())
    }
}

/// This process may not write, because it does not hold the lease or has not renewed it for too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this process does not lead (any more)")]
pub struct NotLeader;

/// Says whether this process still leads. Cloning is cheap; all clones tell the same.
#[derive(Clone)]
pub struct Leadership {
    /// When the lease was last renewed, in nanoseconds of the clock; 0 means never, or lost.
    renewed_at: Arc<AtomicU64>,
    /// For how long a renewal counts.
    valid_for: Duration,
    clock: Arc<dyn Clock>,
}

impl Leadership {
    /// Returns a leadership that is not held. A renewal counts for `valid_for`.
    pub fn new(valid_for: Duration, clock: Arc<dyn Clock>) -> Self {
        Self { renewed_at: Arc::default(), valid_for, clock }
    }

    /// Checks that the last renewal is young enough to write on.
    pub fn check(&self) -> Result<(), NotLeader> {
        self.remaining().map(|_| ()).ok_or(NotLeader)
    }

    /// Returns for how long the last renewal still counts, if it does.
    pub fn remaining(&self) -> Option<Duration> {
        let renewed_at = Duration::from_nanos(self.renewed_at.load(Ordering::Acquire));
        if renewed_at.is_zero() {
            return None;
        }
        let age = self.clock.now().saturating_sub(renewed_at);
        self.valid_for.checked_sub(age).filter(|left| !left.is_zero())
    }

    /// Returns the clock's time, to be taken before a renewal is sent and handed to [`Self::renewed`] when it succeeded:
    /// the others count from when the API server saw it, which is later.
    pub fn now(&self) -> Duration {
        self.clock.now()
    }

    /// Records a renewal that was sent at a time of [`Self::now`].
    pub fn renewed(&self, sent_at: Duration) {
        let nanos = u64::try_from(sent_at.as_nanos()).unwrap_or(u64::MAX).max(1);
        self.renewed_at.store(nanos, Ordering::Release);
    }

    /// Records that the lease is lost or given back. No write passes from here on.
    pub fn lost(&self) {
        self.renewed_at.store(0, Ordering::Release);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use parking_lot::Mutex;

    /// A clock that is set by hand.
    #[derive(Default)]
    pub(crate) struct HandClock(Mutex<Duration>);

    impl HandClock {
        pub(crate) fn set(&self, now: Duration) {
            *self.0.lock() = now;
        }
    }

    impl Clock for HandClock {
        fn now(&self) -> Duration {
            *self.0.lock()
        }
    }

    #[test]
    fn a_renewal_counts_from_when_it_was_sent_and_not_for_ever() {
        let clock = Arc::new(HandClock::default());
        let leadership = Leadership::new(Duration::from_secs(10), clock.clone());
        clock.set(Duration::from_secs(100));
        assert_eq!(leadership.check(), Err(NotLeader));
        let sent = leadership.now();
        clock.set(Duration::from_secs(103));
        leadership.renewed(sent);
        assert_eq!(leadership.check(), Ok(()));
        clock.set(Duration::from_millis(109_999));
        assert_eq!(leadership.check(), Ok(()));
        clock.set(Duration::from_secs(110));
        assert_eq!(leadership.check(), Err(NotLeader));
        leadership.renewed(leadership.now());
        assert_eq!(leadership.clone().check(), Ok(()));
        leadership.lost();
        assert_eq!(leadership.clone().check(), Err(NotLeader));
    }

    #[test]
    fn the_boot_clock_runs() {
        let first = BootClock.now();
        assert!(first > Duration::ZERO);
        assert!(BootClock.now() >= first);
    }
}
