//! `usage`: CPU, memory and disk, as the container's own cgroup and file system tell them.

pub mod cgroup;
mod cpu;
mod disk;
mod memory;
mod warnings;

use std::time::{Duration, Instant};

use cuddy_commands::usage::{CpuUsage, MAX_INTERVAL_SECONDS, MIN_INTERVAL_SECONDS, UsageOutput, UsageParams};
use tokio::time;

use crate::settings::Settings;
use cgroup::Cgroup;

/// The sample window of a call that names none, in seconds.
const DEFAULT_INTERVAL_SECONDS: f64 = 1.0;

/// Measures. What cannot be read says why and has no numbers.
pub async fn measure(settings: &Settings, params: &UsageParams) -> UsageOutput {
    let cgroup = Cgroup::find();
    let cpu = match &cgroup {
        Ok(cgroup) => sample(cgroup, window(params.interval_seconds)).await,
        Err(reason) => CpuUsage { unavailable: Some(reason.clone()), ..CpuUsage::default() },
    };
    let memory = memory::read(cgroup.as_ref());
    let disk: Vec<_> = disk::read(&settings.home).into_iter().collect();
    UsageOutput {
        tenant: settings.tenant.to_string(),
        environment: settings.environment.to_string(),
        source: cgroup.ok().map(|cgroup| cgroup.source().to_owned()),
        warnings: warnings::of(&memory, &disk),
        cpu,
        memory,
        disk,
    }
}

/// Returns the sample window: clamped, as the contract says, not refused.
fn window(asked: Option<f64>) -> Duration {
    let seconds = asked.filter(|seconds| seconds.is_finite()).unwrap_or(DEFAULT_INTERVAL_SECONDS);
    Duration::from_secs_f64(seconds.clamp(MIN_INTERVAL_SECONDS, MAX_INTERVAL_SECONDS))
}

async fn sample(cgroup: &Cgroup, window: Duration) -> CpuUsage {
    let (first, begin) = (cgroup.cpu_usec(), Instant::now());
    if first.is_ok() {
        time::sleep(window).await;
    }
    let elapsed = begin.elapsed();
    let used = first.and_then(|first| cgroup.cpu_usec().map(|last| last.saturating_sub(first)));
    cpu::of(used, elapsed, cgroup.cpu_quota())
}

/// Rounds to one decimal, as percentages are told.
fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_clamped() {
        assert_eq!(window(None), Duration::from_secs(1));
        assert_eq!(window(Some(0.0)), Duration::from_millis(100));
        assert_eq!(window(Some(-5.0)), Duration::from_millis(100));
        assert_eq!(window(Some(1e9)), Duration::from_secs(30));
        assert_eq!(window(Some(f64::NAN)), Duration::from_secs(1));
        assert_eq!(window(Some(0.5)), Duration::from_millis(500));
    }
}
