//! What a reconcile needs of the world, gathered once when the process has become leader.

use std::sync::Arc;

use crate::backoff::Backoff;
use crate::config::OperatorConfig;
use crate::control::SidecarControl;
use crate::events::Events;
use crate::identity::Identity;
use crate::leader::Leadership;
use crate::metrics::Metrics;

/// Everything that the steps of a reconcile share. Cheap to share behind an `Arc`; nothing in it changes by itself but
/// `leadership`, `backoff` and `metrics`.
pub struct Context {
    /// The API server. Each of its writes is refused once the lease is too old, and counted (`leader::WriteFence`).
    pub client: kube::Client,
    /// What the process was started with.
    pub config: OperatorConfig,
    /// The CA and the control keys.
    pub identity: Arc<Identity>,
    /// The way to the pods.
    pub sidecars: Arc<dyn SidecarControl>,
    /// What people read in `kubectl describe`.
    pub recorder: Events,
    /// How long a failing object waits.
    pub backoff: Backoff,
    /// Counters.
    pub metrics: Metrics,
    /// Whether this process still leads.
    pub leadership: Leadership,
}
