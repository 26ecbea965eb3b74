//! When the host is started again.

use std::time::{Duration, Instant};

/// The first pause.
const FIRST: Duration = Duration::from_millis(50);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(10);
/// A host that ran for this long is started again after the first pause.
const STEADY: Duration = Duration::from_secs(30);

/// A back-off: doubled with each end, forgotten after a steady run.
#[derive(Debug, Default)]
pub(super) struct Restart {
    pause: Option<Duration>,
    due: Option<Instant>,
    running_since: Option<Instant>,
}

impl Restart {
    /// Says whether it is time.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.left(now).is_zero()
    }

    /// Returns the time left.
    pub(super) fn left(&self, now: Instant) -> Duration {
        self.due.map_or(Duration::ZERO, |due| due.saturating_duration_since(now))
    }

    /// Notes a start.
    pub(super) fn started(&mut self, now: Instant) {
        self.running_since = Some(now);
    }

    /// Notes an end.
    pub(super) fn ended(&mut self, now: Instant) {
        let steady = self.running_since.take().is_some_and(|since| now.duration_since(since) >= STEADY);
        let pause = match self.pause {
            Some(pause) if !steady => (pause * 2).min(LONGEST),
            _ => FIRST,
        };
        self.pause = Some(pause);
        self.due = Some(now + pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_are_forgotten() {
        let mut now = Instant::now();
        let mut restart = Restart::default();
        assert!(restart.is_due(now));
        let mut pauses = Vec::new();
        for _ in 0..12 {
            restart.started(now);
            restart.ended(now);
            pauses.push(restart.left(now));
            now += restart.left(now);
            assert!(restart.is_due(now));
        }
        assert_eq!(pauses[..3], [FIRST, FIRST * 2, FIRST * 4]);
        assert_eq!(pauses.last(), Some(&LONGEST));
        restart.started(now);
        now += STEADY;
        restart.ended(now);
        assert_eq!(restart.left(now), FIRST);
    }
}
