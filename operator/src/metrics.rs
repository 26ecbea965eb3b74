//! Counters of the operator, all under `cuddy_operator_`.
//!
//! Labels come from fixed sets: words of this program or enums, never a name, a message or anything a user wrote.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::{EncodeLabelSet, prometheus_text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::control::Isolation;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Write {
    kind: &'static str,
    verb: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Call {
    call: &'static str,
    outcome: &'static str,
}

/// The counters. Shared; cloning is cheap.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    reconciles: Family<Outcome, Counter>,
    reconcile_seconds: Histogram,
    writes: Family<Write, Counter>,
    gates: Family<Outcome, Counter>,
    gate_seconds: Histogram,
    stops: Family<Reason, Counter>,
    calls: Family<Call, Counter>,
    canary_refused: Counter,
    leader: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        // A reconcile that writes takes tens of milliseconds, one that waits for the gate seconds.
        let buckets = [0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
        let metrics = Self {
            registry: Arc::new(Mutex::new(Registry::with_prefix("cuddy_operator"))),
            reconciles: Family::default(),
            reconcile_seconds: Histogram::new(buckets),
            writes: Family::default(),
            gates: Family::default(),
            gate_seconds: Histogram::new(buckets),
            stops: Family::default(),
            calls: Family::default(),
            canary_refused: Counter::default(),
            leader: Gauge::default(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&self) {
        let mut registry = self.registry.lock();
        registry.register("reconciles", "Reconciles by outcome", self.reconciles.clone());
        registry.register("reconcile_seconds", "Length of reconciles", self.reconcile_seconds.clone());
        registry.register("api_writes", "Writes to the API server by kind", self.writes.clone());
        registry.register("gate_outcomes", "Answers of the isolation gate", self.gates.clone());
        registry.register("gate_seconds", "Time to an answer of the gate", self.gate_seconds.clone());
        registry.register("stops", "Environments stopped by reason", self.stops.clone());
        registry.register("control_calls", "Calls to sidecars by outcome", self.calls.clone());
        registry.register(
            "canary_connections_refused",
            "Connections to the canary listeners beyond their bound",
            self.canary_refused.clone(),
        );
        registry.register("leader", "1 while this process leads", self.leader.clone());
    }

    /// Counts a reconcile. `outcome` is `ok` or the category of its error.
    pub fn reconciled(&self, outcome: &'static str, took: Duration) {
        self.reconciles.get_or_create(&Outcome { outcome }).inc();
        self.reconcile_seconds.observe(took.as_secs_f64());
    }

    /// Counts a write to the API server.
    pub fn written(&self, kind: &'static str, verb: &'static str) {
        self.writes.get_or_create(&Write { kind, verb }).inc();
    }

    /// Counts an answer of the gate.
    pub fn gated(&self, isolation: Isolation, took: Duration) {
        let outcome = match isolation {
            Isolation::Verified => "verified",
            Isolation::NotEnforced => "not_enforced",
            Isolation::CanaryUnreachable => "canary_unreachable",
        };
        self.gates.get_or_create(&Outcome { outcome }).inc();
        self.gate_seconds.observe(took.as_secs_f64());
    }

    /// Counts an environment that was stopped. `reason` is one of the reasons of the condition Suspended.
    pub fn stopped(&self, reason: &'static str) {
        self.stops.get_or_create(&Reason { reason }).inc();
    }

    /// Counts a call to a sidecar. `outcome` is `ok` or the category of its error.
    pub fn called(&self, call: &'static str, outcome: &'static str) {
        self.calls.get_or_create(&Call { call, outcome }).inc();
    }

    /// Counts a connection to a canary listener that was beyond its bound.
    pub fn canary_refused(&self) {
        self.canary_refused.inc();
    }

    /// Says whether this process leads.
    pub fn leads(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    /// Returns everything in the Prometheus text format (0.0.4).
    pub fn encode(&self) -> String {
        let mut text = String::new();
        // Writing into a String cannot fail; half a page would still be a page.
        if prometheus_text::encode(&mut text, &self.registry.lock()).is_err() {
            tracing::error!("metrics could not be encoded");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_shown() {
        let metrics = Metrics::default();
        metrics.reconciled("ok", Duration::from_millis(30));
        metrics.reconciled("quota", Duration::from_millis(30));
        metrics.written("pods", "create");
        metrics.written("pods", "create");
        metrics.gated(Isolation::Verified, Duration::from_millis(90));
        metrics.stopped("IdleStopped");
        metrics.called("activity", "unreachable");
        metrics.leads(true);
        let text = metrics.encode();
        for line in [
            r#"cuddy_operator_reconciles_total{outcome="ok"} 1"#,
            r#"cuddy_operator_reconciles_total{outcome="quota"} 1"#,
            r#"cuddy_operator_api_writes_total{kind="pods",verb="create"} 2"#,
            r#"cuddy_operator_gate_outcomes_total{outcome="verified"} 1"#,
            r#"cuddy_operator_stops_total{reason="IdleStopped"} 1"#,
            r#"cuddy_operator_control_calls_total{call="activity",outcome="unreachable"} 1"#,
            "cuddy_operator_leader 1",
            "cuddy_operator_reconcile_seconds_count 2",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is missing in\n{text}");
        }
    }
}
