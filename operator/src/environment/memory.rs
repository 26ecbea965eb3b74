//! What the operator remembers of an Environment between two reconciles. None of it is needed: an operator that starts anew
//! finds everything out again. It saves calls, and bridges the moment in which a cache does not know our own last write.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use cuddy_crds::Environment;
use cuddy_protocol::control::ActivityReport;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::Resource;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::lifecycle::Proof;

/// For how long an object of ours counts that the cache does not show.
pub(super) const CACHE_LAG: Duration = Duration::from_secs(5);
/// The first wait before a failed pod is replaced.
const REPLACE_FIRST: Duration = Duration::from_secs(2);
/// The longest.
const REPLACE_LONGEST: Duration = Duration::from_mins(5);

/// What is remembered of one Environment.
#[derive(Debug, Clone, Default)]
pub struct Remembered {
    /// The Environment as our last write left it.
    pub environment: Recent<Environment>,
    /// The pod as our last write left it.
    pub pod: Recent<Pod>,
    /// The claim as our last write left it.
    pub claim: Recent<PersistentVolumeClaim>,
    /// The policy as our last write left it.
    pub policy: Recent<NetworkPolicy>,
    /// The Service as our last write left it.
    pub service: Recent<Service>,
    /// The UID of the pod whose deletion was asked for last.
    pub deleted_pod: Option<String>,
    /// What the sidecar said last.
    pub report: Option<LastReport>,
    /// Since when the sidecar of which pod does not answer.
    pub silent: Option<(String, Instant)>,
    /// What was seen of the isolation of which pod, and when.
    pub proof: Option<(String, Proof, Instant)>,
    /// The UID of the pod whose gate is open.
    pub open_pod: Option<String>,
    /// Whether the policy was changed by somebody since it was proved.
    pub reprove: bool,
    /// Pods that failed in a row.
    pub failures: u32,
    /// When the next pod may be made.
    pub replace_at: Option<Instant>,
    /// Whether the namespace is going away: everything in it goes, this Environment too.
    pub namespace_terminating: bool,
    /// When the status was last written.
    pub status_written: Option<Instant>,
}

/// What a sidecar said last.
#[derive(Debug, Clone)]
pub struct LastReport {
    /// The UID of its pod.
    pub pod_uid: String,
    /// What it said.
    pub report: ActivityReport,
    /// When it is asked again.
    pub due: Instant,
}

impl Remembered {
    /// Records that a pod failed; the next one waits longer after each failure in a row.
    pub fn pod_failed(&mut self, now: Instant) {
        let wait = REPLACE_FIRST * 2_u32.saturating_pow(self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        self.replace_at = Some(now + wait.min(REPLACE_LONGEST));
    }

    /// Records that a pod serves.
    pub fn pod_serves(&mut self) {
        self.failures = 0;
        self.replace_at = None;
    }
}

/// An object as our own last write left it, until the cache knows it too.
#[derive(Debug, Clone)]
pub struct Recent<K>(Option<(Arc<K>, Instant)>);

impl<K> Default for Recent<K> {
    fn default() -> Self {
        Self(None)
    }
}

impl<K: Resource> Recent<K> {
    /// Remembers an object that a write of ours returned.
    pub fn wrote(&mut self, object: Arc<K>, now: Instant) {
        self.0 = Some((object, now));
    }

    /// Forgets it: we deleted it.
    pub fn forget(&mut self) {
        self.0 = None;
    }

    /// Returns the newer one of what the cache shows and what we wrote.
    pub fn newer(&mut self, cached: Option<Arc<K>>, now: Instant) -> Option<Arc<K>> {
        let Some((own, at)) = &self.0 else { return cached };
        if now.saturating_duration_since(*at) > CACHE_LAG {
            self.0 = None;
            return cached;
        }
        match &cached {
            None => Some(own.clone()),
            Some(cached) if version(own.as_ref()) > version(cached.as_ref()) => Some(own.clone()),
            Some(_) => {
                self.0 = None;
                cached
            }
        }
    }

    /// Says whether something is remembered that the cache may not show yet.
    pub const fn is_some(&self) -> bool {
        self.0.is_some()
    }
}

/// Resource versions of one kind are ordered (Kubernetes 1.35 says so; all API servers before it made them from etcd's
/// revision). One that is no number counts as oldest, and then the cache wins.
fn version<K: Resource>(object: &K) -> u64 {
    object.meta().resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or_default()
}

/// All of it, by the Environments' UIDs. As many entries as there are Environments: one is dropped with its Environment.
#[derive(Debug, Default)]
pub struct Memory(Mutex<HashMap<String, Remembered>>);

impl Memory {
    /// Takes out what is remembered of an Environment. Reconciles of one Environment never overlap.
    pub fn take(&self, uid: &str) -> Remembered {
        self.0.lock().remove(uid).unwrap_or_default()
    }

    /// Puts it back.
    pub fn put(&self, uid: &str, remembered: Remembered) {
        self.0.lock().insert(uid.to_owned(), remembered);
    }

    /// Drops what belongs to Environments that are gone.
    pub fn retain(&self, alive: impl Fn(&str) -> bool) {
        self.0.lock().retain(|uid, _| alive(uid));
    }

    /// Returns of how many Environments something is remembered.
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Says whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;

    fn pod(version: &str) -> Arc<Pod> {
        let metadata = ObjectMeta { resource_version: Some(version.to_owned()), ..ObjectMeta::default() };
        Arc::new(Pod { metadata, ..Pod::default() })
    }

    fn versions(pod: Option<Arc<Pod>>) -> Option<String> {
        pod.and_then(|pod| pod.metadata.resource_version.clone())
    }

    #[tokio::test(start_paused = true)]
    async fn our_own_write_counts_until_the_cache_knows_it() {
        let start = Instant::now();
        let mut recent = Recent::default();
        assert_eq!(versions(recent.newer(Some(pod("3")), start)).as_deref(), Some("3"));
        recent.wrote(pod("10"), start);
        assert_eq!(versions(recent.newer(None, start)).as_deref(), Some("10"));
        assert_eq!(
            versions(recent.newer(Some(pod("9")), start)).as_deref(),
            Some("10"),
            "numbers, not texts"
        );
        assert_eq!(versions(recent.newer(Some(pod("11")), start)).as_deref(), Some("11"));
        assert_eq!(versions(recent.newer(None, start)), None, "the cache knew it, and it is gone");
    }

    #[tokio::test(start_paused = true)]
    async fn our_own_write_does_not_count_for_ever() {
        let start = Instant::now();
        let mut recent = Recent::default();
        recent.wrote(pod("10"), start);
        assert_eq!(versions(recent.newer(None, start + CACHE_LAG * 2)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn failed_pods_are_replaced_later_and_later() {
        let now = Instant::now();
        let mut remembered = Remembered::default();
        let waits: Vec<_> = (0..10)
            .map(|_| {
                remembered.pod_failed(now);
                remembered.replace_at.unwrap().duration_since(now).as_secs()
            })
            .collect();
        assert_eq!(waits, [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        remembered.pod_serves();
        assert_eq!((remembered.failures, remembered.replace_at), (0, None));
    }

    #[test]
    fn what_is_gone_is_forgotten() {
        let memory = Memory::default();
        memory.put("a", Remembered::default());
        memory.put("b", Remembered::default());
        memory.retain(|uid| uid == "a");
        assert_eq!(memory.len(), 1);
    }
}
