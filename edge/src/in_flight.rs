//! The calls that run now, so that they can be taken back: by the caller who named them, with their session, or with the
//! key that let them in.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::bearer::TrustedSet;
use crate::caller::Caller;
use crate::limits::{Owner, owner};

/// The shortest id by which a call without a session can be named: shorter ones are counters, which other clients of the
/// same subject use too.
pub(crate) const MIN_RANDOM_ID: usize = 16;

/// The name of a running call: its place, and the id that its caller gave it (as JSON, so that 1 is not "1").
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum CallName {
    /// In a session.
    Session(String, String),
    /// Without one: by the same subject.
    Subject(Owner, String),
}

impl CallName {
    /// Returns the name under which a call can be taken back; none where the id could be another call's too.
    pub(crate) fn new(caller: &Caller, id: &serde_json::Value) -> Option<Self> {
        match &caller.session {
            Some(session) => Some(Self::Session(session.clone(), id.to_string())),
            None if id.as_str().is_some_and(|id| id.len() >= MIN_RANDOM_ID) => {
                Some(Self::Subject(owner(caller), id.to_string()))
            }
            None => None,
        }
    }
}

/// Why a call was taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// Its caller said so, and waits for no answer.
    Caller,
    /// Its session has ended.
    Session,
    /// Its key is no longer trusted.
    Key,
}

#[derive(Debug)]
struct Call {
    issuer: String,
    kid: Option<String>,
    session: Option<String>,
    name: Option<CallName>,
    token: CancellationToken,
    why: Option<Why>,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    calls: HashMap<u64, Call>,
    names: HashMap<CallName, u64>,
}

/// The calls that run now; as many as there are permits.
#[derive(Debug, Default)]
pub(crate) struct InFlight(Mutex<Table>);

/// A call's entry, gone when it is dropped.
#[derive(Debug)]
pub(crate) struct Registered {
    calls: Arc<InFlight>,
    key: u64,
    token: CancellationToken,
}

/// A call of this name runs already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Duplicate;

impl InFlight {
    pub(crate) fn begin(
        self: &Arc<Self>,
        caller: &Caller,
        id: &serde_json::Value,
    ) -> Result<Registered, Duplicate> {
        let name = CallName::new(caller, id);
        let mut table = self.0.lock();
        let key = table.next;
        if let Some(name) = &name {
            if table.names.contains_key(name) {
                return Err(Duplicate);
            }
            table.names.insert(name.clone(), key);
        }
        table.next += 1;
        let token = CancellationToken::new();
        let call = Call {
            issuer: caller.issuer.clone(),
            kid: caller.kid.clone(),
            session: caller.session.clone(),
            name,
            token: token.clone(),
            why: None,
        };
        table.calls.insert(key, call);
        Ok(Registered { calls: Arc::clone(self), key, token })
    }

    /// Takes one call back by its name; an unknown name is nothing.
    pub(crate) fn cancel(&self, name: &CallName) {
        let mut table = self.0.lock();
        if let Some(key) = table.names.get(name).copied()
            && let Some(call) = table.calls.get_mut(&key)
        {
            call.stop(Why::Caller);
        }
    }

    /// Takes back the calls of a session that has ended.
    pub(crate) fn end_session(&self, session: &str) {
        let mut table = self.0.lock();
        let of_session = table.calls.values_mut().filter(|c| c.session.as_deref() == Some(session));
        of_session.for_each(|c| c.stop(Why::Session));
    }

    /// Takes back the calls whose key is no longer trusted.
    pub(crate) fn revoke(&self, trusted: &TrustedSet) {
        let mut table = self.0.lock();
        for call in table.calls.values_mut() {
            if call.kid.as_ref().is_some_and(|kid| !trusted.trusts(&call.issuer, kid)) {
                call.stop(Why::Key);
            }
        }
    }
}

impl Call {
    fn stop(&mut self, why: Why) {
        self.why.get_or_insert(why);
        self.token.cancel();
    }
}

impl Registered {
    /// Returns the token that is cancelled when the call is taken back.
    pub(crate) fn token(&self) -> CancellationToken {
        self.token.clone()
    }

    /// Says why the call was taken back, if it was.
    pub(crate) fn why(&self) -> Option<Why> {
        self.calls.0.lock().calls.get(&self.key).and_then(|c| c.why)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut table = self.calls.0.lock();
        if let Some(name) = table.calls.remove(&self.key).and_then(|c| c.name) {
            table.names.remove(&name);
        }
    }
}
