//! The watches, and the controller that they feed.

use std::sync::Arc;

use cuddy_crds::{Environment, EnvironmentClass, labels};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Container, PersistentVolumeClaim, Pod, PodSpec, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::core::DeserializeGuard;
use kube::runtime::controller::{self, Config, Controller};
use kube::runtime::predicates;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::watcher::{self, watcher};
use kube::runtime::{Predicate, WatchStreamExt};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::caches::{Caches, Classes, Listed, environments_within};
use super::{Memory, Reconciler, classes, error_policy, reconcile};
use crate::context::Context;

/// The most reconciles at once. One may take ten seconds while it waits for a policy to be enforced; all of them share one
/// connection to the API server.
const CONCURRENCY: u16 = 128;

type Guarded = DeserializeGuard<Environment>;
type Seen<K> = BoxStream<'static, Result<K, watcher::Error>>;

/// Runs until `shutdown` is cancelled and every reconcile under way has ended.
pub async fn controller(context: Arc<Context>, shutdown: CancellationToken) {
    let client = context.client.clone();
    let namespace = context.config.namespace.clone();
    let fixed = match fixed_classes(&context) {
        Ok(fixed) => fixed,
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "the controller does not start");
            return;
        }
    };
    let scope = Scope { client, namespace };
    let (environments, environment_events) = watch::<Guarded>(&scope, watcher::Config::default(), |_| {});
    let children = watcher::Config::default().labels(labels::ENVIRONMENT_UID);
    let (pods, pod_events) = watch(&scope, children.clone(), trim_pod);
    let (claims, claim_events) = watch::<PersistentVolumeClaim>(&scope, children.clone(), |_| {});
    let (services, service_events) = watch::<Service>(&scope, children, |_| {});
    let (policies, policy_events) = watch::<NetworkPolicy>(&scope, watcher::Config::default(), |_| {});
    let lent = watcher::Config::default().labels(labels::KEYS);
    let (config_maps, config_map_events) = watch::<ConfigMap>(&scope, lent, |_| {});
    let (classes, class_events) = if let Some(fixed) = fixed {
        (Classes::Fixed(Arc::new(fixed)), None)
    } else {
        let (store, events) = watch_all(Api::all(scope.client.clone()), watcher::Config::default(), |_| {});
        (Classes::Watched(store), Some(events))
    };
    let caches = Caches {
        environments: environments.clone(),
        pods,
        claims,
        policies,
        services,
        config_maps,
        classes,
        listed: Listed::default(),
    };
    let reconciler = Arc::new(Reconciler { context, caches, memory: Memory::default() });

    // Our own writes to the status are no reason to look again; what they need is asked for by a time.
    let asked = predicates::generation.combine(predicates::annotations).combine(deletion);
    let forgetful = forget_what_is_gone(environment_events, reconciler.clone());
    let triggers = forgetful.predicate_filter(asked, kube::runtime::PredicateConfig::default());
    let mut controller = Controller::for_stream(triggers, environments.clone())
        .with_config(Config::default().concurrency(CONCURRENCY))
        .watches_stream(pod_events, |pod| owner(&pod))
        .watches_stream(claim_events, |claim| owner(&claim))
        .watches_stream(service_events, |service| owner(&service))
        .watches_stream(policy_events, concerned_by_policy(environments.clone()))
        .watches_stream(config_map_events, concerned_by_keys(environments.clone()));
    if let Some(events) = class_events {
        controller = controller.watches_stream(events, concerned_by_class(environments));
    }
    controller
        .graceful_shutdown_on(shutdown.cancelled_owned())
        .run(reconcile, error_policy, reconciler)
        .for_each(|outcome| async move {
            match outcome {
                Ok(_) => {}
                // Deleted between the event and its turn.
                Err(controller::Error::ObjectNotFound(object)) => tracing::debug!(%object, "gone already"),
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "reconcile failed");
                }
            }
        })
        .await;
}

/// Where is looked.
struct Scope {
    client: Client,
    namespace: Option<String>,
}

fn fixed_classes(context: &Context) -> Result<Option<Vec<EnvironmentClass>>, classes::FileError> {
    match (&context.config.namespace, &context.config.class_file) {
        (Some(_), Some(path)) => classes::from_file(path).map(Some),
        (Some(_), None) => Ok(Some(Vec::new())),
        (None, _) => Ok(None),
    }
}

fn watch<K>(
    scope: &Scope,
    config: watcher::Config,
    trim: impl Fn(&mut K) + Send + 'static,
) -> (Store<K>, Seen<K>)
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug
        + Send
        + Sync
        + 'static,
{
    let api = match &scope.namespace {
        Some(namespace) => Api::namespaced(scope.client.clone(), namespace),
        None => Api::all(scope.client.clone()),
    };
    watch_all(api, config, trim)
}

/// A cache and what happens to it. What nobody reads is left out of it: who manages which field, and the last applied
/// configuration, are often larger than all the rest.
fn watch_all<K>(
    api: Api<K>,
    config: watcher::Config,
    trim: impl Fn(&mut K) + Send + 'static,
) -> (Store<K>, Seen<K>)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
{
    let (store, writer) = reflector::store();
    let events = watcher(api, config)
        .default_backoff()
        .modify(move |object| {
            object.managed_fields_mut().clear();
            if let Some(annotations) = &mut object.meta_mut().annotations {
                annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
            }
            trim(object);
        })
        .reflect(writer)
        .touched_objects();
    (store, events.boxed())
}

/// Of a pod's spec only the node and the images are read.
fn trim_pod(pod: &mut Pod) {
    let spec = pod.spec.take().unwrap_or_default();
    let named = |container: Container| Container {
        name: container.name,
        image: container.image,
        ..Container::default()
    };
    pod.spec = Some(PodSpec {
        node_name: spec.node_name,
        containers: spec.containers.into_iter().map(named).collect(),
        ..PodSpec::default()
    });
}

fn deletion(environment: &Guarded) -> Option<u64> {
    environment.meta().deletion_timestamp.as_ref().map(|time| time.0.as_second().unsigned_abs())
}

/// Drops what is remembered of Environments that are gone: theirs is the only event that tells it.
fn forget_what_is_gone(
    events: Seen<Guarded>,
    reconciler: Arc<Reconciler>,
) -> impl Stream<Item = Result<Guarded, watcher::Error>> {
    events.inspect(move |event| {
        let Ok(environment) = event else { return };
        let uid = environment.meta().uid.clone().unwrap_or_default();
        let current = reconciler.caches.environments.get(&ObjectRef::from_obj(environment));
        if current.is_none_or(|current| current.meta().uid.as_deref() != Some(uid.as_str())) {
            reconciler.memory.retain(|remembered| remembered != uid);
            reconciler.context.backoff.reset(&uid);
        }
    })
}

/// The Environment that a child belongs to: by its owner, and where somebody has taken that off, by nothing.
fn owner<K: Resource<DynamicType = ()>>(child: &K) -> Option<ObjectRef<Guarded>> {
    let reference = child
        .owner_references()
        .iter()
        .find(|reference| reference.controller == Some(true) && reference.kind == Environment::kind(&()))?;
    Some(ObjectRef::new(&reference.name).within(child.namespace().as_deref().unwrap_or_default()))
}

/// A policy concerns the Environment that it belongs to; one of somebody else, all of its namespace.
fn concerned_by_policy(
    store: Store<Guarded>,
) -> impl Fn(NetworkPolicy) -> Vec<ObjectRef<Guarded>> + Send + Sync + 'static {
    move |policy| {
        let namespace = policy.namespace();
        owner(&policy).map_or_else(
            || environments_within(&store, namespace.as_deref(), |_| true),
            |environment| vec![environment],
        )
    }
}

fn concerned_by_keys(
    store: Store<Guarded>,
) -> impl Fn(ConfigMap) -> Vec<ObjectRef<Guarded>> + Send + Sync + 'static {
    move |map| {
        let (namespace, name) = (map.namespace(), map.name_any());
        environments_within(&store, namespace.as_deref(), |environment| {
            let keys = environment.spec.auth.as_ref().map(|auth| auth.keys.as_slice()).unwrap_or_default();
            keys.iter().filter_map(|key| key.config_map_ref.as_ref()).any(|reference| reference.name == name)
        })
    }
}

/// A class concerns those that name it, and those that name none: it may have become the default one, or have ceased to be.
fn concerned_by_class(
    store: Store<Guarded>,
) -> impl Fn(DeserializeGuard<EnvironmentClass>) -> Vec<ObjectRef<Guarded>> + Send + Sync + 'static {
    move |class| {
        let name = class.name_any();
        environments_within(&store, None, |environment| {
            environment.spec.class_ref.as_ref().is_none_or(|reference| reference.name == name)
        })
    }
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;
    use serde_json::{Value, json};

    use super::*;

    fn environments(all: &[(&str, &str, Value)]) -> Store<Guarded> {
        let (store, mut writer) = reflector::store();
        writer.apply_watcher_event(&Event::Init);
        for (namespace, name, spec) in all {
            let object = json!({"apiVersion": "cuddy.dev/v1alpha1", "kind": "Environment",
                "metadata": {"name": name, "namespace": namespace}, "spec": spec});
            writer.apply_watcher_event(&Event::InitApply(serde_json::from_value(object).unwrap()));
        }
        writer.apply_watcher_event(&Event::InitDone);
        store
    }

    fn names(mut found: Vec<ObjectRef<Guarded>>) -> Vec<String> {
        found.sort_by_key(|one| one.name.clone());
        found.into_iter().map(|one| format!("{}/{}", one.namespace.unwrap(), one.name)).collect()
    }

    #[test]
    fn a_change_concerns_those_that_it_can_matter_to() {
        let by_map = json!({"auth": {"keys": [{"name": "k", "configMapRef": {"name": "keys", "key": "k"}}]}});
        let store = environments(&[
            ("a", "one", json!({})),
            ("a", "two", by_map.clone()),
            ("b", "three", by_map),
            ("b", "four", json!({"classRef": {"name": "small"}})),
        ]);
        let map: ConfigMap =
            serde_json::from_value(json!({"metadata": {"name": "keys", "namespace": "a"}})).unwrap();
        assert_eq!(names(concerned_by_keys(store.clone())(map)), ["a/two"]);

        let class = |name: &str| -> DeserializeGuard<EnvironmentClass> {
            serde_json::from_value(json!({"apiVersion": "cuddy.dev/v1alpha1", "kind": "EnvironmentClass",
                "metadata": {"name": name}, "spec": {}}))
            .unwrap()
        };
        let concerned = concerned_by_class(store.clone());
        assert_eq!(names(concerned(class("small"))), ["b/four", "a/one", "b/three", "a/two"]);
        assert_eq!(names(concerned(class("large"))), ["a/one", "b/three", "a/two"]);

        let policy = |owners: Value| -> NetworkPolicy {
            serde_json::from_value(
                json!({"metadata": {"name": "p", "namespace": "a", "ownerReferences": owners}}),
            )
            .unwrap()
        };
        let concerned = concerned_by_policy(store);
        assert_eq!(names(concerned(policy(json!([])))), ["a/one", "a/two"]);
        let owned = json!([{"apiVersion": "cuddy.dev/v1alpha1", "kind": "Environment", "name": "one", "uid": "u",
            "controller": true}]);
        assert_eq!(names(concerned(policy(owned))), ["a/one"]);
    }

    #[test]
    fn of_a_pod_little_is_kept() {
        let mut pod: Pod = serde_json::from_value(json!({"spec": {"nodeName": "n", "containers": [
            {"name": "runtime", "image": "debian", "env": [{"name": "A", "value": "x"}]}]}}))
        .unwrap();
        trim_pod(&mut pod);
        let expected = json!({"nodeName": "n", "containers": [{"name": "runtime", "image": "debian"}]});
        assert_eq!(serde_json::to_value(pod.spec).unwrap(), expected);
    }
}
