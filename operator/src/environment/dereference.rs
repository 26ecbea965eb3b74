//! Step one: everything that is looked at. Nothing is changed, and no Secret is read but the anchor, by name.

use std::sync::Arc;

use cuddy_crds::{Environment, labels};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::{Api, ResourceExt};
use tokio::time::Instant;

use super::Reconciler;
use super::build::{Owner, meta};
use super::caches;
use super::classes::{self, ClassError, Found};
use super::error::ReconcileError;
use super::foreign;
use super::memory::Remembered;
use super::outcome::Blocker;
use super::pod_state::PodState;

/// What was seen.
pub(super) struct Observed {
    /// The Environment.
    pub environment: Arc<Environment>,
    /// Who its children belong to.
    pub owner: Owner,
    /// Its class.
    pub class: Result<Found, ClassError>,
    /// The anchor Secret, whoever made it.
    pub anchor: Option<Secret>,
    /// Its pod.
    pub pod: Option<Arc<Pod>>,
    /// The same in few words.
    pub pod_state: PodState,
    /// The claim of its workspace.
    pub claim: Option<Arc<PersistentVolumeClaim>>,
    /// The policy of its name, whoever made it.
    pub policy: Option<Arc<NetworkPolicy>>,
    /// Its Service.
    pub service: Option<Arc<Service>>,
    /// What else opens its pod.
    pub foreign_policy: Option<Blocker>,
}

/// Looks at everything.
pub(super) async fn dereference(
    reconciler: &Reconciler,
    environment: Arc<Environment>,
    memory: &mut Remembered,
) -> Result<Observed, ReconcileError> {
    let now = Instant::now();
    let environment = memory.environment.newer(Some(environment.clone()), now).unwrap_or(environment);
    let (namespace, name) = (environment.namespace().unwrap_or_default(), environment.name_any());
    let owner = Owner {
        uid: environment.uid().unwrap_or_default(),
        tenant: namespace.clone(),
        namespace: namespace.clone(),
        name: name.clone(),
    };
    let secrets: Api<Secret> = Api::namespaced(reconciler.context.client.clone(), &namespace);
    let anchor = secrets.get_opt(&labels::anchor_name(&name)).await.map_err(ReconcileError::ReadAnchor)?;

    let seen = &reconciler.caches;
    // Labels can be claimed by anybody: one that is not ours is no pod of this Environment, and is met when ours is made.
    let pod = caches::get(&seen.pods, &namespace, &labels::pod_name(&name))
        .filter(|pod| meta::is_child(&pod.metadata, &owner.uid));
    let pod = memory.pod.newer(pod, now);
    let claim = caches::get(&seen.claims, &namespace, &labels::workspace_name(&name));
    let policy = caches::get(&seen.policies, &namespace, &labels::network_policy_name(&name));
    let service = caches::get(&seen.services, &namespace, &labels::service_name(&name));
    let policies =
        seen.policies.state_filter(|policy| policy.namespace().as_deref() == Some(namespace.as_str()));
    Ok(Observed {
        class: classes::find(&environment.spec, &seen.classes.all()),
        anchor,
        pod_state: PodState::read(pod.as_deref(), memory.deleted_pod.as_deref(), Timestamp::now()),
        pod,
        claim: memory.claim.newer(claim, now),
        policy: memory.policy.newer(policy, now),
        service: memory.service.newer(service, now),
        foreign_policy: foreign::opens(
            policies.iter().map(Arc::as_ref),
            &owner.uid,
            &labels::child_labels(&name, &owner.uid),
        ),
        environment,
        owner,
    })
}
