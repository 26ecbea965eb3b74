//! Commands that show each path of a call.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cuddy_commands::{Command, Declaration, Effect, Family, Method, Route};
use cuddy_edge::handler::{CallContext, Handlers, ProgressStep};
use cuddy_protocol::{Capability, CommandError, ErrorCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, Semaphore};

macro_rules! command {
    ($type:ident, $name:literal, $params:ty, { $($field:ident: $value:expr),* $(,)? }) => {
        pub(crate) struct $type;
        impl Command for $type {
            const DECLARATION: Declaration = Declaration {
                route: Route { method: Method::Post, path: concat!("/", $name) },
                path: &[$name],
                $($field: $value,)*
                ..Declaration::read::<Self>($name, Family::Exec, "A command of the tests.")
            };
            type Params = $params;
            type Output = Said;
        }
    };
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Say {
    /// What to say.
    #[schemars(length(min = 1, max = 100))]
    pub(crate) text: String,
    /// How often.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 9))]
    pub(crate) times: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Said {
    /// What was said.
    pub(crate) text: String,
}

command!(Echo, "echo", Say, { aliases: &[("words", "text")], retired_names: &["say"] });
command!(Hold, "hold", Nothing, { deadline: Duration::from_hours(2) });
command!(Stubborn, "stubborn", Nothing, { deadline: Duration::from_mins(1) });
command!(Boom, "boom", Nothing, {});
command!(Fail, "fail", Nothing, {});
command!(Steps, "steps", Nothing, {});
command!(Change, "change", Say, { effect: Effect::Change, capability: Capability::Operate });
command!(Secret, "secret", Nothing, { capability: Capability::Admin });

pub(crate) static TABLE: &[&Declaration] = &[
    &Echo::DECLARATION,
    &Hold::DECLARATION,
    &Stubborn::DECLARATION,
    &Boom::DECLARATION,
    &Fail::DECLARATION,
    &Steps::DECLARATION,
    &Change::DECLARATION,
    &Secret::DECLARATION,
];

/// What the tests see of calls that hold on.
#[derive(Debug)]
pub(crate) struct Held {
    /// One permit for each call that has begun.
    pub(crate) began: Semaphore,
    /// One permit for each call that was cancelled and saw it.
    pub(crate) cancelled: Semaphore,
    /// Lets calls end.
    pub(crate) release: Semaphore,
    /// How many `change`s ran.
    pub(crate) changes: AtomicUsize,
    pub(crate) dropped: Notify,
}

impl Default for Held {
    fn default() -> Self {
        Self {
            began: Semaphore::new(0),
            cancelled: Semaphore::new(0),
            release: Semaphore::new(0),
            changes: AtomicUsize::new(0),
            dropped: Notify::new(),
        }
    }
}

/// Waits for one permit, and takes it away; what does not happen soon does not happen.
pub(crate) async fn one(semaphore: &Semaphore) {
    soon(semaphore.acquire()).await.unwrap().forget();
}

/// Waits for what happens soon, even on a busy machine.
pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("it did not happen")
}

#[expect(clippy::unnecessary_wraps, reason = "it is what handlers end with")]
fn said(text: impl Into<String>) -> Result<Said, CommandError> {
    Ok(Said { text: text.into() })
}

struct OnDrop(Arc<Held>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.dropped.notify_one();
    }
}

pub(crate) fn handlers(held: &Arc<Held>) -> Handlers {
    let (hold, stubborn, change) = (Arc::clone(held), Arc::clone(held), Arc::clone(held));
    Handlers::new()
        .with::<Echo, _, _>(|_, params| async move {
            said(params.text.repeat(usize::try_from(params.times.unwrap_or(1)).unwrap()))
        })
        .with::<Hold, _, _>(move |context: CallContext, _| {
            let held = Arc::clone(&hold);
            async move {
                held.began.add_permits(1);
                tokio::select! {
                    permit = held.release.acquire() => {
                        permit.unwrap().forget();
                        said("released")
                    }
                    () = context.cancel.cancelled() => {
                        held.cancelled.add_permits(1);
                        Err(CommandError::new(ErrorCode::Cancelled, "stopped"))
                    }
                }
            }
        })
        .with::<Stubborn, _, _>(move |_, _| {
            let held = Arc::clone(&stubborn);
            async move {
                let _dropped = OnDrop(Arc::clone(&held));
                held.began.add_permits(1);
                std::future::pending().await
            }
        })
        .with::<Boom, _, _>(|_, _| async { panic!("boom") })
        .with::<Fail, _, _>(|_, _| async {
            Err(CommandError::new(ErrorCode::NotFound, "there is no such thing").with("id", "x"))
        })
        .with::<Steps, _, _>(|context: CallContext, _| async move {
            for progress in [1.0, 1.0, 0.5, 2.0, f64::NAN, f64::INFINITY, 3.0] {
                let message = Some(format!("at {progress}"));
                context.progress.report(ProgressStep { progress, total: Some(3.0), message });
            }
            said(if context.progress.is_wanted() { "with steps" } else { "without steps" })
        })
        .with::<Change, _, _>(move |_, params| {
            let held = Arc::clone(&change);
            async move {
                held.changes.fetch_add(1, Ordering::SeqCst);
                said(params.text)
            }
        })
        .with::<Secret, _, _>(|_, _| async { said("secret") })
}
