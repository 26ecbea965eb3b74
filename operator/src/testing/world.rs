//! One Environment, `acme/dev`, in a world of its own.

use std::sync::Arc;
use std::time::Duration;

use cuddy_crds::{Environment, EnvironmentClass};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::core::DeserializeGuard;
use kube::runtime::controller::Action;
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::watcher::Event;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{FakeApi, FakeSidecar};
use crate::backoff::Backoff;
use crate::config::{ClusterRanges, DnsResolver, OperatorConfig, PullPolicy, Verify};
use crate::context::Context;
use crate::environment::{self, Caches, Classes, Memory, ReconcileError, Reconciler};
use crate::events::Events;
use crate::identity::Identity;
use crate::leader::{BootClock, Leadership};
use crate::metrics::Metrics;

/// An Ed25519 key that the class of the tests trusts.
pub(crate) const KEY: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";

/// The path of the Environment.
pub(crate) const ENVIRONMENT: &str = "/apis/cuddy.dev/v1alpha1/namespaces/acme/environments/dev";
/// The path of its pod.
pub(crate) const POD: &str = "/api/v1/namespaces/acme/pods/dev";
/// The path of its claim.
pub(crate) const CLAIM: &str = "/api/v1/namespaces/acme/persistentvolumeclaims/dev-workspace";
/// The path of its anchor.
pub(crate) const ANCHOR: &str = "/api/v1/namespaces/acme/secrets/dev-anchor";
/// The path of its Service.
pub(crate) const SERVICE: &str = "/api/v1/namespaces/acme/services/dev";
/// The path of its policy.
pub(crate) const POLICY: &str = "/apis/networking.k8s.io/v1/namespaces/acme/networkpolicies/dev";

/// The world.
pub(crate) struct World {
    /// The API server.
    pub(crate) api: FakeApi,
    /// The sidecar.
    pub(crate) sidecar: FakeSidecar,
    reconciler: Arc<Reconciler>,
    writers: Writers,
}

struct Writers {
    environments: reflector::store::Writer<DeserializeGuard<Environment>>,
    pods: reflector::store::Writer<Pod>,
    claims: reflector::store::Writer<PersistentVolumeClaim>,
    policies: reflector::store::Writer<NetworkPolicy>,
    services: reflector::store::Writer<Service>,
    config_maps: reflector::store::Writer<ConfigMap>,
    classes: reflector::store::Writer<DeserializeGuard<EnvironmentClass>>,
}

/// What the operator of the tests was started with.
pub(crate) fn config() -> OperatorConfig {
    OperatorConfig {
        sidecar_image: "registry.example/cuddy-sidecar:1".to_owned(),
        sidecar_pull_policy: PullPolicy::IfNotPresent,
        operator_namespace: "cuddy-system".to_owned(),
        pod_name: "cuddy-operator-0".to_owned(),
        pod_ip: [10, 244, 0, 9].into(),
        namespace: None,
        class_file: None,
        dns: DnsResolver::default(),
        ranges: ClusterRanges::default(),
        default_verify: Verify::Gate,
    }
}

impl World {
    /// A world with a default class, and the Environment with this spec.
    #[expect(clippy::needless_pass_by_value, reason = "literals are made where they are passed")]
    pub(crate) fn new(spec: Value) -> Self {
        let api = FakeApi::default();
        let sidecar = FakeSidecar::default();
        let (environments, environments_writer) = reflector::store();
        let (pods, pods_writer) = reflector::store();
        let (claims, claims_writer) = reflector::store();
        let (policies, policies_writer) = reflector::store();
        let (services, services_writer) = reflector::store();
        let (config_maps, config_maps_writer) = reflector::store();
        let (classes, classes_writer) = reflector::store();
        let leadership = Leadership::new(Duration::from_hours(1), Arc::new(BootClock));
        leadership.renewed(leadership.now());
        let context = Context {
            client: api.client(),
            config: config(),
            identity: Arc::new(Identity::generate(Timestamp::now()).unwrap()),
            sidecars: Arc::new(sidecar.clone()),
            recorder: Events::new(api.client(), "cuddy-operator-0"),
            backoff: Backoff::default(),
            metrics: Metrics::default(),
            leadership,
        };
        let caches = Caches {
            environments,
            pods,
            claims,
            policies,
            services,
            config_maps,
            classes: Classes::Watched(classes),
            listed: crate::environment::Listed::default(),
        };
        let reconciler =
            Arc::new(Reconciler { context: Arc::new(context), caches, memory: Memory::default() });
        let writers = Writers {
            environments: environments_writer,
            pods: pods_writer,
            claims: claims_writer,
            policies: policies_writer,
            services: services_writer,
            config_maps: config_maps_writer,
            classes: classes_writer,
        };
        api.put(
            "/apis/cuddy.dev/v1alpha1/environmentclasses/small",
            json!({
                "apiVersion": "cuddy.dev/v1alpha1", "kind": "EnvironmentClass",
                "metadata": {"name": "small", "annotations": {"cuddy.dev/is-default-class": "true"}},
                "spec": {"image": "debian:12", "auth": {"keys": [{"name": "laptop", "publicKey": KEY}]}},
            }),
        );
        api.put(
            ENVIRONMENT,
            json!({
                "apiVersion": "cuddy.dev/v1alpha1", "kind": "Environment",
                "metadata": {"name": "dev", "namespace": "acme", "uid": "u-1", "generation": 1},
                "spec": spec,
            }),
        );
        Self { api, sidecar, reconciler, writers }
    }

    /// Forgets everything, as a new process has.
    pub(crate) fn restart_operator(&mut self) {
        let old = &self.reconciler;
        self.reconciler = Arc::new(Reconciler {
            context: old.context.clone(),
            caches: old.caches.clone(),
            memory: Memory::default(),
        });
    }

    /// Brings the caches up to date and looks after the Environment once.
    pub(crate) async fn reconcile(&mut self) -> Result<Action, ReconcileError> {
        self.sync();
        self.reconcile_with_old_caches().await
    }

    /// Looks after the Environment once, with what the caches held before.
    pub(crate) async fn reconcile_with_old_caches(&mut self) -> Result<Action, ReconcileError> {
        let reference = ObjectRef::new("dev").within("acme");
        let environment = self.reconciler.caches.environments.get(&reference).unwrap();
        environment::reconcile(environment, self.reconciler.clone()).await
    }

    /// Brings the caches up to date.
    pub(crate) fn sync(&mut self) {
        fill(&mut self.writers.environments, &self.api, "/environments/");
        fill(&mut self.writers.pods, &self.api, "/pods/");
        fill(&mut self.writers.claims, &self.api, "/persistentvolumeclaims/");
        fill(&mut self.writers.policies, &self.api, "/networkpolicies/");
        fill(&mut self.writers.services, &self.api, "/services/");
        fill(&mut self.writers.config_maps, &self.api, "/configmaps/");
        fill(&mut self.writers.classes, &self.api, "/environmentclasses/");
    }

    /// Does what a kubelet does until the sidecar of the pod runs.
    pub(crate) fn kubelet_starts_sidecar(&self) {
        self.kubelet_says(false);
    }

    /// Does what a kubelet does when the pod is ready.
    pub(crate) fn kubelet_is_ready(&self) {
        self.kubelet_says(true);
    }

    fn kubelet_says(&self, ready: bool) {
        self.api.edit(CLAIM, |claim| claim["status"] = json!({"phase": "Bound"}));
        self.api.edit(POD, |pod| {
            pod["status"] = json!({
                "phase": "Running", "podIP": "10.244.0.7",
                "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
                "initContainerStatuses": [{"name": "sidecar", "started": true, "ready": ready, "restartCount": 0,
                    "image": "", "imageID": "", "state": {"running": {}}}],
            });
        });
    }

    /// Ends the pod for good, as the kubelet does a while after its deletion.
    pub(crate) fn kubelet_ends_pod(&self) {
        self.api.remove(POD);
    }

    /// Brings the Environment up until it serves.
    pub(crate) async fn serve(&mut self) {
        self.reconcile().await.unwrap();
        self.kubelet_starts_sidecar();
        self.reconcile().await.unwrap();
        self.kubelet_is_ready();
        self.reconcile().await.unwrap();
        assert_eq!(self.condition("Ready"), ("True".to_owned(), "Running".to_owned()));
        self.api.take_log();
        self.sidecar.take_calls();
    }

    /// Returns status and reason of a condition, as they are in the API.
    pub(crate) fn condition(&self, type_: &str) -> (String, String) {
        let one = self.whole_condition(type_);
        let text = |name: &str| one[name].as_str().unwrap().to_owned();
        (text("status"), text("reason"))
    }

    /// Returns the message of a condition, as it is in the API.
    pub(crate) fn message(&self, type_: &str) -> String {
        self.whole_condition(type_)["message"].as_str().unwrap().to_owned()
    }

    fn whole_condition(&self, type_: &str) -> Value {
        let environment = self.api.get(ENVIRONMENT).unwrap();
        let all = environment["status"]["conditions"].as_array().cloned().unwrap_or_default();
        all.into_iter().find(|one| one["type"] == type_).unwrap_or_else(|| panic!("no condition {type_}"))
    }

    /// Sets an annotation of the Environment.
    pub(crate) fn annotate(&self, name: &str, value: &str) {
        self.api.edit(ENVIRONMENT, |environment| environment["metadata"]["annotations"][name] = json!(value));
    }
}

fn fill<K>(writer: &mut reflector::store::Writer<K>, api: &FakeApi, part: &str)
where
    K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + 'static,
{
    writer.apply_watcher_event(&Event::Init);
    for object in api.all(part) {
        writer.apply_watcher_event(&Event::InitApply(serde_json::from_value(object).unwrap()));
    }
    writer.apply_watcher_event(&Event::InitDone);
}
