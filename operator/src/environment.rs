//! The controller of Environments, in five steps: what is looked at (`dereference`), whether it can be met (`validate`), what
//! that makes (`build`), the writes (`act`, `apply`), and what is told of it (`status`). What happens next at each moment is
//! decided by one pure function (`lifecycle`).

mod act;
mod activity;
pub mod apply;
pub mod build;
pub mod caches;
pub mod classes;
mod controller;
mod dereference;
mod drive;
pub mod error;
mod foreign;
mod keys;
pub mod lifecycle;
mod memory;
mod outcome;
mod pod_state;
mod status;
#[cfg(test)]
mod tests;
mod validate;
mod visit;

use std::sync::Arc;
use std::time::Duration;

use cuddy_crds::Environment;
use kube::core::DeserializeGuard;
use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};
use tokio::time::Instant;

pub use caches::{Caches, Classes, Listed};
pub use controller::controller;
pub use error::ReconcileError;
pub use memory::Memory;

use crate::context::Context;
use lifecycle::Wait;
use memory::Remembered;
use visit::Visit;

/// The longest wait after a refusal: whoever mends a quota should not have to touch the Environment too.
const LONGEST_AFTER_REFUSAL: Duration = Duration::from_secs(30);
/// The wait after something changed in the middle of a reconcile.
const AFTER_CHANGE: Duration = Duration::from_millis(100);

/// What reconciles share.
pub struct Reconciler {
    /// The world.
    pub context: Arc<Context>,
    /// What the watches have seen.
    pub caches: Caches,
    /// What is remembered of each Environment.
    pub memory: Memory,
}

/// Looks after one Environment.
pub async fn reconcile(
    guarded: Arc<DeserializeGuard<Environment>>,
    reconciler: Arc<Reconciler>,
) -> Result<Action, ReconcileError> {
    let environment = match &guarded.0 {
        Ok(environment) if environment.metadata.deletion_timestamp.is_none() => environment,
        // The garbage collector removes the children.
        Ok(_) => return Ok(Action::await_change()),
        Err(error) => {
            let (namespace, name) = (guarded.namespace(), guarded.name_any());
            tracing::warn!(?namespace, name, %error, "an Environment that cannot be read is left alone");
            return Ok(Action::await_change());
        }
    };
    reconciler.caches.ready().await?;
    let started = Instant::now();
    let uid = environment.uid().unwrap_or_default();
    let mut memory = reconciler.memory.take(&uid);
    let visited = visit(&reconciler, Arc::new(environment.clone()), &mut memory).await;
    reconciler.memory.put(&uid, memory);
    let outcome = visited.as_ref().map_or_else(ReconcileError::category, |_| "ok");
    reconciler.context.metrics.reconciled(outcome, started.elapsed());
    Ok(action(&reconciler, &uid, visited?))
}

/// The five steps.
async fn visit(
    reconciler: &Reconciler,
    environment: Arc<Environment>,
    memory: &mut Remembered,
) -> Result<Wait, ReconcileError> {
    if memory.namespace_terminating {
        return Ok(Wait::ForChange);
    }
    let observed = dereference::dereference(reconciler, environment, memory).await?;
    let spec = &observed.environment.spec;
    let plan = validate::validate(&observed.owner, spec, observed.class.as_ref(), &reconciler.context.config);
    let mut visit = Visit::new(reconciler, memory, observed, plan);
    let wait = drive::drive(&mut visit).await?;
    if visit.blocked.namespace_terminating {
        visit.memory.namespace_terminating = true;
        return Ok(Wait::ForChange);
    }
    if visit.facts.pod.is_ready() {
        visit.memory.pod_serves();
    }
    let later = status::write(&mut visit).await?;
    let lag = visit.memory.pod.is_some().then_some(memory::CACHE_LAG);
    Ok([later, lag].into_iter().flatten().fold(wait, earlier))
}

/// Returns the earlier of the two.
fn earlier(wait: Wait, other: Duration) -> Wait {
    match wait {
        Wait::ForChange => Wait::For(other),
        Wait::For(wait) => Wait::For(wait.min(other)),
        Wait::BackOff => Wait::BackOff,
    }
}

fn action(reconciler: &Reconciler, uid: &str, wait: Wait) -> Action {
    let backoff = &reconciler.context.backoff;
    match wait {
        Wait::BackOff => Action::requeue(backoff.failed(uid).min(LONGEST_AFTER_REFUSAL)),
        Wait::For(wait) => {
            backoff.reset(uid);
            Action::requeue(wait)
        }
        Wait::ForChange => {
            backoff.reset(uid);
            Action::await_change()
        }
    }
}

/// Decides when an Environment whose reconcile failed is looked at again.
#[expect(clippy::needless_pass_by_value, reason = "the controller's signature")]
pub fn error_policy(
    guarded: Arc<DeserializeGuard<Environment>>,
    error: &ReconcileError,
    reconciler: Arc<Reconciler>,
) -> Action {
    if matches!(error, ReconcileError::Changed) {
        return Action::requeue(AFTER_CHANGE);
    }
    let uid = guarded.meta().uid.clone().unwrap_or_default();
    Action::requeue(reconciler.context.backoff.failed(&uid))
}
