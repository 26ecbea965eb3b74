//! Acquiring, renewing and giving back the Lease.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::PostParams;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::Leadership;
use super::lease::{Me, Step, Watcher};
use crate::chain::Chain;
use crate::config::FIELD_MANAGER;

/// The clockwork of the Lease.
#[derive(Debug, Clone, Copy)]
pub struct LeaseTimes {
    /// How long the others wait after the last renewal that they saw.
    pub duration: Duration,
    /// How long after its last renewal a holder gives up and writes no more. The difference to `duration` is what a
    /// request under way may still take.
    pub give_up: Duration,
    /// The pause between renewals.
    pub renew_every: Duration,
    /// The pause after a failure, and the longest between two looks at somebody else's Lease.
    pub retry_every: Duration,
}

impl Default for LeaseTimes {
    /// The times that Kubernetes' own components use.
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(15),
            give_up: Duration::from_secs(10),
            renew_every: Duration::from_secs(5),
            retry_every: Duration::from_secs(2),
        }
    }
}

/// Why the process leads no longer.
#[derive(Debug, thiserror::Error)]
pub enum ElectionError {
    /// Another process holds the Lease.
    #[error("the lease is held by {0} now")]
    Taken(String),
    /// The Lease could not be renewed for too long.
    #[error("the lease could not be renewed in time")]
    NotRenewed,
}

/// Why a single write of the Lease failed.
enum WriteFailure {
    /// Somebody else wrote first.
    Conflict,
    /// Anything else: try again.
    Other,
}

/// Takes part in the election. Its client must not be behind [`super::WriteFence`]: it writes in order to lead.
pub struct Elector {
    leases: Api<Lease>,
    me: Me,
    times: LeaseTimes,
    leadership: Leadership,
}

/// The Lease while this process holds it, as last written.
pub struct Held(Lease);

impl Elector {
    /// Returns a candidate called `holder` for the Lease of the operator in a namespace.
    pub fn new(
        client: kube::Client,
        namespace: &str,
        holder: &str,
        times: LeaseTimes,
        leadership: Leadership,
    ) -> Self {
        let me = Me { name: FIELD_MANAGER.to_owned(), holder: holder.to_owned(), duration: times.duration };
        Self { leases: Api::namespaced(client, namespace), me, times, leadership }
    }

    /// Waits until this process leads. `looked` is called once the Lease, or its absence, has been seen: from then on
    /// the process is a working candidate. Never fails: whatever goes wrong is tried again. Cancel safe.
    pub async fn acquire(&self, looked: impl Fn()) -> Held {
        let mut watcher = Watcher::default();
        loop {
            let sent_at = self.leadership.now();
            let pause = match self.bounded("read", self.leases.get_opt(&self.me.name)).await {
                None => self.times.retry_every,
                Some(found) => {
                    looked();
                    let step = match &found {
                        None => Step::Take(Box::new(self.me.create(Timestamp::now()))),
                        Some(lease) => watcher.look(lease, &self.me, Instant::now(), Timestamp::now()),
                    };
                    match step {
                        Step::Wait(left) => left.min(self.times.retry_every),
                        Step::Take(lease) => match self.write(&lease, found.is_none()).await {
                            Ok(lease) => {
                                self.leadership.renewed(sent_at);
                                tracing::info!(holder = self.me.holder, "leading");
                                return Held(lease);
                            }
                            Err(_) => self.times.retry_every,
                        },
                    }
                }
            };
            sleep(pause).await;
        }
    }

    /// Renews the Lease until it is lost, or until cancelled: then it is given back. Whatever happens, no write passes
    /// the fence any more when this returns.
    pub async fn hold(&self, held: Held, cancel: &CancellationToken) -> Result<(), ElectionError> {
        let Held(mut lease) = held;
        let outcome = cancel.run_until_cancelled(self.renew(&mut lease)).await;
        self.leadership.lost();
        if let Some(error) = outcome {
            return Err(error);
        }
        self.release(&lease).await;
        Ok(())
    }

    /// Renews for ever; returns why it could not.
    async fn renew(&self, lease: &mut Lease) -> ElectionError {
        loop {
            sleep(self.times.renew_every).await;
            loop {
                let sent_at = self.leadership.now();
                match self.write(&self.me.take(lease, Timestamp::now()), false).await {
                    Ok(written) => {
                        *lease = written;
                        self.leadership.renewed(sent_at);
                        break;
                    }
                    Err(WriteFailure::Conflict) => match self.reread(lease).await {
                        Ok(()) => {}
                        Err(taken) => return taken,
                    },
                    Err(WriteFailure::Other) => {}
                }
                // Checked last, so that a lease which is too old ends in no further request.
                let Some(left) = self.leadership.remaining() else { return ElectionError::NotRenewed };
                sleep(left.min(self.times.retry_every)).await;
            }
        }
    }

    /// Reads the Lease after a conflict: somebody edited it, or somebody else took it.
    async fn reread(&self, lease: &mut Lease) -> Result<(), ElectionError> {
        let Some(found) = self.bounded("read", self.leases.get_opt(&self.me.name)).await else {
            return Ok(());
        };
        match found {
            // Deleted: whoever is first may have it now.
            None => Err(ElectionError::Taken("nobody".to_owned())),
            Some(found) if self.me.holds(&found) => {
                *lease = found;
                Ok(())
            }
            Some(found) => {
                let holder = found.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
                Err(ElectionError::Taken(holder))
            }
        }
    }

    /// Gives the Lease back, once: if it fails, the next leader waits for the Lease to end.
    async fn release(&self, lease: &Lease) {
        if self.write(&Me::release(lease, Timestamp::now()), false).await.is_ok() {
            tracing::info!(holder = self.me.holder, "lease given back");
        }
    }

    async fn write(&self, lease: &Lease, create: bool) -> Result<Lease, WriteFailure> {
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let call = async {
            let result = if create {
                self.leases.create(&params, lease).await
            } else {
                self.leases.replace(&self.me.name, &params, lease).await
            };
            match result {
                Ok(lease) => Ok(Ok(lease)),
                // 404: deleted under us.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
                    Ok(Err(WriteFailure::Conflict))
                }
                Err(error) => Err(error),
            }
        };
        self.bounded("write", call).await.unwrap_or(Err(WriteFailure::Other))
    }

    /// Waits for a call no longer than half the time in which a holder gives up, so that one lost packet is not the end.
    async fn bounded<T>(
        &self,
        action: &'static str,
        call: impl Future<Output = kube::Result<T>>,
    ) -> Option<T> {
        match timeout(self.times.give_up / 2, call).await {
            Ok(Ok(value)) => Some(value),
            Ok(Err(error)) => {
                tracing::warn!(action, error = %Chain(&error), "lease call failed");
                None
            }
            Err(_) => {
                tracing::warn!(action, "lease call without an answer");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leader::Clock;
    use crate::mock_api::{Call, MockApi};
    use serde_json::{Value, json};
    use std::sync::Arc;
    use tokio::task::JoinHandle;

    const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/cuddy-system/leases/cuddy-operator";

    /// Tokio's clock, which the tests pause, in the place of CLOCK_BOOTTIME.
    struct PausedClock(Instant);
    impl Clock for PausedClock {
        fn now(&self) -> Duration {
            // Time zero means "never".
            self.0.elapsed() + Duration::from_secs(1)
        }
    }

    struct Candidate {
        elector: Arc<Elector>,
        api: MockApi,
        leadership: Leadership,
    }

    fn candidate() -> Candidate {
        let (client, api) = MockApi::new();
        let times = LeaseTimes::default();
        let leadership = Leadership::new(times.give_up, Arc::new(PausedClock(Instant::now())));
        let elector = Elector::new(client, "cuddy-system", "pod-a", times, leadership.clone());
        Candidate { elector: Arc::new(elector), api, leadership }
    }

    impl Candidate {
        fn acquire(&self) -> JoinHandle<Held> {
            let elector = self.elector.clone();
            tokio::spawn(async move { elector.acquire(|| ()).await })
        }

        fn hold(&self, held: Held, cancel: &CancellationToken) -> JoinHandle<Result<(), ElectionError>> {
            let (elector, cancel) = (self.elector.clone(), cancel.clone());
            tokio::spawn(async move { elector.hold(held, &cancel).await })
        }

        /// Lets the candidate win over an absent Lease.
        async fn lead(&mut self) -> Held {
            let acquiring = self.acquire();
            self.api.next().await.refuse(404, "NotFound");
            self.api.next().await.echo();
            acquiring.await.unwrap()
        }
    }

    fn lease(holder: &str, version: &str) -> Value {
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": "cuddy-operator", "resourceVersion": version },
            "spec": { "holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 4,
                      "renewTime": "2026-03-01T12:00:00.000000Z" },
        })
    }

    fn holder(call: &Call) -> &str {
        call.body["spec"]["holderIdentity"].as_str().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn an_absent_lease_is_made() {
        let mut it = candidate();
        assert!(it.leadership.check().is_err());
        let acquiring = it.acquire();
        let call = it.api.next().await;
        assert_eq!((call.method.as_str(), call.path.as_str()), ("GET", PATH));
        call.refuse(404, "NotFound");
        let call = it.api.next().await;
        assert_eq!((call.method.as_str(), holder(&call)), ("POST", "pod-a"));
        assert!(it.leadership.check().is_err(), "not before the answer");
        call.echo();
        acquiring.await.unwrap();
        assert!(it.leadership.check().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn another_ones_lease_is_taken_when_it_has_not_changed_for_its_length() {
        let mut it = candidate();
        let began = Instant::now();
        let acquiring = it.acquire();
        let mut looks = 0;
        let call = loop {
            let call = it.api.next().await;
            if call.method != http::Method::GET {
                break call;
            }
            looks += 1;
            call.answer(&lease("pod-b", "7"));
        };
        assert!((15..18).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
        assert!((8..10).contains(&looks), "{looks}");
        assert_eq!((call.method.as_str(), holder(&call)), ("PUT", "pod-a"));
        assert_eq!(call.body["metadata"]["resourceVersion"], "7", "of two takers one must fail");
        assert_eq!(call.body["spec"]["leaseTransitions"], 5);
        call.echo();
        acquiring.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn who_loses_the_race_waits_on() {
        let mut it = candidate();
        let acquiring = it.acquire();
        it.api.next().await.answer(&lease("", "7"));
        it.api.next().await.refuse(409, "Conflict");
        let call = it.api.next().await;
        assert_eq!(call.method, http::Method::GET);
        call.answer(&lease("pod-b", "8"));
        assert!(it.leadership.check().is_err() && !acquiring.is_finished());
        acquiring.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_server_that_fails_is_asked_again() {
        let mut it = candidate();
        let acquiring = it.acquire();
        it.api.next().await.refuse(500, "InternalError");
        // No answer at all: given up after five seconds.
        let unanswered = it.api.next().await;
        it.api.next().await.answer(&lease("pod-a", "9"));
        drop(unanswered);
        it.api.next().await.echo();
        acquiring.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_lease_is_renewed_and_given_back() {
        let mut it = candidate();
        let held = it.lead().await;
        let cancel = CancellationToken::new();
        let began = Instant::now();
        let holding = it.hold(held, &cancel);
        for _ in 0..5 {
            let call = it.api.next().await;
            assert_eq!((call.method.as_str(), holder(&call)), ("PUT", "pod-a"));
            call.echo();
        }
        assert_eq!(began.elapsed().as_secs(), 25);
        assert!(it.leadership.check().is_ok());
        cancel.cancel();
        let call = it.api.next().await;
        assert_eq!((call.method.as_str(), holder(&call)), ("PUT", ""));
        assert!(it.leadership.check().is_err(), "no write passes while the lease is given back");
        call.echo();
        holding.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_cannot_be_renewed_is_lost_before_others_may_take_it() {
        let mut it = candidate();
        let held = it.lead().await;
        let began = Instant::now();
        let holding = it.hold(held, &CancellationToken::new());
        while !holding.is_finished() {
            tokio::select! {
                call = it.api.next() => call.refuse(500, "InternalError"),
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
            }
        }
        assert!(matches!(holding.await.unwrap(), Err(ElectionError::NotRenewed)));
        assert!(it.leadership.check().is_err());
        assert!((10..14).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_others_took_ends_it_at_once() {
        for (after_conflict, expected) in [(Some("pod-b"), "pod-b"), (None, "nobody")] {
            let mut it = candidate();
            let held = it.lead().await;
            let holding = it.hold(held, &CancellationToken::new());
            it.api.next().await.refuse(409, "Conflict");
            let call = it.api.next().await;
            match after_conflict {
                Some(holder) => call.answer(&lease(holder, "9")),
                None => call.refuse(404, "NotFound"),
            }
            let Err(ElectionError::Taken(by)) = holding.await.unwrap() else { panic!() };
            assert_eq!(by, expected);
            assert!(it.leadership.check().is_err());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_edited_lease_that_is_still_ours_is_renewed_on() {
        let mut it = candidate();
        let held = it.lead().await;
        let cancel = CancellationToken::new();
        let holding = it.hold(held, &cancel);
        it.api.next().await.refuse(409, "Conflict");
        it.api.next().await.answer(&lease("pod-a", "12"));
        let call = it.api.next().await;
        assert_eq!(call.body["metadata"]["resourceVersion"], "12");
        call.echo();
        assert!(!holding.is_finished());
        holding.abort();
    }
}
