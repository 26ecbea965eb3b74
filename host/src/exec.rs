//! `exec_raw`: a command, in the foreground or as a job.

pub mod capture;
pub mod check;
pub mod foreground;
pub mod supervise;
pub mod supervisors;

use std::sync::Arc;

use cuddy_commands::exec::raw::{ExecRawOutput, ExecRawParams};
use cuddy_protocol::CommandError;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::home::Home;
use crate::jobs::start::{self, Starts};
use crate::jobs::store::Store;
use supervisors::Supervisors;

/// What a command works with.
#[derive(Debug)]
pub struct Context {
    /// Where commands run.
    pub home: Home,
    /// The jobs.
    pub store: Arc<Store>,
    /// The jobs that are being started.
    pub starts: Starts,
    /// The supervisors that run.
    pub supervisors: Supervisors,
    /// What every command finds in its environment.
    pub variables: Vec<(String, String)>,
}

/// Runs a command. `stdin` brings what follows the text of the parameters; it ends when the sender is dropped.
pub async fn run(
    context: &Context,
    params: ExecRawParams,
    stdin: mpsc::UnboundedReceiver<Vec<u8>>,
    cancel: &CancellationToken,
) -> Result<ExecRawOutput, CommandError> {
    check::argv(&params.argv)?;
    check::variables(params.env.as_ref())?;
    let seconds = check::timeout(params.timeout_seconds)?;
    if params.wait == Some(false) {
        return start::run(context, params, stdin, cancel).await;
    }
    check::foreground(&params)?;
    let folder = context.home.open(params.cwd.as_deref())?;
    foreground::run(context, params, folder, seconds, stdin, cancel).await
}
