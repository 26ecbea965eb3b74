//! When the sidecar is started again, and when that is given up.

use std::time::Duration;

use tokio::time::Instant;

/// The first pause.
const FIRST: Duration = Duration::from_millis(50);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(2);
/// One that ran for this long is started again as if it had never ended.
const STEADY: Duration = Duration::from_secs(30);
/// How many ends in a row are one too many: some 5 s of pauses.
const MAX_ENDS: u32 = 8;

/// A back-off: doubled with each end, forgotten after a steady run.
#[derive(Debug)]
pub(crate) struct Restart {
    ends: u32,
    running_since: Instant,
}

impl Restart {
    /// Notes the first start.
    pub(crate) fn new() -> Self {
        Self { ends: 0, running_since: Instant::now() }
    }

    /// Notes a start.
    pub(crate) fn started(&mut self) {
        self.running_since = Instant::now();
    }

    /// Notes an end, and returns the pause before the next start; none if there is to be none.
    pub(crate) fn ended(&mut self) -> Option<Duration> {
        if self.running_since.elapsed() >= STEADY {
            self.ends = 0;
        }
        let pause = FIRST.saturating_mul(2_u32.saturating_pow(self.ends)).min(LONGEST);
        self.ends += 1;
        (self.ends < MAX_ENDS).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_to_a_bound_and_end() {
        let mut restart = Restart::new();
        let pauses: Vec<u128> = std::iter::from_fn(|| restart.ended()).map(|p| p.as_millis()).collect();
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1600, 2000]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_steady_run_is_a_new_beginning() {
        let mut restart = Restart::new();
        restart.ended();
        restart.started();
        tokio::time::advance(STEADY / 2).await;
        assert_eq!(restart.ended(), Some(FIRST * 2));
        restart.started();
        tokio::time::advance(STEADY).await;
        assert_eq!(restart.ended(), Some(FIRST));
    }
}
