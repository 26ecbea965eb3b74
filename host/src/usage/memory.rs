//! Memory.

use cuddy_commands::usage::MemoryUsage;

use super::cgroup::{Cgroup, Limit};
use super::tenth;

/// Returns what is in use. Without that number there are none; what only some kernels tell is left out where it is missing.
pub(super) fn read(cgroup: Result<&Cgroup, &String>) -> MemoryUsage {
    let unavailable = |reason: String| MemoryUsage { unavailable: Some(reason), ..MemoryUsage::default() };
    let cgroup = match cgroup {
        Ok(cgroup) => cgroup,
        Err(reason) => return unavailable(reason.clone()),
    };
    let (current, limit) = match (cgroup.memory_current(), cgroup.memory_limit()) {
        (Ok(current), Ok(limit)) => (current, limit),
        (Err(reason), _) | (_, Err(reason)) => return unavailable(reason),
    };
    let (limit_bytes, percent_of_limit, unlimited) = match limit {
        Limit::Unlimited => (None, None, Some(true)),
        Limit::At(limit) if limit > 0 => {
            (Some(limit), Some(tenth(current as f64 / limit as f64 * 100.0)), None)
        }
        Limit::At(limit) => (Some(limit), None, None),
    };
    MemoryUsage {
        current_bytes: Some(current),
        peak_bytes: cgroup.memory_peak().ok(),
        limit_bytes,
        percent_of_limit,
        oom_kills: cgroup.oom_kills().ok(),
        unlimited,
        unavailable: None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::cgroup::tests::{V2, tree};
    use super::*;

    #[test]
    fn use_is_told_of_the_limit() {
        let dir = tree(V2);
        let memory = read(Cgroup::below(dir.path(), "0::/").as_ref());
        assert_eq!((memory.current_bytes, memory.limit_bytes), (Some(800), Some(1000)));
        assert_eq!(
            (memory.percent_of_limit, memory.unlimited, memory.oom_kills),
            (Some(80.0), None, Some(3))
        );
    }

    #[test]
    fn no_limit_means_no_percentage() {
        let dir = tree(&[
            ("cgroup.controllers", ""),
            ("cpu.stat", "usage_usec 1"),
            ("memory.current", "5"),
            ("memory.max", "max"),
        ]);
        let memory = read(Cgroup::below(dir.path(), "0::/").as_ref());
        assert_eq!((memory.current_bytes, memory.unlimited), (Some(5), Some(true)));
        assert_eq!((memory.limit_bytes, memory.percent_of_limit, memory.peak_bytes), (None, None, None));
    }

    #[test]
    fn what_cannot_be_read_has_no_numbers() {
        let expected = MemoryUsage { unavailable: Some("why".to_owned()), ..MemoryUsage::default() };
        assert_eq!(read(Err(&"why".to_owned())), expected);
        let dir = tree(&[("cgroup.controllers", ""), ("cpu.stat", "usage_usec 1")]);
        let memory = read(Cgroup::below(dir.path(), "0::/").as_ref());
        assert!(memory.unavailable.is_some() && memory.current_bytes.is_none());
    }
}
