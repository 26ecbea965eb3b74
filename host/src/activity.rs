//! What runs here, as far as idle is concerned: jobs, and terminals that somebody opened from outside.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use cuddy_protocol::CommandError;
use cuddy_protocol::host::{HostActivity, RunningJob};
use jiff::Timestamp;

use crate::jobs::MAX_RUNNING;
use crate::jobs::store::Store;
use crate::process::{Process, stat};

/// The device numbers of pseudo-terminals (Linux, devices.txt): major 136 to 143, 256 minors each.
const PTS_MAJORS: std::ops::RangeInclusive<u32> = 136..=143;

/// Returns the report.
pub fn report(store: &Store) -> Result<HostActivity, CommandError> {
    let jobs = store.running()?.into_iter().take(MAX_RUNNING);
    let jobs =
        jobs.map(|job| RunningJob { id: job.id, name: job.name, started_at: job.started_at, pid: job.pid });
    let all = stat::all().unwrap_or_default();
    let now = Timestamp::now().as_second();
    let inputs = terminals(&all).into_iter().filter_map(last_input);
    let idle = inputs.map(|at| u64::try_from(now - at).unwrap_or(0)).min();
    Ok(HostActivity { jobs: jobs.collect(), terminal_idle_seconds: idle })
}

/// Returns the numbers of the terminals that were opened from outside. A process that `kubectl exec` brought in descends
/// from a parent beyond the container, told as 0, and not from the first process.
fn terminals(all: &[Process]) -> Vec<u32> {
    let mut found: Vec<u32> =
        all.iter().filter(|p| !p.dead && is_from_outside(all, p)).filter_map(|p| pts(p.terminal)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn is_from_outside(all: &[Process], process: &Process) -> bool {
    let mut current = process;
    // At most as many steps as there are processes: a snapshot may hold a circle.
    for _ in 0..all.len() {
        if current.ppid == 0 {
            return current.pid != 1;
        }
        let Some(parent) = all.iter().find(|p| p.pid == current.ppid) else { return false };
        current = parent;
    }
    false
}

/// Returns the number of a pseudo-terminal from a device number as `/proc` gives it: bits 8 to 19 are the major, the rest
/// the minor (proc(5), tty_nr).
fn pts(device: i32) -> Option<u32> {
    let device = u32::from_ne_bytes(device.to_ne_bytes());
    let (major, minor) = ((device >> 8) & 0xfff, (device & 0xff) | ((device >> 12) & 0xf_ff00));
    PTS_MAJORS.contains(&major).then(|| (major - PTS_MAJORS.start()) * 256 + minor)
}

/// Returns when a terminal was last read from, in seconds since the epoch: the kernel notes it every eight seconds.
fn last_input(number: u32) -> Option<i64> {
    Some(fs::metadata(PathBuf::from(format!("/dev/pts/{number}"))).ok()?.atime())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, ppid: i32, terminal: i32) -> Process {
        Process { pid, ppid, dead: false, terminal, start: 1, name: "sh".to_owned() }
    }

    #[test]
    fn terminals_from_outside_are_told_from_ours() {
        let pts = |number: i32| (136 << 8) | number;
        let all = [
            process(1, 0, pts(9)),
            process(10, 1, pts(1)),
            process(20, 0, pts(0)),
            process(21, 20, pts(0)),
            process(22, 21, pts(3)),
            process(30, 0, 0),
            process(40, 99, pts(4)),
        ];
        assert_eq!(terminals(&all), [0, 3]);
    }

    #[test]
    fn device_numbers_name_terminals() {
        assert_eq!(pts(34_816), Some(0));
        assert_eq!(pts(34_816 + 5), Some(5));
        assert_eq!(pts((137 << 8) | 1), Some(257));
        assert_eq!(pts(1025), None);
        assert_eq!(pts(0), None);
    }
}
