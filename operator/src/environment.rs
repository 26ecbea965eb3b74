//! The controller of Environments.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::context::Context;

/// Runs until `shutdown` is cancelled and every reconcile under way has ended.
pub async fn controller(_context: Arc<Context>, shutdown: CancellationToken) {
    shutdown.cancelled().await;
}
