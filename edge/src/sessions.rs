//! Sessions of the legacy era: bookkeeping that the seed asks for, never a proof of who calls.
//!
//! A session belongs to the issuer and subject that made it; to anybody else it does not exist.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;
use uuid::Uuid;

use crate::bearer::TrustedSet;
use crate::caller::Caller;
use crate::limits::{Limits, Owner, owner};
use crate::metrics::Metrics;

#[derive(Debug)]
struct Session {
    owner: Owner,
    /// The key of the last bearer that used it.
    kid: Option<String>,
    used: Instant,
    in_flight: usize,
}

/// Why a request cannot use a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionRefusal {
    /// Unknown, ended, expired, or somebody else's.
    NotFound,
    /// As many requests in flight as there may be.
    Busy,
}

/// The sessions of a pod.
#[derive(Debug)]
pub(crate) struct Sessions {
    limits: Limits,
    metrics: Metrics,
    table: Mutex<HashMap<String, Session>>,
}

/// A request's place in its session; the session counts as used until it is dropped.
#[derive(Debug)]
pub(crate) struct SessionPermit {
    sessions: Arc<Sessions>,
    id: String,
}

impl Sessions {
    pub(crate) fn new(limits: Limits, metrics: Metrics) -> Arc<Self> {
        Arc::new(Self { limits, metrics, table: Mutex::default() })
    }

    /// Makes a session. Where the table is full another one ends: the caller's own before others', idle ones before those
    /// with something in flight, the least recently used first. Returns the new id, and that of the ended one.
    pub(crate) fn create(&self, caller: &Caller) -> (String, Option<String>) {
        let owner = owner(caller);
        let mut table = self.table.lock();
        self.expire(&mut table);
        let mut ended = None;
        if table.len() >= self.limits.sessions.max(1) {
            ended = table
                .iter()
                .min_by_key(|(_, s)| (s.owner != owner, s.in_flight > 0, s.used))
                .map(|(id, _)| id.clone());
            if let Some(id) = &ended {
                table.remove(id);
            }
        }
        let id = Uuid::new_v4().to_string();
        let session = Session { owner, kid: caller.kid.clone(), used: Instant::now(), in_flight: 0 };
        table.insert(id.clone(), session);
        self.metrics.sessions(table.len());
        (id, ended)
    }

    /// Uses a session without a place in it: a notification.
    pub(crate) fn touch(&self, id: &str, caller: &Caller) -> Result<(), SessionRefusal> {
        let mut table = self.table.lock();
        self.find(&mut table, id, caller).map(|_| ())
    }

    /// Takes a place in a session.
    pub(crate) fn enter(
        self: &Arc<Self>,
        id: &str,
        caller: &Caller,
    ) -> Result<SessionPermit, SessionRefusal> {
        let mut table = self.table.lock();
        let session = self.find(&mut table, id, caller)?;
        if session.in_flight >= self.limits.in_flight_per_session {
            return Err(SessionRefusal::Busy);
        }
        session.in_flight += 1;
        Ok(SessionPermit { sessions: Arc::clone(self), id: id.to_owned() })
    }

    /// Ends a session of the caller's.
    pub(crate) fn end(&self, id: &str, caller: &Caller) -> Result<(), SessionRefusal> {
        let mut table = self.table.lock();
        self.find(&mut table, id, caller)?;
        table.remove(id);
        self.metrics.sessions(table.len());
        Ok(())
    }

    /// Ends the sessions whose key is no longer trusted.
    pub(crate) fn revoke(&self, trusted: &TrustedSet) {
        let mut table = self.table.lock();
        table.retain(|_, s| s.kid.as_ref().is_none_or(|kid| trusted.trusts(&s.owner.0, kid)));
        self.metrics.sessions(table.len());
    }

    fn find<'t>(
        &self,
        table: &'t mut HashMap<String, Session>,
        id: &str,
        caller: &Caller,
    ) -> Result<&'t mut Session, SessionRefusal> {
        self.expire(table);
        let own = |s: &&mut Session| s.owner.0 == caller.issuer && s.owner.1 == caller.subject;
        let session = table.get_mut(id).filter(own).ok_or(SessionRefusal::NotFound)?;
        session.used = Instant::now();
        session.kid.clone_from(&caller.kid);
        Ok(session)
    }

    fn expire(&self, table: &mut HashMap<String, Session>) {
        let now = Instant::now();
        let before = table.len();
        table.retain(|_, s| s.in_flight > 0 || now.duration_since(s.used) < self.limits.session_idle);
        if table.len() != before {
            self.metrics.sessions(table.len());
        }
    }
}

impl Drop for SessionPermit {
    fn drop(&mut self) {
        if let Some(session) = self.sessions.table.lock().get_mut(&self.id) {
            session.in_flight -= 1;
            session.used = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Door;
    use cuddy_protocol::Capabilities;
    use std::time::Duration;

    fn caller(subject: &str) -> Caller {
        Caller {
            issuer: "i".to_owned(),
            subject: subject.to_owned(),
            kid: Some("k".to_owned()),
            capabilities: Capabilities::NONE,
            issued_at: 0,
            door: Door::Mcp,
            session: None,
        }
    }

    fn sessions() -> Arc<Sessions> {
        Sessions::new(Limits::default(), Metrics::default())
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_session_ends_and_a_call_in_flight_keeps_one() {
        let (sessions, me) = (sessions(), caller("me"));
        let (id, _) = sessions.create(&me);
        let permit = sessions.enter(&id, &me).unwrap();
        tokio::time::advance(Duration::from_hours(1)).await;
        assert_eq!(sessions.touch(&id, &me), Ok(()));
        tokio::time::advance(Duration::from_hours(1)).await;
        drop(permit);
        tokio::time::advance(Duration::from_secs(30 * 60 - 1)).await;
        assert_eq!(sessions.touch(&id, &me), Ok(()));
        tokio::time::advance(Duration::from_mins(30)).await;
        assert_eq!(sessions.touch(&id, &me), Err(SessionRefusal::NotFound));
    }

    #[tokio::test(start_paused = true)]
    async fn the_ninth_takes_the_place_of_the_right_one() {
        let sessions = sessions();
        let (me, you) = (caller("me"), caller("you"));
        let mut ids = Vec::new();
        for _ in 0..8 {
            tokio::time::advance(Duration::from_secs(1)).await;
            ids.push(sessions.create(&you).0);
        }
        let busy = sessions.enter(&ids[0], &you).unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
        sessions.touch(&ids[1], &you).unwrap();
        // None of mine yet: the idle one that was used longest ago.
        let (mine, ended) = sessions.create(&me);
        assert_eq!(ended.as_ref(), Some(&ids[2]));
        // Now mine goes first, though it is the youngest, and even when it is busy.
        let held = sessions.enter(&mine, &me).unwrap();
        assert_eq!(sessions.create(&me).1, Some(mine));
        drop((busy, held));
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_without_end_leave_nothing_behind() {
        let (sessions, me) = (sessions(), caller("me"));
        for _ in 0..10_000 {
            sessions.create(&me);
        }
        assert_eq!(sessions.table.lock().len(), 8);
    }

    #[test]
    fn the_third_request_has_no_place() {
        let (sessions, me) = (sessions(), caller("me"));
        let (id, _) = sessions.create(&me);
        assert_eq!(id.len(), 36);
        let (first, _second) = (sessions.enter(&id, &me).unwrap(), sessions.enter(&id, &me).unwrap());
        assert_eq!(sessions.enter(&id, &me).err(), Some(SessionRefusal::Busy));
        assert_eq!(sessions.touch(&id, &me), Ok(()));
        drop(first);
        assert!(sessions.enter(&id, &me).is_ok());
    }

    #[test]
    fn anothers_session_does_not_exist() {
        let (sessions, me, you) = (sessions(), caller("me"), caller("you"));
        let (id, _) = sessions.create(&me);
        assert_eq!(sessions.end(&id, &you), Err(SessionRefusal::NotFound));
        assert_eq!(sessions.end(&id, &me), Ok(()));
        assert_eq!(sessions.end(&id, &me), Err(SessionRefusal::NotFound));
    }
}
