//! One connection's standing: whether a bearer has been seen on it, and when it last did anything.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use http::Extensions;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The connections that have shown no bearer yet, by age.
#[derive(Debug)]
pub(crate) struct Strangers {
    most: usize,
    waiting: Mutex<(u64, BTreeMap<u64, CancellationToken>)>,
}

impl Strangers {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most: most.max(1), waiting: Mutex::default() })
    }

    /// Takes a new connection in. Where there are too many the oldest has to go: whoever means it shows a bearer at once,
    /// and somebody who opens connections to keep others out cannot hold them.
    pub(crate) fn enter(self: &Arc<Self>) -> Connection {
        let evicted = CancellationToken::new();
        let mut waiting = self.waiting.lock();
        while waiting.1.len() >= self.most {
            if let Some((_, oldest)) = waiting.1.pop_first() {
                oldest.cancel();
            }
        }
        let id = waiting.0;
        waiting.0 += 1;
        waiting.1.insert(id, evicted.clone());
        Connection(Arc::new(Standing {
            id,
            strangers: Arc::clone(self),
            evicted,
            known: AtomicBool::new(false),
            active: AtomicUsize::new(0),
            last: Mutex::new(Instant::now()),
        }))
    }

    #[cfg(test)]
    fn count(&self) -> usize {
        self.waiting.lock().1.len()
    }
}

#[derive(Debug)]
struct Standing {
    id: u64,
    strangers: Arc<Strangers>,
    evicted: CancellationToken,
    known: AtomicBool,
    active: AtomicUsize,
    last: Mutex<Instant>,
}

impl Drop for Standing {
    fn drop(&mut self) {
        self.strangers.waiting.lock().1.remove(&self.id);
    }
}

/// A handle to one connection's standing; it travels in the extensions of each request.
#[derive(Debug, Clone)]
pub(crate) struct Connection(Arc<Standing>);

impl Connection {
    /// Counts a request in until the returned value is dropped.
    pub(crate) fn request(&self) -> ActiveRequest {
        self.0.active.fetch_add(1, Ordering::Relaxed);
        ActiveRequest(self.clone())
    }

    /// Returns the token that is cancelled when the connection has to make room.
    pub(crate) fn evicted(&self) -> &CancellationToken {
        &self.0.evicted
    }

    /// Returns when the connection is to be closed unless it does something; none while a request runs.
    pub(crate) fn deadline(&self, header: Duration, idle: Duration) -> Option<Instant> {
        if self.0.active.load(Ordering::Relaxed) > 0 {
            return None;
        }
        let allowed = if self.0.known.load(Ordering::Relaxed) { idle } else { header };
        Some(*self.0.last.lock() + allowed)
    }
}

/// A request that runs.
#[derive(Debug)]
pub(crate) struct ActiveRequest(Connection);

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        *self.0.0.last.lock() = Instant::now();
        self.0.0.active.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Says that the bearer of a request has been checked: its connection is a stranger's no more. Every router that checks
/// bearers calls this; requests that came another way have no connection, and nothing happens.
pub fn mark_known(extensions: &Extensions) {
    if let Some(connection) = extensions.get::<Connection>()
        && !connection.0.known.swap(true, Ordering::Relaxed)
    {
        connection.0.strangers.waiting.lock().1.remove(&connection.0.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_stranger_makes_room() {
        let strangers = Strangers::new(2);
        let (first, second) = (strangers.enter(), strangers.enter());
        let third = strangers.enter();
        assert!(first.evicted().is_cancelled());
        assert!(!second.evicted().is_cancelled() && !third.evicted().is_cancelled());
        drop((first, second, third));
        assert_eq!(strangers.count(), 0);
    }

    #[test]
    fn who_is_known_is_not_counted() {
        let strangers = Strangers::new(1);
        let known = strangers.enter();
        let mut extensions = Extensions::new();
        extensions.insert(known.clone());
        mark_known(&extensions);
        let _next = strangers.enter();
        assert!(!known.evicted().is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn deadlines_follow_the_standing() {
        let (header, idle) = (Duration::from_secs(10), Duration::from_secs(90));
        let strangers = Strangers::new(1);
        let connection = strangers.enter();
        let start = Instant::now();
        assert_eq!(connection.deadline(header, idle), Some(start + header));
        let request = connection.request();
        assert_eq!(connection.deadline(header, idle), None);
        tokio::time::advance(Duration::from_secs(20)).await;
        drop(request);
        assert_eq!(connection.deadline(header, idle), Some(start + Duration::from_secs(30)));
    }
}
