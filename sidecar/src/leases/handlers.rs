//! The commands `activity_lease_take`, `activity_lease_release` and `activity_lease_list`.

use std::sync::Arc;

use cuddy_commands::activity::lease_list::{ActivityLeaseList, ActivityLeaseListOutput};
use cuddy_commands::activity::lease_release::{
    ActivityLeaseRelease, ActivityLeaseReleaseOutput, ActivityLeaseReleaseParams,
};
use cuddy_commands::activity::lease_take::{
    ActivityLeaseTake, ActivityLeaseTakeOutput, ActivityLeaseTakeParams,
};
use cuddy_edge::caller::Caller;
use cuddy_edge::handler::Handlers;
use cuddy_protocol::CommandError;

use super::{Leases, params};

/// Adds the three handlers.
pub fn add(handlers: Handlers, leases: &Arc<Leases>) -> Handlers {
    let (take, release, list) = (Arc::clone(leases), Arc::clone(leases), Arc::clone(leases));
    handlers
        .with::<ActivityLeaseTake, _, _>(move |context, params| {
            let leases = Arc::clone(&take);
            async move { take_lease(&leases, &context.caller, params).await }
        })
        .with::<ActivityLeaseRelease, _, _>(move |context, params| {
            let leases = Arc::clone(&release);
            async move { release_lease(&leases, &context.caller, &params).await }
        })
        .with::<ActivityLeaseList, _, _>(move |_, _| {
            let leases = Arc::clone(&list);
            async move { Ok(ActivityLeaseListOutput { leases: leases.list().await }) }
        })
}

async fn take_lease(
    leases: &Leases,
    caller: &Caller,
    params: ActivityLeaseTakeParams,
) -> Result<ActivityLeaseTakeOutput, CommandError> {
    let (mut take, pid) = params::parse(params, caller)?;
    if let Some(pid) = pid {
        let found = leases.processes.identity(pid).await?;
        let identity = found.ok_or_else(|| {
            CommandError::invalid("$.pid", format!("a process that runs; there is no process {pid}"))
        })?;
        take.process = Some((pid, identity));
    }
    let (lease, leases) = leases.take(take).await?;
    Ok(ActivityLeaseTakeOutput { lease, leases })
}

async fn release_lease(
    leases: &Leases,
    caller: &Caller,
    params: &ActivityLeaseReleaseParams,
) -> Result<ActivityLeaseReleaseOutput, CommandError> {
    let id = params::lease_id("$.id", &params.id)?;
    Ok(ActivityLeaseReleaseOutput { leases: leases.release(&id, &caller.owner()).await? })
}
