//! Steps that create and delete the pod.

use std::sync::Arc;

use cuddy_crds::conditions::reasons;
use cuddy_crds::{Environment, labels};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::time::Instant;

use crate::config::FIELD_MANAGER;
use crate::environment::apply::{self, differs, refusal};
use crate::environment::build::{meta, pod};
use crate::environment::error::ReconcileError;
use crate::environment::lifecycle::Report;
use crate::environment::outcome::Blocker;
use crate::environment::pod_state::PodState;
use crate::environment::visit::{Visit, id};

impl Visit<'_> {
    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.reconciler.context.client.clone(), &self.observed.owner.namespace)
    }

    /// Creates the pod. It is created and never applied: a pod of that name which is there already is looked at first.
    pub(in crate::environment) async fn create_pod(&mut self) -> Result<(), ReconcileError> {
        let Some(input) = self.input() else { return Ok(()) };
        let desired = pod::build(input).map_err(ReconcileError::Serialize)?;
        let pods = self.pods();
        let error = match apply::create(&pods, &desired).await {
            Ok(pod) => {
                self.has_pod(pod);
                return Ok(());
            }
            Err(error) => error,
        };
        match &error {
            kube::Error::Api(status) if status.is_already_exists() => self.meet_pod(&pods, &desired).await,
            _ => match refusal::of(&error) {
                Some(refused) => {
                    self.blocked.namespace_terminating |= refused.kind == refusal::Kind::NamespaceTerminating;
                    self.is_refused(Blocker::new(refused.kind.reason(), refused.message));
                    Ok(())
                }
                None => Err(ReconcileError::CreatePod(error)),
            },
        }
    }

    /// A pod of that name is there. Ours is one that the cache does not show: it is late, or somebody took the labels off,
    /// and with them the policy.
    async fn meet_pod(&mut self, pods: &Api<Pod>, desired: &Pod) -> Result<(), ReconcileError> {
        let Some(live) = pods.get_opt(&desired.name_any()).await.map_err(ReconcileError::CreatePod)? else {
            return Err(ReconcileError::Changed);
        };
        if !meta::is_child(&live.metadata, &self.observed.owner.uid) {
            let name = live.name_any();
            self.is_refused(Blocker::new(
                reasons::NAME_CONFLICT,
                format!(
                    "a pod {name} that does not belong to this Environment is in the way; delete or rename it"
                ),
            ));
            return Ok(());
        }
        let live = if differs::metadata(&desired.metadata, &strip_annotations(&live)) {
            let patch = json!({"metadata": {"uid": live.metadata.uid, "labels": desired.metadata.labels}});
            let params =
                PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
            self.memory.reprove = true;
            self.memory.proof = None;
            self.facts.reprove = true;
            self.facts.proof = None;
            pods.patch(&desired.name_any(), &params, &Patch::Merge(&patch))
                .await
                .map_err(ReconcileError::CreatePod)?
        } else {
            live
        };
        self.has_pod(live);
        Ok(())
    }

    fn has_pod(&mut self, pod: Pod) {
        let pod = Arc::new(pod);
        self.memory.pod.wrote(pod.clone(), Instant::now());
        self.facts.pod = PodState::read(Some(&pod), self.memory.deleted_pod.as_deref(), Timestamp::now());
        self.facts.report = Report::Due;
        self.observed.pod = Some(pod);
    }

    fn is_refused(&mut self, blocker: Blocker) {
        self.facts.pod_refused = true;
        self.blocked.pod = Some(blocker);
    }

    /// Deletes the pod with this UID. The Environment is read again before: somebody may have just woken it.
    pub(in crate::environment) async fn delete_pod(
        &mut self,
        uid: &str,
        failed: bool,
    ) -> Result<(), ReconcileError> {
        let owner = self.observed.owner.clone();
        let environments: Api<Environment> =
            Api::namespaced(self.reconciler.context.client.clone(), &owner.namespace);
        let again = environments.get_opt(&owner.name).await.map_err(ReconcileError::ReadEnvironment)?;
        if !again.is_some_and(|again| is_unchanged(&self.observed.environment, &again)) {
            return Err(ReconcileError::Changed);
        }
        let pods = self.pods();
        apply::delete(&pods, &labels::pod_name(&owner.name), uid).await.map_err(ReconcileError::DeletePod)?;
        self.memory.deleted_pod = Some(uid.to_owned());
        self.memory.pod.forget();
        self.memory.report = None;
        if failed {
            self.memory.pod_failed(Instant::now());
        }
        self.facts.pod = PodState::Terminating { uid: uid.to_owned(), overdue: false };
        Ok(())
    }
}

/// The fingerprint may differ: a pod is never changed for it.
fn strip_annotations(pod: &Pod) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
    let mut metadata = pod.metadata.clone();
    let ours = [labels::POD_FINGERPRINT, "kubectl.kubernetes.io/default-container"];
    let annotations = metadata.annotations.get_or_insert_default();
    for name in ours {
        annotations.remove(name);
    }
    metadata
}

/// Says whether everything is as it was that a stop depends on.
fn is_unchanged(before: &Environment, again: &Environment) -> bool {
    let told = |one: &Environment| {
        (one.uid(), one.metadata.generation, id(one, labels::WAKE), id(one, labels::STOP))
    };
    again.metadata.deletion_timestamp.is_none() && told(before) == told(again)
}
