//! The isolation gate: two pairs of paths, one of each pair allowed and one forbidden, that differ in the port alone.
//!
//! In: the control port answers over TLS with the environment's own name (allowed), and the sidecar's probe listener must
//! not hand its nonce over (forbidden). Out: the sidecar gets the nonce from the operator's allowed canary listener, and
//! must not get it from the forbidden one. Only a nonce counts as through; refused, reset and timed out are all the same;
//! and where an allowed path is not through, its forbidden twin says nothing.
//!
//! The dial in has to happen while the sidecar's probe listener answers. So the allowed canary listener holds its answer
//! back: when the sidecar's connection arrives there, the round is under way in the sidecar, the dial in is made, and only
//! then the nonce is handed out ([`dial_while_held`]).

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use cuddy_protocol::control::Dial;
use futures::future::{Either, select};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::{ControlError, Isolation};
use crate::canary::Round;

/// How many rounds in a row have to agree. One may meet an enforcer in the middle of its work; three are several round
/// trips apart.
const ROUNDS: u32 = 3;
/// How long a dial may take, the nonce included: as long as the sidecar's.
const DIAL: Duration = Duration::from_secs(1);
/// How long the allowed listener's answer is held back for the dial in. The sidecar's own dial ends after a second, so
/// that this leaves half of it for the answer. A path that is open inside a cluster answers within milliseconds.
const HOLD: Duration = Duration::from_millis(500);

/// The number of a nonce's digits.
const NONCE: usize = 32;

/// How long the gate waits for a policy to be enforced.
#[derive(Debug, Clone, Copy)]
pub struct GateTimes {
    /// How long a finding other than isolated is looked at again before it is the answer. Enforcers are late with a new
    /// pod: 32 to 211 ms were measured on an idle machine, seconds are known from busy ones.
    pub settle: Duration,
    /// The pause before another look.
    pub pause: Duration,
}

impl Default for GateTimes {
    fn default() -> Self {
        Self { settle: Duration::from_secs(10), pause: Duration::from_millis(100) }
    }
}

/// What one round has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RoundSeen {
    /// The sidecar's dial of the allowed listener.
    pub(super) control: Dial,
    /// The sidecar's dial of the forbidden listener.
    pub(super) canary: Dial,
    /// The operator's dial of the probe listener; `None` when there was no moment to make it in, because the sidecar's
    /// dial of the allowed listener never arrived.
    pub(super) inbound: Option<Dial>,
}

/// What a round means.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Finding {
    /// The forbidden paths are closed and the allowed ones open.
    Isolated,
    /// A forbidden path is open.
    Leaks,
    /// The allowed path out is closed: nothing is known.
    Blind,
    /// The allowed path in is closed: nothing is known.
    Silent(String),
}

fn classify(seen: RoundSeen) -> Finding {
    match (seen.control, seen.canary, seen.inbound) {
        // A nonce from a forbidden path proves the leak whatever the allowed one does.
        (_, Dial::Through, _) | (_, _, Some(Dial::Through)) => Finding::Leaks,
        (Dial::Through, Dial::NotThrough, Some(Dial::NotThrough)) => Finding::Isolated,
        (Dial::NotThrough, Dial::NotThrough, _) | (Dial::Through, Dial::NotThrough, None) => Finding::Blind,
    }
}

/// Makes rounds until three in a row are isolated, or until another finding has been looked at again for long enough.
pub(super) async fn settle<F, R>(times: &GateTimes, mut round: F) -> Result<Isolation, ControlError>
where
    F: FnMut() -> R,
    R: Future<Output = Result<RoundSeen, ControlError>>,
{
    let deadline = Instant::now() + times.settle;
    let mut agreed = 0;
    loop {
        let finding = match round().await {
            Ok(seen) => classify(seen),
            Err(ControlError::Unreachable(why)) => Finding::Silent(why),
            Err(other) => return Err(other),
        };
        if finding == Finding::Isolated {
            agreed += 1;
            if agreed == ROUNDS {
                return Ok(Isolation::Verified);
            }
            continue;
        }
        agreed = 0;
        if Instant::now() >= deadline {
            return match finding {
                Finding::Leaks => Ok(Isolation::NotEnforced),
                Finding::Silent(why) => Err(ControlError::Unreachable(why)),
                Finding::Blind | Finding::Isolated => Ok(Isolation::CanaryUnreachable),
            };
        }
        sleep(times.pause).await;
    }
}

/// Returns a fresh nonce: 32 hex digits.
pub(super) fn nonce() -> Result<String, getrandom::Error> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

/// Waits for the sidecar's connection to the allowed listener, dials the forbidden way in, and lets the listener answer.
pub(super) async fn dial_while_held(probe: SocketAddr, round: &Round) -> Dial {
    round.arrived().await;
    let mut dial = pin!(dial(probe));
    let early = timeout(HOLD, &mut dial).await;
    round.release();
    match early {
        Ok(seen) => seen,
        Err(_) => dial.await,
    }
}

/// Runs the sidecar's probe and the dial in beside each other. When the probe ends before the moment for the dial in has
/// come, it never will, and there is none.
pub(super) async fn together<A>(
    probe: impl Future<Output = A>,
    inbound: impl Future<Output = Dial>,
    round: &Round,
) -> (A, Option<Dial>) {
    let (probe, inbound) = (pin!(probe), pin!(inbound));
    match select(probe, inbound).await {
        Either::Left((answer, inbound)) if round.has_arrived() => (answer, Some(inbound.await)),
        Either::Left((answer, _)) => (answer, None),
        Either::Right((seen, probe)) => (probe.await, Some(seen)),
    }
}

/// Dials the forbidden way in. Through if a nonce comes back: any nonce, since one of an earlier round has crossed the
/// same wall.
async fn dial(address: SocketAddr) -> Dial {
    let attempt = async {
        let mut stream = TcpStream::connect(address).await?;
        let mut line = [0; NONCE + 1];
        stream.read_exact(&mut line).await?;
        Ok::<_, std::io::Error>(line)
    };
    match timeout(DIAL, attempt).await {
        Ok(Ok(line)) if is_nonce(&line) => Dial::Through,
        _ => Dial::NotThrough,
    }
}

/// Says whether a line is a nonce with its end.
fn is_nonce(line: &[u8]) -> bool {
    let digits = line.strip_suffix(b"\n");
    digits.is_some_and(|digits| digits.len() == NONCE && digits.iter().all(u8::is_ascii_hexdigit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Dial::{NotThrough, Through};
    use std::cell::RefCell;
    use std::collections::VecDeque;
    use std::future::ready;

    const ISOLATED: RoundSeen = RoundSeen { control: Through, canary: NotThrough, inbound: Some(NotThrough) };
    const OUT_LEAKS: RoundSeen = RoundSeen { canary: Through, ..ISOLATED };
    const IN_LEAKS: RoundSeen = RoundSeen { inbound: Some(Through), ..ISOLATED };
    const BLIND: RoundSeen = RoundSeen { control: NotThrough, inbound: None, ..ISOLATED };

    #[test]
    fn only_one_of_all_rounds_is_isolated() {
        let mut isolated = 0;
        for control in [Through, NotThrough] {
            for canary in [Through, NotThrough] {
                for inbound in [Some(Through), Some(NotThrough), None] {
                    let seen = RoundSeen { control, canary, inbound };
                    let expected = if canary == Through || inbound == Some(Through) {
                        Finding::Leaks
                    } else if seen == ISOLATED {
                        isolated += 1;
                        Finding::Isolated
                    } else {
                        Finding::Blind
                    };
                    assert_eq!(classify(seen), expected, "{seen:?}");
                }
            }
        }
        assert_eq!(isolated, 1);
    }

    fn unreachable() -> ControlError {
        ControlError::Unreachable("refused".to_owned())
    }

    /// Settles over rounds of 20 ms each; when they run out the last kind goes on for ever. Returns the answer, the rounds
    /// made, and the time taken.
    async fn settled(
        rounds: Vec<Result<RoundSeen, ControlError>>,
        last: fn() -> Result<RoundSeen, ControlError>,
    ) -> (Result<Isolation, ControlError>, u32, Duration) {
        let (left, made) = (RefCell::new(VecDeque::from(rounds)), RefCell::new(0));
        let started = Instant::now();
        let answer = settle(&GateTimes::default(), || {
            *made.borrow_mut() += 1;
            let next = left.borrow_mut().pop_front().unwrap_or_else(last);
            async { sleep(Duration::from_millis(20)).then_ready(next).await }
        })
        .await;
        (answer, made.into_inner(), started.elapsed())
    }

    trait ThenReady: Future<Output = ()> + Sized {
        async fn then_ready<T>(self, value: T) -> T {
            self.await;
            ready(value).await
        }
    }
    impl<F: Future<Output = ()>> ThenReady for F {}

    #[tokio::test(start_paused = true)]
    async fn three_rounds_in_a_row_verify_without_a_pause() {
        let (answer, made, took) = settled(vec![], || Ok(ISOLATED)).await;
        assert_eq!((answer.unwrap(), made), (Isolation::Verified, 3));
        assert_eq!(took.as_millis(), 60);
    }

    #[tokio::test(start_paused = true)]
    async fn a_policy_that_is_enforced_late_is_waited_for() {
        for late in [Ok(OUT_LEAKS), Ok(IN_LEAKS), Ok(BLIND), Err(unreachable())] {
            let rounds = vec![Ok(ISOLATED), Ok(ISOLATED), late, Ok(ISOLATED), Ok(ISOLATED), Ok(ISOLATED)];
            let (answer, made, _) = settled(rounds, || Ok(OUT_LEAKS)).await;
            assert_eq!((answer.unwrap(), made), (Isolation::Verified, 6), "the row starts anew");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_stays_is_the_answer_after_ten_seconds() {
        for (last, expected) in [
            ((|| Ok(OUT_LEAKS)) as fn() -> _, Isolation::NotEnforced),
            (|| Ok(IN_LEAKS), Isolation::NotEnforced),
            (|| Ok(BLIND), Isolation::CanaryUnreachable),
        ] {
            let (answer, _, took) = settled(vec![], last).await;
            assert_eq!(answer.unwrap(), expected);
            assert!((10.0..10.5).contains(&took.as_secs_f64()), "{took:?}");
        }
        let (answer, _, took) = settled(vec![], || Err(unreachable())).await;
        assert!(matches!(answer, Err(ControlError::Unreachable(_))));
        assert!((10.0..10.5).contains(&took.as_secs_f64()), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_sidecar_that_refuses_or_babbles_ends_it_at_once() {
        for error in
            [ControlError::Refused, ControlError::Malformed("x".into()), ControlError::Conflict("x".into())]
        {
            let category = error.category();
            let (answer, made, _) = settled(vec![Ok(ISOLATED), Err(error)], || Ok(ISOLATED)).await;
            assert_eq!((answer.unwrap_err().category(), made), (category, 2));
        }
    }

    #[test]
    fn nonces_are_fresh_and_of_the_protocols_form() {
        let (a, b) = (nonce().unwrap(), nonce().unwrap());
        assert_ne!(a, b);
        for nonce in [a, b] {
            assert!(is_nonce(format!("{nonce}\n").as_bytes()), "{nonce}");
        }
        for line in ["", "\n", "00112233445566778899aabbccddeeff", "HTTP/1.1 400 Bad Request........\n"] {
            assert!(!is_nonce(line.as_bytes()), "{line}");
        }
    }
}
