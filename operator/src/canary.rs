//! The operator's two canary listeners: twins on one address, one of which policies allow while a gate is closed.
//!
//! Both hand out the nonce of the round that is under way for the address which dials, and nothing to anybody else. They
//! read nothing.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;

/// The most connections at a time per listener: a burst of a thousand new pods has one each for milliseconds, and whoever
/// floods the port must not take the operator's descriptors.
const MOST_CONNECTIONS: usize = 1024;
/// How long a connection lives: the sidecar gives up after one second.
const CONNECTION: Duration = Duration::from_secs(1);
/// The pause after a failed accept, which fails again at once when descriptors are short.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// One round as the listeners see it.
struct Entry {
    nonce: String,
    arrived: watch::Sender<bool>,
    released: watch::Receiver<bool>,
    /// Whether the pod has connected to the forbidden listener.
    crossed: Arc<AtomicBool>,
}

type Rounds = Arc<Mutex<HashMap<IpAddr, Entry>>>;

/// The rounds that are under way, and where the listeners are. Cloning is cheap.
#[derive(Clone)]
pub struct Canary {
    rounds: Rounds,
    allowed: SocketAddr,
    forbidden: SocketAddr,
}

/// The two listeners, bound and not yet served.
pub struct CanaryListeners {
    allowed: TcpListener,
    forbidden: TcpListener,
}

/// Which of the twins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Twin {
    Allowed,
    Forbidden,
}

impl CanaryListeners {
    /// Binds both listeners on the pod's own address. Port 0 takes any.
    pub async fn bind(address: IpAddr, allowed: u16, forbidden: u16) -> io::Result<Self> {
        Ok(Self {
            allowed: TcpListener::bind((address, allowed)).await?,
            forbidden: TcpListener::bind((address, forbidden)).await?,
        })
    }

    /// Serves both until cancelled. The future ends once both listeners are closed.
    pub fn serve(
        self,
        metrics: Metrics,
        cancel: CancellationToken,
    ) -> io::Result<(Canary, impl Future<Output = ()>)> {
        let canary = Canary {
            rounds: Rounds::default(),
            allowed: self.allowed.local_addr()?,
            forbidden: self.forbidden.local_addr()?,
        };
        let allowed = listen(self.allowed, Twin::Allowed, canary.rounds.clone(), metrics.clone());
        let forbidden = listen(self.forbidden, Twin::Forbidden, canary.rounds.clone(), metrics);
        let both = async move {
            let _ = cancel.run_until_cancelled(futures::future::join(allowed, forbidden)).await;
        };
        Ok((canary, both))
    }
}

impl Canary {
    /// Returns the address that policies allow while a gate is closed.
    pub const fn allowed_address(&self) -> SocketAddr {
        self.allowed
    }

    /// Returns the address that nothing allows.
    pub const fn forbidden_address(&self) -> SocketAddr {
        self.forbidden
    }

    /// Begins a round for the pod at an address. It lasts until the returned value is dropped. A second round for the same
    /// address takes the first one's place.
    pub fn begin(&self, pod: IpAddr, nonce: &str) -> Round {
        let (arrived, arrival) = watch::channel(false);
        let (release, released) = watch::channel(false);
        let crossed = Arc::default();
        let entry = Entry { nonce: nonce.to_owned(), arrived, released, crossed: Arc::clone(&crossed) };
        self.rounds.lock().insert(pod.to_canonical(), entry);
        Round {
            rounds: self.rounds.clone(),
            pod: pod.to_canonical(),
            nonce: nonce.to_owned(),
            arrival,
            release,
            crossed,
        }
    }
}

/// A round under way.
pub struct Round {
    rounds: Rounds,
    pod: IpAddr,
    nonce: String,
    arrival: watch::Receiver<bool>,
    release: watch::Sender<bool>,
    crossed: Arc<AtomicBool>,
}

impl Round {
    /// Waits until the pod has connected to the allowed listener, where it gets no answer before [`Self::release`]. Never
    /// ends if another round has taken this one's place.
    pub async fn arrived(&self) {
        if self.arrival.clone().wait_for(|arrived| *arrived).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Says whether the pod has connected to the allowed listener.
    pub fn has_arrived(&self) -> bool {
        *self.arrival.borrow()
    }

    /// Says whether the pod has connected to the forbidden listener in this round: then the way out is open, whatever the
    /// pod says of it.
    pub fn has_crossed(&self) -> bool {
        self.crossed.load(Ordering::Acquire)
    }

    /// Lets the allowed listener answer.
    pub fn release(&self) {
        self.release.send_replace(true);
    }
}

impl Drop for Round {
    fn drop(&mut self) {
        let mut rounds = self.rounds.lock();
        if rounds.get(&self.pod).is_some_and(|entry| entry.nonce == self.nonce) {
            rounds.remove(&self.pod);
        }
    }
}

async fn listen(listener: TcpListener, twin: Twin, rounds: Rounds, metrics: Metrics) {
    let permits = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, ?twin, "canary listener cannot accept");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(permit) = permits.clone().try_acquire_owned() else {
            metrics.canary_refused();
            continue;
        };
        let rounds = rounds.clone();
        tokio::spawn(async move {
            // Whoever went away or does not read has had his chance.
            let _ = timeout(CONNECTION, answer(stream, peer.ip().to_canonical(), twin, &rounds)).await;
            drop(permit);
        });
    }
}

async fn answer(mut stream: TcpStream, peer: IpAddr, twin: Twin, rounds: &Rounds) -> io::Result<()> {
    let (line, mut released) = {
        let rounds = rounds.lock();
        let Some(entry) = rounds.get(&peer) else { return Ok(()) };
        match twin {
            Twin::Allowed => {
                entry.arrived.send_replace(true);
            }
            Twin::Forbidden => entry.crossed.store(true, Ordering::Release),
        }
        (format!("{}\n", entry.nonce), entry.released.clone())
    };
    if twin == Twin::Allowed && released.wait_for(|released| *released).await.is_err() {
        // The round is over.
        return Ok(());
    }
    stream.write_all(line.as_bytes()).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    async fn listeners() -> (Canary, CancellationToken) {
        let cancel = CancellationToken::new();
        let listeners = CanaryListeners::bind(HERE, 0, 0).await.unwrap();
        let (canary, serve) = listeners.serve(Metrics::default(), cancel.clone()).unwrap();
        tokio::spawn(serve);
        (canary, cancel)
    }

    async fn answer_of(address: SocketAddr) -> String {
        let mut text = String::new();
        // A reset is an answer too: nothing.
        let _ = TcpStream::connect(address).await.unwrap().read_to_string(&mut text).await;
        text
    }

    #[tokio::test]
    async fn who_has_no_round_under_way_gets_nothing() {
        let (canary, _cancel) = listeners().await;
        let round = canary.begin("10.1.2.3".parse().unwrap(), "someone-elses");
        round.release();
        assert_eq!(answer_of(canary.allowed_address()).await, "");
        assert_eq!(answer_of(canary.forbidden_address()).await, "");
        let round = canary.begin(HERE, "mine");
        assert!(!round.has_crossed());
        assert_eq!(answer_of(canary.forbidden_address()).await, "mine\n");
        assert!(round.has_crossed());
        drop(round);
        assert_eq!(answer_of(canary.forbidden_address()).await, "");
    }

    #[tokio::test]
    async fn the_allowed_twin_answers_when_it_is_released() {
        let (canary, _cancel) = listeners().await;
        let round = canary.begin(HERE, "n-1");
        assert!(!round.has_arrived());
        let mut stream = TcpStream::connect(canary.allowed_address()).await.unwrap();
        round.arrived().await;
        assert!(round.has_arrived());
        let mut byte = [0];
        let early = stream.try_read(&mut byte);
        assert!(matches!(early, Err(e) if e.kind() == io::ErrorKind::WouldBlock));
        round.release();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "n-1\n");
    }

    #[tokio::test]
    async fn a_round_that_ends_takes_its_connection_along() {
        let (canary, _cancel) = listeners().await;
        let round = canary.begin(HERE, "n-1");
        let mut stream = TcpStream::connect(canary.allowed_address()).await.unwrap();
        round.arrived().await;
        drop(round);
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "");
    }

    #[tokio::test]
    async fn a_new_round_takes_the_old_ones_place() {
        let (canary, _cancel) = listeners().await;
        let old = canary.begin(HERE, "old");
        let new = canary.begin(HERE, "new");
        drop(old);
        assert_eq!(answer_of(canary.forbidden_address()).await, "new\n");
        drop(new);
        assert!(canary.rounds.lock().is_empty());
    }

    #[tokio::test]
    async fn listeners_close_when_cancelled() {
        let (canary, cancel) = listeners().await;
        cancel.cancel();
        let deadline = tokio::time::Instant::now() + Duration::from_secs(5);
        while TcpStream::connect(canary.allowed_address()).await.is_ok() {
            assert!(tokio::time::Instant::now() < deadline);
            tokio::task::yield_now().await;
        }
    }
}
