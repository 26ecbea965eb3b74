//! Steps that ask the sidecar. No answer is an answer: the facts say that it is silent, and the life cycle decides.

use std::time::Duration;

use cuddy_protocol::control::{AnchorPush, Gate};
use tokio::time::Instant;

use crate::control::{Isolation, Quiesced};
use crate::environment::activity;
use crate::environment::lifecycle::{Fenced, Proof, Report};
use crate::environment::memory::LastReport;
use crate::environment::visit::Visit;

impl Visit<'_> {
    /// Asks what it is doing.
    pub(in crate::environment) async fn fetch_report(&mut self) {
        let Some(target) = self.target() else { return self.is_silent("its pod does not run") };
        match self.reconciler.context.sidecars.activity(&target).await {
            Ok(report) => {
                let pause = activity::pause(&report);
                self.facts.gate_is_open = report.gate == Gate::Open;
                self.memory.open_pod = self.facts.gate_is_open.then(|| target.pod_uid.clone());
                self.memory.silent = None;
                self.memory.report = Some(LastReport {
                    pod_uid: target.pod_uid,
                    report: report.clone(),
                    due: Instant::now() + pause,
                });
                self.facts.next_report_in = pause;
                self.facts.report = Report::Fresh(report);
            }
            Err(error) => self.is_silent(&error.to_string()),
        }
    }

    /// Gives it the keys.
    pub(in crate::environment) async fn push_keys(&mut self) {
        self.facts.push_failed = true;
        let (Some(target), Some(keys), Some(generation)) =
            (self.target(), self.keys.as_ref(), self.facts.generation)
        else {
            return;
        };
        let push = AnchorPush { generation, keys: keys.keys.clone() };
        match self.reconciler.context.sidecars.push_anchor(&target, push).await {
            Ok(loaded) => {
                self.facts.push_failed = loaded.generation != generation;
                self.change_report(|report| {
                    report.anchor_generation = loaded.generation;
                    report.keys.clone_from(&loaded.keys);
                });
            }
            Err(error) => {
                tracing::warn!(environment = target.name, %error, "the sidecar did not take the keys");
                self.silence = Some(error.to_string());
            }
        }
    }

    /// Sees whether the policy is enforced.
    pub(in crate::environment) async fn verify_gate(&mut self) {
        let Some(target) = self.target() else { return };
        let proof = match self.reconciler.context.sidecars.verify_isolation(&target).await {
            Ok(Isolation::Verified) => Proof::Verified,
            Ok(Isolation::NotEnforced) => Proof::NotEnforced,
            Ok(Isolation::CanaryUnreachable) => Proof::CanaryUnreachable,
            Err(error) => {
                self.silence = Some(error.to_string());
                Proof::CanaryUnreachable
            }
        };
        if proof == Proof::Verified {
            self.memory.reprove = false;
            self.facts.reprove = false;
        }
        self.memory.proof = Some((target.pod_uid, proof, Instant::now()));
        self.facts.proof = Some(proof);
    }

    /// Opens the gate.
    pub(in crate::environment) async fn open(&mut self) {
        self.facts.open_failed = true;
        let Some(target) = self.target() else { return };
        match self.reconciler.context.sidecars.open(&target).await {
            Ok(()) => {
                self.facts.open_failed = false;
                self.facts.gate_is_open = true;
                self.memory.open_pod = Some(target.pod_uid);
                self.change_report(|report| report.gate = Gate::Open);
                // What it said before it was open says nothing of what comes now.
                if let Some(last) = &mut self.memory.report {
                    last.due = Instant::now();
                }
            }
            Err(error) => {
                tracing::warn!(environment = target.name, %error, "the gate did not open");
                self.silence = Some(error.to_string());
            }
        }
    }

    /// Asks it to refuse new work.
    pub(in crate::environment) async fn quiesce(&mut self, if_idle_since: Option<String>) {
        self.facts.quiesce = Some(Fenced::No);
        let Some(target) = self.target() else { return };
        match self.reconciler.context.sidecars.quiesce(&target, if_idle_since).await {
            Ok(Quiesced::Fenced(_)) => self.facts.quiesce = Some(Fenced::Yes),
            Ok(Quiesced::Blocked(blocked)) => {
                tracing::info!(environment = target.name, blockers = ?blocked.blockers, "the stop is off");
            }
            Err(error) => {
                tracing::info!(environment = target.name, %error, "no answer to the request to stop");
            }
        }
    }

    fn is_silent(&mut self, why: &str) {
        let uid = self.facts.pod.uid().unwrap_or_default().to_owned();
        let now = Instant::now();
        let since = match &self.memory.silent {
            Some((pod, since)) if *pod == uid => *since,
            _ => now,
        };
        self.memory.silent = Some((uid, since));
        self.silence = Some(why.to_owned());
        self.facts.report = Report::Silent { seconds: now.saturating_duration_since(since).as_secs() };
        self.facts.next_report_in = Duration::ZERO;
    }

    fn change_report(&mut self, change: impl Fn(&mut cuddy_protocol::control::ActivityReport)) {
        if let Report::Fresh(report) | Report::NotDue(report) = &mut self.facts.report {
            change(report);
        }
        if let Some(last) = &mut self.memory.report {
            change(&mut last.report);
        }
    }
}
