//! What crossed a threshold.

use cuddy_commands::usage::{
    DISK_WARNING_PERCENT, DiskUsage, MEMORY_WARNING_PERCENT, MemoryUsage, PEAK_WARNING_PERCENT,
};

use super::tenth;

/// Returns a sentence per threshold that was reached.
pub(super) fn of(memory: &MemoryUsage, disk: &[DiskUsage]) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(percent) = memory.percent_of_limit.filter(|percent| *percent >= MEMORY_WARNING_PERCENT) {
        warnings.push(format!("memory is at {percent}% of its limit"));
    }
    if let (Some(peak), Some(limit)) = (memory.peak_bytes, memory.limit_bytes.filter(|limit| *limit > 0)) {
        let percent = tenth(peak as f64 / limit as f64 * 100.0);
        if percent >= PEAK_WARNING_PERCENT {
            warnings.push(format!("memory has been at {percent}% of its limit"));
        }
    }
    if let Some(kills) = memory.oom_kills.filter(|kills| *kills > 0) {
        let processes = if kills == 1 { "process was" } else { "processes were" };
        warnings.push(format!("{kills} {processes} ended for want of memory"));
    }
    for disk in disk.iter().filter(|disk| disk.percent_used >= DISK_WARNING_PERCENT) {
        warnings.push(format!("the disk of {} is {}% full", disk.mount, disk.percent_used));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(percent: f64, peak: u64, kills: u64) -> MemoryUsage {
        MemoryUsage {
            percent_of_limit: Some(percent),
            peak_bytes: Some(peak),
            limit_bytes: Some(1000),
            oom_kills: Some(kills),
            ..MemoryUsage::default()
        }
    }

    fn disk(percent_used: f64) -> DiskUsage {
        DiskUsage { mount: "/home/erun".to_owned(), total_bytes: 1, used_bytes: 1, percent_used }
    }

    #[test]
    fn thresholds_are_reached_at_their_value() {
        assert!(of(&memory(84.9, 949, 0), &[disk(89.9)]).is_empty());
        let warnings = of(&memory(85.0, 950, 1), &[disk(90.0)]);
        assert_eq!(warnings.len(), 4, "{warnings:?}");
        assert!(warnings[3].contains("/home/erun"));
        assert!(of(&MemoryUsage::default(), &[]).is_empty());
    }
}
