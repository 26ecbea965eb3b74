//! How long a failing object waits before it is tried again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

/// The first wait: short, since most failures are races with the cluster that a second look settles.
const FIRST: Duration = Duration::from_millis(500);
/// The longest wait: what a person who has mended the cause may have to wait for without touching the object.
const LONGEST: Duration = Duration::from_mins(5);
/// How far a wait strays to either side, in percent, so that objects which failed together do not come back together.
const JITTER_PERCENT: u64 = 20;
/// How many objects are remembered. Past it the newcomer waits as if it had failed once: a bound on memory, not on work.
const MOST_OBJECTS: usize = 100_000;

/// Failures in a row per object (by UID). Shared; cloning is cheap.
#[derive(Debug, Clone, Default)]
pub struct Backoff {
    failures: Arc<Mutex<HashMap<String, u32>>>,
}

impl Backoff {
    /// Records a failure of the object and returns how long it waits: doubled with each failure in a row, with jitter, at
    /// most five minutes.
    pub fn failed(&self, uid: &str) -> Duration {
        let mut failures = self.failures.lock();
        let count = if let Some(count) = failures.get_mut(uid) {
            *count = count.saturating_add(1);
            *count
        } else {
            if failures.len() < MOST_OBJECTS {
                failures.insert(uid.to_owned(), 1);
            }
            1
        };
        drop(failures);
        jittered(wait(count), random_percent())
    }

    /// Forgets the object's failures: it succeeded, or it is gone.
    pub fn reset(&self, uid: &str) {
        self.failures.lock().remove(uid);
    }

    /// Returns how many objects are failing now.
    pub fn failing(&self) -> usize {
        self.failures.lock().len()
    }
}

/// Returns the wait after so many failures in a row.
fn wait(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    (FIRST * 2_u32.saturating_pow(doublings)).min(LONGEST)
}

/// Strays from a wait. `percent` is 0 to 100: 0 is the shortest, 50 the wait itself, 100 the longest. Never past
/// [`LONGEST`].
fn jittered(wait: Duration, percent: u64) -> Duration {
    let wait_ms = wait.as_millis() as u64;
    let low = wait_ms * (100 - JITTER_PERCENT) / 100;
    let spread = wait_ms * 2 * JITTER_PERCENT / 100;
    Duration::from_millis(low + spread * percent.min(100) / 100).min(LONGEST)
}

/// Returns a random percentage. A machine without random numbers gets no jitter, which costs nothing but a crowd.
fn random_percent() -> u64 {
    let mut byte = [0_u8; 1];
    match getrandom::fill(&mut byte) {
        Ok(()) => u64::from(byte[0]) * 100 / 255,
        Err(_) => 50,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_five_minutes() {
        let waits: Vec<_> = (1..=12).map(|n| wait(n).as_millis()).collect();
        assert_eq!(
            waits,
            [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 128_000, 256_000, 300_000, 300_000]
        );
        assert_eq!(wait(u32::MAX), LONGEST);
    }

    #[test]
    fn jitter_stays_within_its_bounds() {
        let ten = Duration::from_secs(10);
        assert_eq!(jittered(ten, 0), Duration::from_secs(8));
        assert_eq!(jittered(ten, 50), ten);
        assert_eq!(jittered(ten, 100), Duration::from_secs(12));
        assert_eq!(jittered(ten, 1000), Duration::from_secs(12));
        assert_eq!(jittered(LONGEST, 100), LONGEST);
    }

    #[test]
    fn success_starts_over_and_objects_do_not_mix() {
        let backoff = Backoff::default();
        for _ in 0..8 {
            backoff.failed("a");
        }
        assert!(backoff.failed("a") >= Duration::from_secs(100));
        assert!(backoff.failed("b") <= Duration::from_millis(600));
        assert_eq!(backoff.failing(), 2);
        backoff.reset("a");
        assert!(backoff.failed("a") <= Duration::from_millis(600));
        backoff.reset("a");
        backoff.reset("b");
        assert_eq!(backoff.failing(), 0);
    }
}
