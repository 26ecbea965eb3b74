//! The handlers of the sidecar's own commands, and of those that it passes on.

use std::sync::Arc;
use std::time::Duration;

use cuddy_commands::idle::Idle;
use cuddy_commands::version::{Version, VersionOutput};
use cuddy_edge::handler::Handlers;
use cuddy_protocol::API_LEVEL;

use crate::activity::Activity;
use crate::build_info;
use crate::host::client::HostClient;
use crate::host::pass;
use crate::host::watch::HostWatch;
use crate::leases::{self, Leases};
use crate::report;

/// How old may be what `idle` says of the host.
const AGE: Duration = Duration::from_secs(2);

/// What the handlers work with.
#[derive(Debug, Clone)]
pub struct Parts {
    /// The idle clock.
    pub activity: Arc<Activity>,
    /// The leases.
    pub leases: Arc<Leases>,
    /// The host.
    pub host: Arc<HostClient>,
    /// What is known of the host.
    pub watch: Arc<HostWatch>,
}

/// Returns a handler for each command of the table.
pub fn all(parts: &Parts) -> Handlers {
    let handlers = Handlers::new().with::<Version, _, _>(|_, _| async {
        Ok(VersionOutput {
            build: build_info::VERSION.to_owned(),
            commit: build_info::COMMIT.unwrap_or("unknown").to_owned(),
            date: build_info::DATE.unwrap_or("unknown").to_owned(),
            api_level: API_LEVEL,
        })
    });
    let idle = parts.clone();
    let handlers = handlers.with::<Idle, _, _>(move |_, _| {
        let Parts { activity, leases, watch, .. } = idle.clone();
        async move {
            watch.look(AGE).await;
            let held = leases.list().await;
            let (_, verdict) = activity.verdict();
            Ok(report::idle(&activity.policy(), &verdict, held))
        }
    });
    let handlers = leases::handlers::add(handlers, &parts.leases);
    pass::add(handlers, &parts.host, &parts.watch)
}
