//! The step that makes and mends the children apart from the pod.

use std::sync::Arc;

use cuddy_crds::conditions::reasons;
use cuddy_crds::labels;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::{Api, ResourceExt};
use tokio::time::Instant;

use crate::environment::apply::refusal::Kind;
use crate::environment::apply::{self, ChildError, anchor, differs};
use crate::environment::build::network_policy::{self, Phase};
use crate::environment::build::{meta, service, workspace};
use crate::environment::error::ReconcileError;
use crate::environment::lifecycle::{Children, Policy};
use crate::environment::outcome::Blocker;
use crate::environment::visit::Visit;

impl Visit<'_> {
    /// Makes and mends the children. A second time in one visit only the policy's form is left to change.
    pub(in crate::environment) async fn ensure(&mut self, policy: Policy) -> Result<(), ReconcileError> {
        if self.facts.children == Children::Unknown {
            self.ensure_anchor().await?;
            if !self.blocked.namespace_terminating {
                self.ensure_policy(policy).await?;
            }
            if !self.blocked.namespace_terminating {
                self.ensure_claim().await?;
                self.ensure_service().await?;
            }
        } else {
            self.ensure_policy(policy).await?;
        }
        let is_blocked = self.blocked.first_child().is_some() || self.blocked.namespace_terminating;
        self.facts.children = if is_blocked { Children::Blocked } else { Children::Ensured(policy) };
        Ok(())
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.reconciler.context.client.clone(), &self.observed.owner.namespace)
    }

    async fn ensure_anchor(&mut self) -> Result<(), ReconcileError> {
        let (Some(input), Some(plan), Some(keys)) = (self.input(), &self.plan, &self.keys) else {
            return Ok(());
        };
        let live = self.observed.anchor.as_ref();
        if live.is_some_and(|live| !meta::is_child(&live.metadata, &plan.owner.uid)) {
            self.blocked.anchor = Some(foreign("Secret", &labels::anchor_name(&plan.owner.name)));
            return Ok(());
        }
        let identity = &self.reconciler.context.identity;
        let read = anchor::read(live);
        let (desired, generation) = anchor::desired(input, &plan.scope, keys, identity, read, self.now)?;
        if live.is_none_or(|live| anchor::differs(&desired, live)) {
            let uid = &plan.owner.uid;
            let written = apply::put(&self.api::<Secret>(), &desired, live, uid).await;
            match self.sort("Secret", &desired.name_any(), reasons::REFUSED, written)? {
                Ok(secret) => self.observed.anchor = Some(secret),
                Err(blocker) => {
                    self.blocked.anchor = Some(blocker);
                    return Ok(());
                }
            }
        }
        self.facts.generation = Some(generation);
        Ok(())
    }

    /// A policy that is neither form of ours was changed by somebody, or the spec was: either way it has to be seen to work
    /// again.
    async fn ensure_policy(&mut self, policy: Policy) -> Result<(), ReconcileError> {
        let Some(input) = self.input() else { return Ok(()) };
        let (closed, open) =
            (network_policy::build(input, Phase::Closed), network_policy::build(input, Phase::Open));
        let live = self.observed.policy.clone();
        let is = |form: &NetworkPolicy| live.as_ref().is_some_and(|live| !differs::policy(form, live));
        let is_ours = live.as_ref().is_some_and(|live| meta::is_child(&live.metadata, &input.owner.uid));
        let (is_closed, is_open) = (is_ours && is(&closed), is_ours && is(&open));
        let wanted = match policy {
            Policy::Open => &open,
            Policy::Keep if self.facts.gate_is_open => &open,
            Policy::Closed | Policy::Keep => &closed,
        };
        let is_wanted = match policy {
            Policy::Closed => is_closed,
            Policy::Open => is_open,
            Policy::Keep => is_closed || is_open,
        };
        if is_wanted {
            return Ok(());
        }
        let uid = input.owner.uid.clone();
        let written = apply::put(&self.api::<NetworkPolicy>(), wanted, live.as_deref(), &uid).await;
        let name = wanted.name_any();
        match self.sort("NetworkPolicy", &name, reasons::REFUSED, written)? {
            Ok(policy) => {
                let policy = Arc::new(policy);
                self.memory.policy.wrote(policy.clone(), Instant::now());
                self.observed.policy = Some(policy);
                let was_changed = !(is_closed || is_open);
                if was_changed && self.facts.gate_is_open {
                    self.memory.reprove = true;
                    self.memory.proof = None;
                    self.facts.reprove = true;
                    self.facts.proof = None;
                }
            }
            Err(blocker) => self.blocked.policy = Some(blocker),
        }
        Ok(())
    }

    async fn ensure_claim(&mut self) -> Result<(), ReconcileError> {
        let Some(input) = self.input() else { return Ok(()) };
        let desired = workspace::build(input);
        let uid = input.owner.uid.clone();
        let live = self.observed.claim.clone();
        if let Some(live) = &live
            && meta::is_child(&live.metadata, &uid)
        {
            if live.metadata.deletion_timestamp.is_some() {
                let message = format!("PersistentVolumeClaim {} is being deleted", live.name_any());
                self.blocked.workspace = Some(Blocker::new(reasons::PENDING, message));
                return Ok(());
            }
            if !differs::claim(&desired, live) {
                return Ok(());
            }
        }
        let api = self.api::<PersistentVolumeClaim>();
        let written = apply::put(&api, &desired, live.as_deref(), &uid).await;
        match self.sort("PersistentVolumeClaim", &desired.name_any(), reasons::REFUSED, written)? {
            Ok(claim) => {
                let claim = Arc::new(claim);
                self.memory.claim.wrote(claim.clone(), Instant::now());
                self.observed.claim = Some(claim);
            }
            Err(blocker) => self.blocked.workspace = Some(blocker),
        }
        Ok(())
    }

    async fn ensure_service(&mut self) -> Result<(), ReconcileError> {
        let Some(input) = self.input() else { return Ok(()) };
        let owner = input.owner.clone();
        let live = self.observed.service.clone();
        let Some(desired) = service::build(input) else {
            if let Some(live) = live.filter(|live| meta::is_child(&live.metadata, &owner.uid)) {
                let uid = live.uid().unwrap_or_default();
                apply::delete(&self.api::<Service>(), &live.name_any(), &uid)
                    .await
                    .map_err(|source| ReconcileError::ApplyChild { kind: "Service", source })?;
                self.memory.service.forget();
                self.observed.service = None;
            }
            return Ok(());
        };
        let is_ours = live.as_ref().is_some_and(|live| meta::is_child(&live.metadata, &owner.uid));
        if is_ours && live.as_ref().is_some_and(|live| !differs::service(&desired, live)) {
            return Ok(());
        }
        let written = apply::put(&self.api::<Service>(), &desired, live.as_deref(), &owner.uid).await;
        match self.sort("Service", &desired.name_any(), reasons::REFUSED, written)? {
            Ok(service) => {
                let service = Arc::new(service);
                self.memory.service.wrote(service.clone(), Instant::now());
                self.observed.service = Some(service);
            }
            Err(blocker) => self.blocked.service = Some(blocker),
        }
        Ok(())
    }

    /// Tells what a person has to mend from what a retry may.
    fn sort<K>(
        &mut self,
        kind: &'static str,
        name: &str,
        reason: &'static str,
        written: Result<K, ChildError>,
    ) -> Result<Result<K, Blocker>, ReconcileError> {
        match written {
            Ok(object) => Ok(Ok(object)),
            Err(ChildError::Foreign) => Ok(Err(foreign(kind, name))),
            Err(ChildError::Refused(refused)) => {
                self.blocked.namespace_terminating |= refused.kind == Kind::NamespaceTerminating;
                Ok(Err(Blocker::new(reason, refused.message)))
            }
            Err(ChildError::Api(source)) => Err(ReconcileError::ApplyChild { kind, source }),
        }
    }
}

fn foreign(kind: &str, name: &str) -> Blocker {
    Blocker::new(
        reasons::NAME_CONFLICT,
        format!(
            "a {kind} {name} that does not belong to this Environment is in the way; delete or rename it"
        ),
    )
}
