//! One visit to an Environment: what was seen, what is planned, and what is known while it is carried out.

use std::sync::Arc;
use std::time::Duration;

use cuddy_crds::conditions::{self, reasons, types};
use cuddy_crds::v1alpha1::{EnvironmentStatus, IdleAction, Verify};
use cuddy_crds::{Environment, defaults, labels};
use cuddy_protocol::control::Gate;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use tokio::time::Instant;

use super::Reconciler;
use super::activity;
use super::apply::anchor;
use super::build::{Input, meta};
use super::caches;
use super::dereference::Observed;
use super::keys::{self, KeySet};
use super::lifecycle::{Children, Facts, Proof, REPROVE, Report};
use super::memory::Remembered;
use super::outcome::Blocker;
use super::pod_state::{PodState, Started};
use super::validate::Plan;
use crate::control::Target;

/// The longest id of a wake or a stop; the rest is not looked at.
const ID_MAX: usize = 256;
/// How soon a gate that is open and could not be proved again is looked at once more.
const REPROVE_OPEN: Duration = Duration::from_mins(5);

/// A visit.
pub(super) struct Visit<'a> {
    /// The world.
    pub reconciler: &'a Reconciler,
    /// What is remembered.
    pub memory: &'a mut Remembered,
    /// When it began.
    pub now: Timestamp,
    /// What was seen, and what our writes returned since.
    pub observed: Observed,
    /// What is asked for, if that can be met.
    pub plan: Option<Plan>,
    /// The keys, where there is a plan.
    pub keys: Option<KeySet>,
    /// What the life cycle is decided by.
    pub facts: Facts,
    /// Which children cannot be had.
    pub blocked: Blocked,
    /// Why the sidecar does not answer.
    pub silence: Option<String>,
}

/// Which children cannot be had.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Blocked {
    /// The anchor Secret.
    pub anchor: Option<Blocker>,
    /// The NetworkPolicy.
    pub policy: Option<Blocker>,
    /// The claim.
    pub workspace: Option<Blocker>,
    /// The Service.
    pub service: Option<Blocker>,
    /// The pod.
    pub pod: Option<Blocker>,
    /// Whether the namespace is going away, and nothing is worth telling.
    pub namespace_terminating: bool,
}

impl Blocked {
    /// Returns the first child that cannot be had, apart from the pod.
    pub(super) fn first_child(&self) -> Option<&Blocker> {
        [&self.anchor, &self.policy, &self.workspace, &self.service].into_iter().flatten().next()
    }
}

impl<'a> Visit<'a> {
    /// Begins a visit.
    pub(super) fn new(
        reconciler: &'a Reconciler,
        memory: &'a mut Remembered,
        observed: Observed,
        plan: Result<Plan, Blocker>,
    ) -> Self {
        let (plan, invalid) = match plan {
            Ok(plan) => (Some(plan), None),
            Err(blocker) => (None, Some(blocker)),
        };
        let own = observed.anchor.as_ref().filter(|one| meta::is_child(&one.metadata, &observed.owner.uid));
        let live = anchor::read(own);
        let keys = plan.as_ref().map(|plan| {
            let config_map = |name: &str| {
                caches::get(&reconciler.caches.config_maps, &plan.owner.namespace, name)
                    .map(Arc::<ConfigMap>::unwrap_or_clone)
            };
            keys::resolve(plan.settings.auth_mode, &plan.settings.keys, config_map, &live.before())
        });
        let may_start =
            plan.as_ref().zip(keys.as_ref()).is_some_and(|(p, k)| k.may_start(p.settings.auth_mode));
        let generation = live.document.map(|document| document.generation).filter(|_| plan.is_some());
        let mut facts = facts(&observed, plan.as_ref(), memory);
        facts.invalid = invalid;
        facts.keys_block = !may_start;
        facts.generation = generation;
        Self {
            reconciler,
            memory,
            now: Timestamp::now(),
            observed,
            plan,
            keys,
            facts,
            blocked: Blocked::default(),
            silence: None,
        }
    }

    /// Returns what the builders read, where there is a plan.
    pub(super) fn input(&self) -> Option<Input<'_>> {
        self.plan.as_ref().map(|plan| Input {
            owner: &plan.owner,
            settings: &plan.settings,
            config: &self.reconciler.context.config,
        })
    }

    /// Returns the sidecar, if it runs.
    pub(super) fn target(&self) -> Option<Target> {
        let PodState::Started(Started { uid, ip, .. }) = &self.facts.pod else { return None };
        let owner = &self.observed.owner;
        Some(Target {
            namespace: owner.namespace.clone(),
            name: owner.name.clone(),
            environment_uid: owner.uid.clone(),
            pod_uid: uid.clone(),
            pod_ip: *ip,
        })
    }
}

/// Returns an annotation's id.
pub(super) fn id(environment: &Environment, annotation: &str) -> Option<String> {
    let value = environment.annotations().get(annotation)?;
    Some(value.chars().take(ID_MAX).collect::<String>()).filter(|id| !id.is_empty())
}

fn facts(observed: &Observed, plan: Option<&Plan>, memory: &mut Remembered) -> Facts {
    let environment = &observed.environment;
    let status = environment.status.clone().unwrap_or_default();
    // What is there at the first visit counts as seen (D45).
    let is_first = status.observed_generation.is_none();
    let stop = status.stop.clone().unwrap_or_default();
    let is_new = |annotation, seen: &Option<String>| {
        let id = id(environment, annotation);
        !is_first && id.is_some() && id != *seen
    };
    let idle = plan.map(|plan| plan.settings.idle);
    let now = Instant::now();
    let (report, next_report_in) = last_report(&observed.pod_state, memory, now);
    let gate_is_open = is_open(&observed.pod_state, memory);
    let (proof, reprove) = last_proof(&observed.pod_state, gate_is_open, &status, memory, now);
    Facts {
        mode: environment.spec.mode.unwrap_or_default(),
        stop: stop.current(),
        stop_is_fresh: false,
        wake_asked: is_new(labels::WAKE, &status.last_wake),
        stop_asked: is_new(labels::STOP, &stop.last_request),
        invalid: None,
        keys_block: false,
        foreign_policy: observed.foreign_policy.clone(),
        verify: plan.map_or(Verify::Gate, |plan| plan.settings.verify),
        // Without a plan the sidecar's own settings decide: it reports a time to stop only if there is one.
        stops_when_idle: idle.is_none_or(|idle| idle.action == IdleAction::Stop),
        max_busy_seconds: u64::from(
            idle.map_or(defaults::IDLE_MAX_BUSY_SECONDS, |idle| idle.max_busy_seconds),
        ),
        pod: observed.pod_state.clone(),
        children: Children::Unknown,
        pod_refused: false,
        replace_in: memory.replace_at.map(|at| at.saturating_duration_since(now)),
        report,
        next_report_in,
        generation: None,
        push_failed: false,
        proof,
        reprove,
        gate_is_open,
        open_failed: false,
        quiesce: None,
    }
}

/// A sidecar is asked again when it is due; and whenever its gate was closed, since it will not be for long.
fn last_report(pod: &PodState, memory: &Remembered, now: Instant) -> (Report, Duration) {
    match (&memory.report, pod) {
        (Some(last), PodState::Started(started))
            if last.pod_uid == started.uid && last.due > now && last.report.gate == Gate::Open =>
        {
            (Report::NotDue(last.report.clone()), last.due - now)
        }
        _ => (Report::Due, activity::LONGEST_PAUSE),
    }
}

/// A pod is ready only when its gate is open.
fn is_open(pod: &PodState, memory: &Remembered) -> bool {
    pod.is_ready() || (pod.uid().is_some() && pod.uid() == memory.open_pod.as_deref())
}

/// What was proved of this pod. An operator that starts anew takes the word of the status for a pod whose gate is open.
fn last_proof(
    pod: &PodState,
    gate_is_open: bool,
    status: &EnvironmentStatus,
    memory: &Remembered,
    now: Instant,
) -> (Option<Proof>, bool) {
    let Some(uid) = pod.uid() else { return (None, false) };
    if let Some((proved, proof, at)) = &memory.proof
        && proved == uid
    {
        let patience = if gate_is_open { REPROVE_OPEN } else { REPROVE };
        let counts = *proof == Proof::Verified || now.saturating_duration_since(*at) < patience;
        return (counts.then_some(*proof), memory.reprove);
    }
    if !gate_is_open || memory.reprove {
        return (None, memory.reprove && gate_is_open);
    }
    let told = conditions::find(&status.conditions, types::NETWORK_ISOLATED)
        .filter(|_| status.pod_uid.as_deref() == Some(uid))
        .map(|condition| condition.reason.as_str());
    match told {
        Some(reasons::VERIFIED) => (Some(Proof::Verified), false),
        _ => (None, true),
    }
}
