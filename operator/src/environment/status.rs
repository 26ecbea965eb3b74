//! Step five: what was seen, told in the status. One patch per visit, and none when nothing changed.

mod conditions_of;
mod notices;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use cuddy_crds::conditions::{self, reasons, types};
use cuddy_crds::v1alpha1::{ActivityState, EndpointStatus, EnvironmentStatus};
use cuddy_crds::{Environment, labels};
use cuddy_protocol::places::PORT_TLS;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde_json::json;
use tokio::time::Instant;

use super::activity;
use super::error::ReconcileError;
use super::lifecycle::{Facts, Report};
use super::outcome::Blocker;
use super::pod_state::PodState;
use super::validate::Plan;
use super::visit::{Blocked, Visit, id};
use crate::config::FIELD_MANAGER;

/// While an environment comes up without trouble, what changes on the way is told this often at most.
const WHILE_STARTING: Duration = Duration::from_secs(30);

/// The outcome of a visit. The status is made from this and from nothing else.
pub(super) struct Applied {
    /// What is known.
    pub facts: Facts,
    /// Which children cannot be had.
    pub blocked: Blocked,
    /// What is wrong with the keys.
    pub keys: Option<Blocker>,
    /// What is asked for, if that can be met.
    pub plan: Option<Plan>,
    /// The pod.
    pub pod: Option<Arc<Pod>>,
    /// The fingerprint of the pod that would be made now.
    pub fingerprint: Option<String>,
    /// The claim.
    pub claim: Option<Arc<PersistentVolumeClaim>>,
    /// Why the sidecar does not answer.
    pub silence: Option<String>,
    /// The CA, PEM.
    pub ca: String,
}

impl Applied {
    /// Ends a visit.
    pub(super) fn of(visit: &Visit<'_>) -> Self {
        let fingerprint = visit.input().and_then(|input| {
            let pod = super::build::pod::build(input).ok()?;
            pod.annotations().get(labels::POD_FINGERPRINT).cloned()
        });
        Self {
            facts: visit.facts.clone(),
            blocked: visit.blocked.clone(),
            keys: visit.keys.as_ref().and_then(|keys| keys.problem.clone()),
            plan: visit.plan.clone(),
            pod: visit.observed.pod.clone(),
            fingerprint,
            claim: visit.observed.claim.clone(),
            silence: visit.silence.clone(),
            ca: visit.reconciler.context.identity.ca_pem().to_owned(),
        }
    }

    /// Says whether the environment should be stopped.
    fn is_stopped(&self) -> bool {
        super::lifecycle::is_to_be_stopped(&self.facts)
    }
}

/// Returns the status after a visit. Pure.
pub(super) fn compute(environment: &Environment, applied: &Applied, now: Timestamp) -> EnvironmentStatus {
    let before = environment.status.clone().unwrap_or_default();
    let generation = environment.metadata.generation;
    let verdicts = conditions_of::all(&before, applied);
    let mut stop = before.stop.clone().unwrap_or_default();
    match &applied.facts.stop {
        Some(record) if stop.current().as_ref() != Some(record) => stop.record(record.clone()),
        Some(_) => {}
        None => stop.clear(),
    }
    stop.last_request = id(environment, labels::STOP).or(stop.last_request);
    let is_empty = stop.current().is_none() && stop.last_request.is_none() && stop.history.is_empty();
    let pod = applied.pod.as_ref().filter(|_| applied.facts.pod != PodState::Absent);
    let pod_ip = pod.and_then(|pod| pod.status.as_ref()?.pod_ip.clone()).filter(|ip| !ip.is_empty());
    let report = match &applied.facts.report {
        Report::Fresh(report) | Report::NotDue(report)
            if matches!(applied.facts.pod, PodState::Started(_)) =>
        {
            Some(report)
        }
        _ => None,
    };
    EnvironmentStatus {
        observed_generation: generation,
        conditions: conditions::merge(&before.conditions, &verdicts, generation, now),
        activity: match (&applied.facts.pod, &applied.facts.report) {
            (PodState::Absent | PodState::Terminating { .. } | PodState::Ended { .. }, _) => None,
            (PodState::Pending { .. }, _) => Some(activity::without_report(ActivityState::Starting)),
            (PodState::Started(_), Report::Fresh(report) | Report::NotDue(report)) => {
                Some(activity::told(report))
            }
            (PodState::Started(_), Report::Silent { .. } | Report::Due) => {
                let state =
                    if applied.facts.gate_is_open { ActivityState::Unknown } else { ActivityState::Starting };
                Some(activity::without_report(state))
            }
        },
        stop: (!is_empty).then_some(stop),
        last_wake: id(environment, labels::WAKE).or(before.last_wake),
        pod_name: pod.map(|pod| pod.name_any()),
        pod_uid: pod.and_then(|pod| pod.uid()),
        endpoint: pod_ip.clone().map(|address| EndpointStatus {
            address,
            port: PORT_TLS,
            ca_bundle: applied.ca.clone(),
        }),
        pod_ip,
        image: pod.and_then(|pod| image(pod)).or(before.image),
        tenant: environment.namespace(),
        keys: report.map(|report| report.keys.clone()).unwrap_or_default(),
    }
}

/// The image as the spec names it; the kubelet's own name for it differs.
fn image(pod: &Pod) -> Option<String> {
    let containers = pod.spec.as_ref().map(|spec| spec.containers.as_slice()).unwrap_or_default();
    containers.iter().find(|one| one.name == labels::CONTAINER_RUNTIME).and_then(|one| one.image.clone())
}

/// Says whether a status is worth writing, and if it is not yet, when it will be.
fn worth(
    before: &EnvironmentStatus,
    after: &EnvironmentStatus,
    written: Option<Instant>,
    now: Instant,
) -> Worth {
    let without_times = |status: &EnvironmentStatus| EnvironmentStatus { activity: None, ..status.clone() };
    let same = without_times(before) == without_times(after);
    if same && !activity::differs(before.activity.as_ref(), after.activity.as_ref()) {
        return Worth::Nothing;
    }
    let reason = |status: &EnvironmentStatus| {
        conditions::find(&status.conditions, types::READY).map(|ready| ready.reason.clone())
    };
    let on_its_way = notices::of(&before.conditions, &after.conditions).is_empty()
        && reason(before).as_deref() == Some(reasons::STARTING)
        && reason(after).as_deref() == Some(reasons::STARTING)
        && (before.observed_generation, &before.stop, &before.last_wake)
            == (after.observed_generation, &after.stop, &after.last_wake);
    let left = written.and_then(|at| WHILE_STARTING.checked_sub(now.saturating_duration_since(at)));
    match left {
        Some(left) if on_its_way && !left.is_zero() => Worth::Later(left),
        _ => Worth::Now,
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Worth {
    Nothing,
    Later(Duration),
    Now,
}

/// Tells the status, and events on what changed. Returns after how long there is more to tell, if so.
pub(super) async fn write(visit: &mut Visit<'_>) -> Result<Option<Duration>, ReconcileError> {
    let applied = Applied::of(visit);
    let environment = visit.observed.environment.clone();
    let before = environment.status.clone().unwrap_or_default();
    let after = compute(&environment, &applied, Timestamp::now());
    match worth(&before, &after, visit.memory.status_written, Instant::now()) {
        Worth::Nothing => return Ok(None),
        Worth::Later(wait) => return Ok(Some(wait)),
        Worth::Now => {}
    }
    let context = &visit.reconciler.context;
    let owner = &visit.observed.owner;
    let api: Api<Environment> = Api::namespaced(context.client.clone(), &owner.namespace);
    let body = json!({
        "apiVersion": Environment::api_version(&()),
        "kind": Environment::kind(&()),
        "metadata": { "name": owner.name, "namespace": owner.namespace, "uid": owner.uid },
        "status": after,
    });
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let written = match api.patch_status(&owner.name, &params, &Patch::Apply(&body)).await {
        // It was deleted meanwhile, and perhaps another one has its name.
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => return Ok(None),
        written => written.map_err(ReconcileError::WriteStatus)?,
    };
    let now = Instant::now();
    visit.memory.environment.wrote(Arc::new(written), now);
    visit.memory.status_written = Some(now);
    let reference = environment.object_ref(&());
    for notice in notices::of(&before.conditions, &after.conditions) {
        context.recorder.publish(&reference, &notice).await;
    }
    Ok(None)
}
