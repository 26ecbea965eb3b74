//! `/proc/<pid>/stat`.

use std::fs;
use std::io;
use std::time::{Duration, Instant};

/// One process at the time it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// The process id.
    pub pid: i32,
    /// The parent's.
    pub ppid: i32,
    /// Whether it only waits to be reaped.
    pub dead: bool,
    /// The controlling terminal's device number; 0 when there is none.
    pub terminal: i32,
    /// When it started, in clock ticks since boot: with the pid it tells a process from all later ones.
    pub start: u64,
    /// The name the process gives itself; hostile.
    pub name: String,
}

impl Process {
    /// Returns one process, if it exists.
    pub fn read(pid: i32) -> Option<Self> {
        let mut process = parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)?;
        // A process whose first thread has ended looks dead while its other threads run on.
        if process.dead && fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|tasks| tasks.count() > 1) {
            process.dead = false;
        }
        Some(process)
    }

    /// Returns pid and name for people, without control characters.
    pub fn label(&self) -> String {
        let name: String = self.name.chars().filter(|c| !c.is_control()).collect();
        format!("{} ({name})", self.pid)
    }
}

/// Returns the process that a `stat` line describes. The name stands in parentheses and may hold any byte but NUL, closing
/// parentheses and spaces among them, so the last one ends it.
fn parse(line: &[u8]) -> Option<Process> {
    let open = line.iter().position(|b| *b == b'(')?;
    let close = line.iter().rposition(|b| *b == b')')?;
    let pid = std::str::from_utf8(line.get(..open)?).ok()?.trim().parse().ok()?;
    let name = String::from_utf8_lossy(line.get(open + 1..close)?).into_owned();
    let rest = std::str::from_utf8(line.get(close + 1..)?).ok()?;
    // proc(5) numbers the fields from 1; the first one here is the third.
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).copied();
    Some(Process {
        pid,
        ppid: field(4)?.parse().ok()?,
        dead: matches!(field(3)?, "Z" | "X" | "x"),
        terminal: field(7)?.parse().ok()?,
        start: field(22)?.parse().ok()?,
        name,
    })
}

/// Returns every process that can be seen.
pub fn all() -> io::Result<Vec<Process>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        found.extend(Process::read(pid));
    }
    Ok(found)
}

/// Returns what descends from `root`, children before grandchildren, without `root` itself.
pub fn descendants(all: &[Process], root: i32) -> Vec<Process> {
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![root];
    let mut next = 0;
    while let Some(parent) = parents.get(next).copied() {
        next += 1;
        for process in all.iter().filter(|p| p.ppid == parent && p.pid != parent) {
            // A snapshot is no instant: a pid that came up twice must not make a circle.
            if !parents.contains(&process.pid) {
                parents.push(process.pid);
                found.push(process.clone());
            }
        }
    }
    found
}

/// Returns the time left until `end`, zero once it has passed.
pub fn left(end: Instant) -> Duration {
    end.saturating_duration_since(Instant::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &[u8] = b"42 (a ) b) S 7 42 42 34817 42 4194304 1 0 0 0 0 0 0 0 20 0 1 0 123456 0 0";

    #[test]
    fn names_may_hold_parentheses() {
        let process = parse(LINE).unwrap();
        assert_eq!((process.pid, process.ppid, process.start), (42, 7, 123_456));
        assert_eq!((process.name.as_str(), process.terminal, process.dead), ("a ) b", 34817, false));
        assert!(parse(b"42 (a) S").is_none() && parse(b"").is_none());
    }

    #[test]
    fn the_own_process_is_seen() {
        let own = std::process::id() as i32;
        assert!(all().unwrap().iter().any(|p| p.pid == own));
        assert!(!Process::read(own).unwrap().dead);
    }

    #[test]
    fn descendants_follow_the_parents() {
        let process = |pid, ppid| Process { pid, ppid, ..parse(LINE).unwrap() };
        let all = [process(1, 0), process(4, 3), process(3, 2), process(2, 1), process(9, 1), process(5, 3)];
        let pids: Vec<i32> = descendants(&all, 2).iter().map(|p| p.pid).collect();
        assert_eq!(pids, [3, 4, 5]);
        assert!(descendants(&all, 4).is_empty());
    }
}
