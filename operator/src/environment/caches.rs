//! What the watches have seen: reads of a reconcile cost the API server nothing, but for the anchor Secret.

use std::sync::Arc;

use cuddy_crds::{Environment, EnvironmentClass};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::core::DeserializeGuard;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Resource, ResourceExt};
use tokio::sync::OnceCell;

use super::error::ReconcileError;

/// The caches.
#[derive(Clone)]
pub struct Caches {
    /// All Environments, those that cannot be read too.
    pub environments: Store<DeserializeGuard<Environment>>,
    /// Pods of Environments.
    pub pods: Store<Pod>,
    /// Claims of Environments.
    pub claims: Store<PersistentVolumeClaim>,
    /// All policies: those of others add to ours.
    pub policies: Store<NetworkPolicy>,
    /// Services of Environments.
    pub services: Store<Service>,
    /// ConfigMaps that lend keys.
    pub config_maps: Store<ConfigMap>,
    /// The classes.
    pub classes: Classes,
    /// Set once every watch has listed.
    pub listed: Listed,
}

/// Remembers that every watch has listed once, and lets one waiter alone wait for it: a [`Store`] wakes only the waiter that
/// asked last, so that of several reconciles at the start all but one would wait for ever.
#[derive(Debug, Clone, Default)]
pub struct Listed(Arc<OnceCell<()>>);

/// Where classes come from.
#[derive(Clone)]
pub enum Classes {
    /// From the cluster.
    Watched(Store<DeserializeGuard<EnvironmentClass>>),
    /// From a file, for an operator that looks after one namespace.
    Fixed(Arc<Vec<EnvironmentClass>>),
}

impl Caches {
    /// Waits until every watch has listed once: before that, what is missing may only be late.
    pub async fn ready(&self) -> Result<(), ReconcileError> {
        self.listed.0.get_or_try_init(|| self.every_watch_has_listed()).await.copied()
    }

    async fn every_watch_has_listed(&self) -> Result<(), ReconcileError> {
        let classes = async {
            match &self.classes {
                Classes::Watched(store) => store.wait_until_ready().await,
                Classes::Fixed(_) => Ok(()),
            }
        };
        tokio::try_join!(
            self.environments.wait_until_ready(),
            self.pods.wait_until_ready(),
            self.claims.wait_until_ready(),
            self.policies.wait_until_ready(),
            self.services.wait_until_ready(),
            self.config_maps.wait_until_ready(),
            classes,
        )
        .map(|_| ())
        .map_err(|_| ReconcileError::Caches)
    }
}

impl Classes {
    /// Returns all classes that can be read.
    pub fn all(&self) -> Vec<EnvironmentClass> {
        match self {
            Self::Fixed(classes) => classes.as_ref().clone(),
            Self::Watched(store) => store
                .state()
                .iter()
                .filter_map(|guarded| match &guarded.0 {
                    Ok(class) => Some(class.clone()),
                    Err(error) => {
                        let class = guarded.meta().name.clone().unwrap_or_default();
                        tracing::warn!(class, %error, "an EnvironmentClass that cannot be read is left out");
                        None
                    }
                })
                .collect(),
        }
    }
}

/// Looks an object up by name.
pub fn get<K>(store: &Store<K>, namespace: &str, name: &str) -> Option<Arc<K>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    store.get(&ObjectRef::new(name).within(namespace))
}

/// Returns the Environments of a namespace that a change of something else in it may concern.
pub fn environments_within(
    store: &Store<DeserializeGuard<Environment>>,
    namespace: Option<&str>,
    concerned: impl Fn(&Environment) -> bool,
) -> Vec<ObjectRef<DeserializeGuard<Environment>>> {
    store
        .state()
        .iter()
        .filter(|one| namespace.is_none_or(|namespace| one.namespace().as_deref() == Some(namespace)))
        .filter(|one| one.0.as_ref().is_ok_and(&concerned))
        .map(|one| ObjectRef::from_obj(one.as_ref()))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::future::join_all;
    use kube::runtime::reflector;
    use kube::runtime::watcher::Event;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn all_who_wait_for_the_first_lists_go_on() {
        let (environments, mut environments_writer) = reflector::store();
        let (pods, mut pods_writer) = reflector::store();
        let (claims, mut claims_writer) = reflector::store();
        let (policies, mut policies_writer) = reflector::store();
        let (services, mut services_writer) = reflector::store();
        let (config_maps, mut config_maps_writer) = reflector::store();
        let caches = Caches {
            environments,
            pods,
            claims,
            policies,
            services,
            config_maps,
            classes: Classes::Fixed(Arc::default()),
            listed: Listed::default(),
        };
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let caches = caches.clone();
                tokio::spawn(async move { caches.ready().await })
            })
            .collect();
        // All wait before the first list is there.
        tokio::task::yield_now().await;
        environments_writer.apply_watcher_event(&Event::InitDone);
        pods_writer.apply_watcher_event(&Event::InitDone);
        claims_writer.apply_watcher_event(&Event::InitDone);
        policies_writer.apply_watcher_event(&Event::InitDone);
        services_writer.apply_watcher_event(&Event::InitDone);
        config_maps_writer.apply_watcher_event(&Event::InitDone);
        let all = tokio::time::timeout(Duration::from_secs(5), join_all(waiting)).await.unwrap();
        assert!(all.into_iter().all(|one| one.unwrap().is_ok()));
    }
}
