//! The sidecar's say before a command runs: the gate, the keys, the disk, the fence, and what counts as activity.

use std::fmt;
use std::sync::Arc;

use cuddy_commands::activity::lease_release::ActivityLeaseRelease;
use cuddy_commands::exec::job_cancel::ExecJobCancel;
use cuddy_commands::{Command, Declaration, Effect};
use cuddy_edge::admission::{Admission, Permit};
use cuddy_edge::caller::{Caller, Door};
use cuddy_protocol::{CommandError, ErrorCode};

use crate::activity::Activity;
use crate::anchor::Anchor;
use crate::disk::Disk;
use crate::gate::Gate;
use crate::idle::Proof;

/// What changes something and still runs on a full disk: it frees, or takes next to nothing.
const ON_A_FULL_DISK: [&str; 2] = [ExecJobCancel::DECLARATION.name, ActivityLeaseRelease::DECLARATION.name];

/// Lets calls in.
pub struct Doorkeeper {
    /// The gate.
    pub gate: Arc<Gate>,
    /// The keys.
    pub anchor: Arc<Anchor>,
    /// The disk.
    pub disk: Arc<Disk>,
    /// The idle clock with its fence.
    pub activity: Arc<Activity>,
}

impl fmt::Debug for Doorkeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Doorkeeper").field("gate", &self.gate).finish_non_exhaustive()
    }
}

impl Doorkeeper {
    /// Says whether the doors are open at all.
    pub fn is_open(&self) -> bool {
        self.gate.is_open() && !self.anchor.is_closed()
    }
}

impl Admission for Doorkeeper {
    fn admit(&self, declaration: &'static Declaration, caller: &Caller) -> Result<Permit, CommandError> {
        if !self.is_open() {
            let message = "the environment is starting; try again in a moment";
            return Err(CommandError::new(ErrorCode::Starting, message));
        }
        let changes = declaration.effect != Effect::Read;
        if changes && self.disk.is_full() && !ON_A_FULL_DISK.contains(&declaration.name) {
            let message =
                "the workspace is full: only what reads, cancels or gives back runs until there is space";
            return Err(CommandError::new(ErrorCode::DiskFull, message));
        }
        if !changes && !declaration.activity {
            // Looking is no work: it goes on while the environment is about to stop, and says why it stops.
            return Ok(Box::new(()));
        }
        let running = self.activity.begin(evidence(declaration, caller)).map_err(|fence| {
            let message =
                format!("the environment is about to stop (new work is refused until {})", fence.until);
            CommandError::new(ErrorCode::Stopping, message)
        })?;
        Ok(Box::new(running))
    }
}

/// Returns what a call proves: a bearer's that somebody works; the environment's own, through its socket, nothing; one of
/// somebody who needs no bearer something that the environment may have made up.
fn evidence(declaration: &Declaration, caller: &Caller) -> Option<Proof> {
    if !declaration.activity {
        None
    } else if caller.is_bearer() {
        Some(Proof::Bearer)
    } else if caller.door == Door::Agent {
        None
    } else {
        Some(Proof::None)
    }
}
