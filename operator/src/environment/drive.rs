//! The loop: one step, then ask again what is next.

use super::error::ReconcileError;
use super::lifecycle::{self, Step, Wait};
use super::visit::Visit;

/// The most steps of one visit. The longest way there is takes ten; a bound on a mistake, not on work.
pub(super) const MOST_STEPS: usize = 20;

/// Carries out steps until there is nothing more to do now.
pub(super) async fn drive(visit: &mut Visit<'_>) -> Result<Wait, ReconcileError> {
    for _ in 0..MOST_STEPS {
        let step = lifecycle::next(&visit.facts);
        tracing::debug!(
            namespace = visit.observed.owner.namespace,
            environment = visit.observed.owner.name,
            ?step,
            "step"
        );
        match step {
            Step::Stay(wait) => return Ok(wait),
            Step::Ensure(policy) => visit.ensure(policy).await?,
            Step::CreatePod => visit.create_pod().await?,
            Step::DeletePod { uid, failed } => visit.delete_pod(&uid, failed).await?,
            Step::FetchReport => visit.fetch_report().await,
            Step::PushKeys => visit.push_keys().await,
            Step::VerifyGate => visit.verify_gate().await,
            Step::Open => visit.open().await,
            Step::Quiesce { if_idle_since } => visit.quiesce(if_idle_since).await,
            Step::RecordStop { reason, by } => visit.record_stop(reason, by),
            Step::ForgetStop => visit.forget_stop(),
        }
    }
    tracing::warn!(environment = visit.observed.owner.name, "more steps than there should be");
    Ok(Wait::BackOff)
}
