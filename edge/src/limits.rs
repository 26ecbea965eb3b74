//! The bounds of the doors, and the permits that keep calls without a session within theirs (DESIGN section 5).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::caller::Caller;

/// The bounds.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The largest body of a request, in bytes.
    pub body_bytes: usize,
    /// How long the body may take to come.
    pub body_time: Duration,
    /// Sessions at once; one more takes the place of another.
    pub sessions: usize,
    /// How long a session lives without use; a call in flight is use.
    pub session_idle: Duration,
    /// Requests in flight in one session.
    pub in_flight_per_session: usize,
    /// Requests without a session in flight for one subject.
    pub in_flight_per_subject: usize,
    /// Requests without a session in flight in all.
    pub in_flight: usize,
    /// The silence after which a stream says that it still lives.
    pub keep_alive: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 4 * 1024 * 1024,
            body_time: Duration::from_secs(30),
            sessions: 8,
            session_idle: Duration::from_mins(30),
            in_flight_per_session: 2,
            in_flight_per_subject: 16,
            in_flight: 64,
            keep_alive: Duration::from_secs(15),
        }
    }
}

/// Who owns something: issuer and subject.
pub(crate) type Owner = (String, String);

/// Returns the owner that a caller is.
pub(crate) fn owner(caller: &Caller) -> Owner {
    (caller.issuer.clone(), caller.subject.clone())
}

/// Counts requests without a session.
#[derive(Debug)]
pub(crate) struct SubjectPermits {
    each: usize,
    all: usize,
    held: Mutex<HashMap<Owner, usize>>,
}

/// One request's place.
#[derive(Debug)]
pub(crate) struct SubjectPermit {
    permits: Arc<SubjectPermits>,
    owner: Owner,
}

impl SubjectPermits {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        Arc::new(Self { each: limits.in_flight_per_subject, all: limits.in_flight, held: Mutex::default() })
    }

    /// Takes a place for a caller, if there is one.
    pub(crate) fn take(self: &Arc<Self>, caller: &Caller) -> Option<SubjectPermit> {
        let owner = owner(caller);
        let mut held = self.held.lock();
        // The map holds those with something in flight alone, so that summing it up is short.
        if held.values().sum::<usize>() >= self.all || held.get(&owner).is_some_and(|n| *n >= self.each) {
            return None;
        }
        *held.entry(owner.clone()).or_insert(0) += 1;
        Some(SubjectPermit { permits: Arc::clone(self), owner })
    }
}

impl Drop for SubjectPermit {
    fn drop(&mut self) {
        let mut held = self.permits.held.lock();
        if let Some(count) = held.get_mut(&self.owner) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.owner);
            }
        }
    }
}
