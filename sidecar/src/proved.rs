//! The last proved evidence of work, kept as long as the pod lives: hostile code that could make the sidecar start again
//! would otherwise win the whole of `maxBusySeconds` each time.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::activity::Activity;
use crate::clock::Moment;
use crate::store::{Loaded, Store};

/// The file within the pod's own folder.
const FILE: &str = "proved.json";
/// The version of that file.
const VERSION: u32 = 1;
/// Less than this is not worth a write.
const STEP: Duration = Duration::from_mins(1);

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    pod_uid: String,
    at: Moment,
}

/// Keeps it.
#[derive(Debug)]
pub struct Proved {
    store: Store,
    pod_uid: String,
    kept: Mutex<Option<Moment>>,
}

impl Proved {
    /// Returns the keeper of a pod. Blocks.
    pub fn load(pod_state: &Path, pod_uid: &str) -> Arc<Self> {
        let store = Store::new(pod_state.join(FILE), VERSION);
        let kept = match store.load::<Kept>() {
            Ok(Loaded::Good(kept)) if kept.pod_uid == pod_uid => Some(kept.at),
            _ => None,
        };
        Arc::new(Self { store, pod_uid: pod_uid.to_owned(), kept: Mutex::new(kept) })
    }

    /// Returns what the last sidecar of this pod kept.
    pub fn kept(&self) -> Option<Moment> {
        *self.kept.lock()
    }

    /// Keeps the present state, where it has moved on.
    pub async fn keep(self: &Arc<Self>, activity: &Activity) {
        let at = activity.proved();
        if self.kept().is_some_and(|kept| at.since(kept) < STEP) {
            return;
        }
        let this = Arc::clone(self);
        let kept = Kept { pod_uid: self.pod_uid.clone(), at };
        match tokio::task::spawn_blocking(move || this.store.save(&kept)).await {
            Ok(Ok(())) => *self.kept.lock() = Some(at),
            Ok(Err(error)) => {
                tracing::warn!(error = crate::text::chain(&error), "the last call is not kept");
            }
            Err(error) => tracing::warn!(%error, "the last call is not kept"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::idle::{IdleAction, Policy, Proof};

    #[tokio::test(start_paused = true)]
    async fn it_is_kept_for_its_pod_and_seldom_written() {
        let folder = tempfile::tempdir().unwrap();
        let policy = Policy {
            timeout: Duration::from_mins(15),
            grace: Duration::ZERO,
            max_busy: Duration::from_hours(24),
            action: IdleAction::Stop,
        };
        let activity = Activity::new(Clock::start(), policy);
        let proved = Proved::load(folder.path(), "pod-1");
        assert_eq!(proved.kept(), None);
        proved.keep(&activity).await;
        let first = activity.proved();
        assert_eq!(Proved::load(folder.path(), "pod-1").kept(), Some(first));
        assert_eq!(Proved::load(folder.path(), "pod-2").kept(), None);
        tokio::time::advance(Duration::from_secs(59)).await;
        drop(activity.begin(Some(Proof::Bearer)).unwrap());
        proved.keep(&activity).await;
        assert_eq!(proved.kept(), Some(first));
        tokio::time::advance(Duration::from_secs(1)).await;
        drop(activity.begin(Some(Proof::None)).unwrap());
        proved.keep(&activity).await;
        assert_eq!(proved.kept(), Some(first), "what nobody proved is not kept");
        drop(activity.begin(Some(Proof::Bearer)).unwrap());
        proved.keep(&activity).await;
        assert_eq!(Proved::load(folder.path(), "pod-1").kept(), Some(activity.proved()));
    }
}
