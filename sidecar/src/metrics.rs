//! The sidecar's counters and states, `cuddy_sidecar_*`: no argument, path or subject is among them (D7).

use std::fmt;

use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The states at one moment, as numbers.
#[derive(Debug, Clone, Copy, Default)]
pub struct States {
    /// Whether the gate is open.
    pub gate_open: bool,
    /// Whether no set of keys can be trusted.
    pub anchor_closed: bool,
    /// The generation of the keys in force.
    pub anchor_generation: u64,
    /// How many keys are in force.
    pub keys: usize,
    /// Whether the host answers.
    pub host_up: bool,
    /// Whether the environment is idle.
    pub idle: bool,
    /// Whether a fence stands.
    pub fenced: bool,
    /// Running jobs.
    pub jobs: usize,
    /// Leases held.
    pub leases: usize,
    /// Whether leases can be changed.
    pub leases_sound: bool,
    /// Entries of the trail that were dropped.
    pub audit_dropped: u64,
    /// Whether the disk is full.
    pub disk_full: bool,
}

/// A state's number.
type Value = fn(&States) -> i64;

/// The registry.
pub struct Metrics {
    registry: Mutex<Registry>,
    doors: cuddy_edge::metrics::Metrics,
    states: Vec<(Value, Gauge)>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// The states by name. One line each: name, meaning, value.
const STATES: [(&str, &str, Value); 12] = [
    ("gate_open", "Whether the gate is open", |s| i64::from(s.gate_open)),
    ("anchor_closed", "Whether no set of keys is trusted until the operator pushes", |s| {
        i64::from(s.anchor_closed)
    }),
    ("anchor_generation", "Generation of the keys in force", |s| s.anchor_generation.cast_signed()),
    ("keys", "Keys in force", |s| count(s.keys)),
    ("host_up", "Whether the host answers", |s| i64::from(s.host_up)),
    ("idle", "Whether the environment is idle", |s| i64::from(s.idle)),
    ("fenced", "Whether new work is refused", |s| i64::from(s.fenced)),
    ("jobs", "Running jobs", |s| count(s.jobs)),
    ("leases", "Leases held", |s| count(s.leases)),
    ("leases_sound", "Whether leases can be changed", |s| i64::from(s.leases_sound)),
    ("audit_dropped", "Audit entries dropped since the start", |s| s.audit_dropped.cast_signed()),
    ("disk_full", "Whether the workspace is full", |s| i64::from(s.disk_full)),
];

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("cuddy_sidecar");
        let doors = cuddy_edge::metrics::Metrics::register(&mut registry);
        let states = STATES.map(|(name, help, value)| {
            let gauge = Gauge::default();
            registry.register(name, help, gauge.clone());
            (value, gauge)
        });
        Self { registry: Mutex::new(registry), doors, states: states.into() }
    }
}

impl Metrics {
    /// Returns the counters of the doors.
    pub fn doors(&self) -> cuddy_edge::metrics::Metrics {
        self.doors.clone()
    }

    /// Returns all of them in OpenMetrics' text, the states as they are now.
    pub fn text(&self, now: &States) -> Result<String, fmt::Error> {
        for (value, gauge) in &self.states {
            gauge.set(value(now));
        }
        let mut text = String::new();
        encode(&mut text, &self.registry.lock())?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_told() {
        let metrics = Metrics::default();
        let text = metrics.text(&States { jobs: 3, gate_open: true, ..States::default() }).unwrap();
        assert!(
            text.contains("cuddy_sidecar_jobs 3\n") && text.contains("cuddy_sidecar_gate_open 1\n"),
            "{text}"
        );
        assert!(text.contains("cuddy_sidecar_host_up 0\n"), "{text}");
    }
}
