//! What stands in the way, as a condition tells it. An outcome of a reconcile, and not an error of it.

/// Something that stands in the way and that a person, or time, has to mend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocker {
    /// One of the reasons of D40.
    pub reason: &'static str,
    /// What it is and what to do.
    pub message: String,
}

impl Blocker {
    /// Returns a blocker.
    pub fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}
