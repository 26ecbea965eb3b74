//! Counters of the doors. Labels come from fixed sets: commands of the table, codes of the table of errors, fixed reasons.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Upper bounds of the buckets for durations, in seconds: from a table look-up to the longest foreground command.
const BUCKETS: [f64; 9] = [0.001, 0.005, 0.025, 0.1, 0.5, 2.0, 10.0, 60.0, 600.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    command: &'static str,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CommandLabel {
    command: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

/// The counters; clones count into the same.
#[derive(Debug, Clone)]
pub struct Metrics {
    calls: Family<CallLabels, Counter>,
    durations: Family<CommandLabel, Histogram, fn() -> Histogram>,
    refusals: Family<ReasonLabel, Counter>,
    running: Gauge,
    sessions: Gauge,
}

fn histogram() -> Histogram {
    Histogram::new(BUCKETS)
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            calls: Family::default(),
            durations: Family::new_with_constructor(histogram as fn() -> Histogram),
            refusals: Family::default(),
            running: Gauge::default(),
            sessions: Gauge::default(),
        }
    }
}

impl Metrics {
    /// Returns counters that are registered; the registry's prefix names the program (`cuddy_sidecar`).
    pub fn register(registry: &mut Registry) -> Self {
        let new = Self::default();
        registry.register("calls", "Calls by command and result", new.calls.clone());
        registry.register("call_duration_seconds", "Time from dispatch to answer", new.durations.clone());
        registry.register(
            "refused_requests",
            "Requests refused at the door, by reason",
            new.refusals.clone(),
        );
        registry.register("running_calls", "Calls that run now", new.running.clone());
        registry.register("sessions", "Sessions that are kept", new.sessions.clone());
        new
    }

    pub(crate) fn call(&self, command: &'static str, result: &'static str, took: Duration) {
        self.calls.get_or_create(&CallLabels { command, result }).inc();
        self.durations.get_or_create(&CommandLabel { command }).observe(took.as_secs_f64());
    }

    pub(crate) fn refused(&self, reason: &'static str) {
        self.refusals.get_or_create(&ReasonLabel { reason }).inc();
    }

    pub(crate) fn started(&self) {
        self.running.inc();
    }

    pub(crate) fn ended(&self) {
        self.running.dec();
    }

    pub(crate) fn sessions(&self, count: usize) {
        self.sessions.set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}
