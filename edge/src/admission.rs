//! The program's own say before a command runs: fences, activity, full disks.

use std::fmt;

use cuddy_commands::Declaration;
use cuddy_protocol::CommandError;

use crate::caller::Caller;

/// Held while a command runs, and dropped when it has ended.
pub type Permit = Box<dyn Send>;

/// Decides whether a command may begin now. What the caller may do has been decided before.
pub trait Admission: Send + Sync {
    /// Lets a call in, or says why not (`STOPPING`, `DISK_FULL`, ...). It must not block.
    fn admit(&self, declaration: &'static Declaration, caller: &Caller) -> Result<Permit, CommandError>;
}

/// Lets every call in.
#[derive(Clone, Copy, Default)]
pub struct AdmitAll;

impl fmt::Debug for AdmitAll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdmitAll")
    }
}

impl Admission for AdmitAll {
    fn admit(&self, _: &'static Declaration, _: &Caller) -> Result<Permit, CommandError> {
        Ok(Box::new(()))
    }
}
