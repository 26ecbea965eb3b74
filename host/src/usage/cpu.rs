//! CPU over a window.

use std::time::Duration;

use cuddy_commands::usage::CpuUsage;

use super::cgroup::Limit;
use super::tenth;

/// Returns what was used of the quota, or of one core where there is none.
pub(super) fn of(
    used_usec: Result<u64, String>,
    window: Duration,
    quota: Result<Limit<f64>, String>,
) -> CpuUsage {
    let (used, quota) = match (used_usec, quota) {
        (Ok(used), Ok(quota)) => (used, quota),
        (Err(reason), _) | (_, Err(reason)) => {
            return CpuUsage { unavailable: Some(reason), ..CpuUsage::default() };
        }
    };
    let seconds = window.as_secs_f64();
    let (quota_cores, cores) = match quota {
        Limit::Unlimited => (None, 1.0),
        Limit::At(cores) => (Some(cores), cores),
    };
    let share = if seconds > 0.0 { used as f64 / 1e6 / seconds / cores * 100.0 } else { 0.0 };
    CpuUsage {
        quota_cores,
        utilization_percent: Some(tenth(share)),
        interval_seconds: Some((seconds * 1000.0).round() / 1000.0),
        unavailable: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_is_told_of_the_quota() {
        let usage = of(Ok(750_000), Duration::from_secs(1), Ok(Limit::At(1.5)));
        assert_eq!((usage.quota_cores, usage.utilization_percent), (Some(1.5), Some(50.0)));
        let usage = of(Ok(500_000), Duration::from_secs(2), Ok(Limit::Unlimited));
        assert_eq!((usage.quota_cores, usage.utilization_percent), (None, Some(25.0)));
        assert_eq!(usage.interval_seconds, Some(2.0));
    }

    #[test]
    fn what_cannot_be_read_has_no_numbers() {
        for usage in [
            of(Err("no file".to_owned()), Duration::from_secs(1), Ok(Limit::Unlimited)),
            of(Ok(1), Duration::from_secs(1), Err("no file".to_owned())),
        ] {
            assert_eq!(usage, CpuUsage { unavailable: Some("no file".to_owned()), ..CpuUsage::default() });
        }
    }
}
