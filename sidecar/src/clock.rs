//! Time as the sidecar counts it: steady, and readable by people.
//!
//! A [`Clock`] takes the wall's time once and goes on with the runtime's steady time from there, so that a node whose
//! clock is set cannot stop an environment or keep it up, and so that tests pause it with the runtime.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A moment in milliseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Moment(i64);

impl Moment {
    /// Returns the moment that many milliseconds after the epoch.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Returns the wall's present time.
    pub fn wall() -> Self {
        Self(jiff::Timestamp::now().as_millisecond())
    }

    /// Returns the milliseconds since the epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Returns how long ago `earlier` was; zero when it is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl Add<Duration> for Moment {
    type Output = Self;
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(millis(duration)))
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;
    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(millis(duration)))
    }
}

/// RFC 3339, UTC. Moments beyond what a calendar holds show its end.
impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let timestamp = jiff::Timestamp::from_millisecond(self.0).unwrap_or(jiff::Timestamp::MAX);
        write!(f, "{timestamp}")
    }
}

/// The sidecar's clock.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    wall: Moment,
    steady: tokio::time::Instant,
}

impl Clock {
    /// Returns a clock that starts at the wall's present time.
    pub fn start() -> Self {
        Self { wall: Moment::wall(), steady: tokio::time::Instant::now() }
    }

    /// Returns the present moment.
    pub fn now(&self) -> Moment {
        self.wall + self.steady.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_clock_goes_with_the_runtime() {
        let clock = Clock::start();
        let before = clock.now();
        tokio::time::advance(Duration::from_mins(15)).await;
        assert_eq!(clock.now().since(before), Duration::from_mins(15));
    }

    #[test]
    fn moments_read_as_rfc_3339() {
        assert_eq!(Moment::from_millis(1_779_719_462_000).to_string(), "2026-05-25T14:31:02Z");
        assert_eq!(Moment::from_millis(5).since(Moment::from_millis(9)), Duration::ZERO);
        assert!(!(Moment::from_millis(i64::MAX) + Duration::from_secs(9)).to_string().is_empty());
    }
}
