//! The supervisors that this host has started, and what is left of those that were killed.
//!
//! Whoever works here may kill a supervisor: both run as one user. The host is a subreaper, so what a killed supervisor leaves
//! behind becomes the host's child, and is told from supervisors by not being known. It is ended: nobody else would.

use std::collections::HashSet;
use std::io;
use std::process::Command as StdCommand;
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, WaitOptions, waitpid};
use tokio::process::{Child, Command};

use crate::log;
use crate::process::{Process, stat};
use crate::tree::Ending;

/// The supervisors that run.
#[derive(Debug, Clone, Default)]
pub struct Supervisors(Arc<Mutex<HashSet<i32>>>);

impl Supervisors {
    /// Starts one. It is known before anybody can look for unknown children.
    pub fn start(&self, command: StdCommand) -> io::Result<(i32, Child)> {
        let Ok(mut known) = self.0.lock() else {
            return Err(io::Error::other("the list of supervisors is damaged"));
        };
        let child = Command::from(command).spawn()?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).unwrap_or(0);
        known.insert(pid);
        drop(known);
        Ok((pid, child))
    }

    /// Waits for one to end. One that did not end well has left its work behind, which is ended then.
    pub async fn attend(self, pid: i32, mut child: Child) {
        let ended = child.wait().await;
        if let Ok(mut known) = self.0.lock() {
            known.remove(&pid);
        }
        if ended.as_ref().is_ok_and(std::process::ExitStatus::success) {
            return;
        }
        let swept = tokio::task::spawn_blocking(move || self.end_orphans()).await;
        let survivors = swept.unwrap_or_default();
        let how = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
        log::line(format_args!("supervisor {pid} ended with {how}; survivors: {survivors:?}"));
    }

    /// Ends all unknown children of this process with all that they started, and returns the survivors.
    fn end_orphans(self) -> Vec<String> {
        let all = self.clone();
        Ending::of(Box::new(move || all.orphans())).run(|| self.reap())
    }

    /// Returns the unknown children of this process and what descends from them.
    fn orphans(&self) -> Option<Vec<Process>> {
        // Under the lock, so that none is being started.
        let known = self.0.lock().ok()?;
        let snapshot = stat::all().ok()?;
        let own = std::process::id() as i32;
        let unknown: Vec<Process> =
            snapshot.iter().filter(|p| p.ppid == own && !known.contains(&p.pid)).cloned().collect();
        drop(known);
        let below: Vec<Process> = unknown.iter().flat_map(|p| stat::descendants(&snapshot, p.pid)).collect();
        Some(unknown.into_iter().chain(below).collect())
    }

    /// Reaps unknown children, each by its number: the known ones are waited for elsewhere.
    fn reap(&self) {
        for process in self.orphans().unwrap_or_default().into_iter().filter(|p| p.dead) {
            if let Some(pid) = Pid::from_raw(process.pid) {
                let _ = waitpid(Some(pid), WaitOptions::NOHANG);
            }
        }
    }
}
