//! Steps that only note something down; the status carries it into the API.

use cuddy_crds::v1alpha1::{StopReason, StopRecord};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::environment::visit::Visit;

impl Visit<'_> {
    /// It is stopped from now on.
    pub(in crate::environment) fn record_stop(&mut self, reason: StopReason, by: &str) {
        let second = Timestamp::from_second(self.now.as_second()).unwrap_or(self.now);
        self.facts.stop = Some(StopRecord { at: Time(second), reason, by: by.to_owned() });
        self.facts.stop_is_fresh = true;
        self.facts.stop_asked = false;
        self.reconciler.context.metrics.stopped(reason.as_str());
    }

    /// It is not stopped any more, or was not to be.
    pub(in crate::environment) fn forget_stop(&mut self) {
        self.facts.stop = None;
        self.facts.stop_is_fresh = false;
        self.facts.wake_asked = false;
        self.facts.stop_asked = false;
    }
}
