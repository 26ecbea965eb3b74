//! The sidecar's side of the proof that the network policy works: a listener that must not be reached, and two dials of
//! which one must not get through. Only a nonce counts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use cuddy_protocol::control::{Dial, ProbeAnswer, ProbeRequest};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};

/// How long a dial may take, the nonce included.
const DIAL: Duration = Duration::from_secs(1);
/// How long the listener answers with a round's nonce. The operator dials within the time of its request (2 s) and waits
/// for a second: a round that ended sooner could make an open path look closed.
const ROUND: Duration = Duration::from_secs(3);
/// The pause after a failed accept, which fails again at once when handles are short.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The length of a nonce.
const NONCE: usize = 32;

/// Why a probe is not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// An address is none.
    #[error("{field} is no address and port")]
    Address {
        /// The field.
        field: &'static str,
    },
    /// The nonce is none.
    #[error("nonce is no 32 hexadecimal digits")]
    Nonce,
}

/// The rounds of the probe.
#[derive(Debug, Clone, Default)]
pub struct Probe {
    round: Arc<Mutex<Option<(String, Instant)>>>,
}

impl Probe {
    /// Makes one round: from now on the listener answers with the nonce, and both addresses are dialled.
    pub async fn round(&self, request: &ProbeRequest) -> Result<ProbeAnswer, ProbeError> {
        let address =
            |text: &str, field| text.parse::<SocketAddr>().map_err(|_| ProbeError::Address { field });
        let control = address(&request.control_address, "controlAddress")?;
        let canary = address(&request.canary_address, "canaryAddress")?;
        let nonce = &request.nonce;
        if nonce.len() != NONCE || !nonce.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(ProbeError::Nonce);
        }
        *self.round.lock() = Some((nonce.clone(), Instant::now() + ROUND));
        let (control, canary) = tokio::join!(dial(control, nonce), dial(canary, nonce));
        Ok(ProbeAnswer { control, canary })
    }

    fn nonce(&self) -> Option<String> {
        let round = self.round.lock();
        round.as_ref().filter(|(_, until)| Instant::now() < *until).map(|(nonce, _)| nonce.clone())
    }

    /// Answers with the nonce of the present round, and closes the connection without a word when there is none. Ends,
    /// and closes the listener, when `until` does.
    pub async fn listen(self, listener: TcpListener, until: impl Future<Output = ()>) {
        let answering = async {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => self.answer(stream).await,
                    Err(error) => {
                        tracing::debug!(%error, "the probe listener cannot accept");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        };
        tokio::select! {
            () = answering => {}
            () = until => {}
        }
    }

    /// A line fits into the socket's empty buffer, so that nobody can hold the listener up.
    async fn answer(&self, mut stream: TcpStream) {
        if let Some(nonce) = self.nonce() {
            let _ = timeout(DIAL, stream.write_all(format!("{nonce}\n").as_bytes())).await;
        }
    }
}

async fn dial(address: SocketAddr, nonce: &str) -> Dial {
    let attempt = async {
        let mut stream = TcpStream::connect(address).await?;
        let mut line = [0; NONCE + 1];
        stream.read_exact(&mut line).await?;
        Ok::<_, std::io::Error>(line)
    };
    match timeout(DIAL, attempt).await {
        Ok(Ok(line)) if line.strip_suffix(b"\n") == Some(nonce.as_bytes()) => Dial::Through,
        _ => Dial::NotThrough,
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    const NONCE_1: &str = "00112233445566778899aabbccddeeff";

    async fn answering(text: &'static str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = stream.write_all(text.as_bytes()).await;
            }
        });
        address
    }

    async fn silent() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    fn request(control: SocketAddr, canary: SocketAddr) -> ProbeRequest {
        ProbeRequest {
            control_address: control.to_string(),
            canary_address: canary.to_string(),
            nonce: NONCE_1.to_owned(),
        }
    }

    #[tokio::test]
    async fn only_the_nonce_counts_as_through() {
        let good = answering("00112233445566778899aabbccddeeff\n").await;
        let (_held, waits) = silent().await;
        let (refuses, refused) = silent().await;
        drop(refuses);
        let others = [
            refused,
            waits,
            answering("").await,
            answering("00112233445566778899aabbccddeefe\n").await,
            answering("00112233445566778899aabbccddeeff ").await,
        ];
        let probe = Probe::default();
        for other in others {
            let answer = probe.round(&request(good, other)).await.unwrap();
            assert_eq!(answer, ProbeAnswer { control: Dial::Through, canary: Dial::NotThrough }, "{other}");
        }
        let answer = probe.round(&request(good, good)).await.unwrap();
        assert_eq!(answer.canary, Dial::Through);
    }

    #[tokio::test]
    async fn other_requests_are_refused() {
        let probe = Probe::default();
        let good = request("127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap());
        for (bad, error) in [
            (ProbeRequest { control_address: "localhost:1".to_owned(), ..good.clone() }, "controlAddress"),
            (ProbeRequest { canary_address: String::new(), ..good.clone() }, "canaryAddress"),
            (ProbeRequest { nonce: "x".repeat(32), ..good.clone() }, "nonce"),
            (ProbeRequest { nonce: "ab\n".to_owned(), ..good }, "nonce"),
        ] {
            assert!(probe.round(&bad).await.unwrap_err().to_string().starts_with(error));
            assert_eq!(probe.nonce(), None);
        }
    }

    #[tokio::test]
    async fn the_listener_answers_in_a_round_and_is_gone_after() {
        let (listener, address) = silent().await;
        let (end, ended) = oneshot::channel::<()>();
        let probe = Probe::default();
        let listening = tokio::spawn(probe.clone().listen(listener, async {
            let _ = ended.await;
        }));
        assert_eq!(dial(address, NONCE_1).await, Dial::NotThrough);
        let (refuses, refused) = silent().await;
        drop(refuses);
        probe.round(&request(refused, refused)).await.unwrap();
        assert_eq!(dial(address, NONCE_1).await, Dial::Through);
        end.send(()).unwrap();
        listening.await.unwrap();
        assert!(TcpStream::connect(address).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_round_ends_by_itself() {
        let probe = Probe::default();
        *probe.round.lock() = Some((NONCE_1.to_owned(), Instant::now() + ROUND));
        tokio::time::advance(Duration::from_millis(2999)).await;
        assert!(probe.nonce().is_some());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(probe.nonce(), None);
    }
}
