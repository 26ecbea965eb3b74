//! Commands whose handlers are in the host: parameters go in as they are, results come back in their declared shape.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use cuddy_commands::exec::job_await::{self, ExecJobAwait};
use cuddy_commands::exec::job_cancel::ExecJobCancel;
use cuddy_commands::exec::job_output::ExecJobOutput;
use cuddy_commands::exec::job_status::ExecJobStatus;
use cuddy_commands::exec::raw::{self, ExecRaw};
use cuddy_commands::usage::Usage;
use cuddy_commands::{Command, Declaration, Effect};
use cuddy_edge::handler::{CallContext, Handlers, Progress, ProgressStep};
use cuddy_protocol::CommandError;
use cuddy_protocol::host::MAX_RESULT;
use serde_json::Value;
use tokio::time::{Instant, interval_at};

use super::client::{Ask, HostClient};
use super::reply;
use super::watch::HostWatch;

/// How often a caller who asked for progress hears that the work goes on: well within the time-outs of clients, which
/// progress resets.
const PULSE: Duration = Duration::from_secs(2);
/// What the host may take beyond the time that a call names: to end a tree that does not want to, and to answer. Above its own
/// bounds, so that a host that works is the one that tells the time limit.
const BEYOND: Duration = Duration::from_secs(10);
/// What the host may take beyond a wait: nothing has to be ended.
const ANSWER: Duration = Duration::from_secs(3);
/// How long the start of a job may take: the host's own bound, and a little.
const START: Duration = Duration::from_secs(12);

/// Adds a handler for every command that the host runs.
pub fn add(handlers: Handlers, host: &Arc<HostClient>, watch: &Arc<HostWatch>) -> Handlers {
    let handlers = pass::<Usage>(handlers, host, watch);
    let handlers = pass::<ExecRaw>(handlers, host, watch);
    let handlers = pass::<ExecJobStatus>(handlers, host, watch);
    let handlers = pass::<ExecJobAwait>(handlers, host, watch);
    let handlers = pass::<ExecJobOutput>(handlers, host, watch);
    pass::<ExecJobCancel>(handlers, host, watch)
}

fn pass<C: Command>(handlers: Handlers, host: &Arc<HostClient>, watch: &Arc<HostWatch>) -> Handlers {
    let (host, watch) = (Arc::clone(host), Arc::clone(watch));
    handlers.with_raw(C::DECLARATION.name, move |context, params| {
        let (host, watch) = (Arc::clone(&host), Arc::clone(&watch));
        async move { run::<C>(&host, &watch, context, params).await }
    })
}

async fn run<C: Command>(
    host: &HostClient,
    watch: &HostWatch,
    context: CallContext,
    mut params: Value,
) -> Result<Value, CommandError> {
    let declaration = &C::DECLARATION;
    let stdin = take_stdin(&mut params);
    let deadline = deadline(declaration, &params);
    let is_start = starts_a_job(declaration, &params);
    let asked = host.ask(Ask {
        command: declaration.name,
        params,
        stdin,
        deadline,
        call: &context.call_id,
        progress: context.progress.clone(),
        cancel: context.cancel,
        max_result: MAX_RESULT,
    });
    let answer = with_pulse(&context.progress, declaration.name, asked).await;
    if declaration.effect != Effect::Read {
        // Whoever called, and however it ended: something may run now that did not before.
        watch.activity().stir();
    }
    if is_start && answer.is_ok() {
        // Whoever reads that a job runs must find the environment busy with it.
        watch.look(Duration::ZERO).await;
    }
    match answer {
        Ok(json) => reply::reshape::<C::Output>(&json),
        Err(error) => Err(error.into_command_error(declaration.effect != Effect::Read)),
    }
}

/// Returns how long a call may take: what it names itself, and what the host needs to say so; never more than declared.
fn deadline(declaration: &Declaration, params: &Value) -> Duration {
    let seconds = |name: &str| params.get(name).and_then(Value::as_u64);
    let named = match declaration.name {
        name if name == ExecRaw::DECLARATION.name && starts_a_job(declaration, params) => START,
        name if name == ExecRaw::DECLARATION.name => {
            let limit = seconds("timeout_seconds").unwrap_or(raw::DEFAULT_TIMEOUT_SECONDS);
            Duration::from_secs(limit).saturating_add(BEYOND)
        }
        name if name == ExecJobAwait::DECLARATION.name => {
            let wait = seconds("timeoutSeconds").filter(|s| *s > 0);
            Duration::from_secs(wait.unwrap_or(job_await::DEFAULT_TIMEOUT_SECONDS)).saturating_add(ANSWER)
        }
        _ => declaration.deadline,
    };
    named.min(declaration.deadline)
}

/// Says whether a call starts a job.
fn starts_a_job(declaration: &Declaration, params: &Value) -> bool {
    declaration.name == ExecRaw::DECLARATION.name && params.get("wait") == Some(&Value::Bool(false))
}

/// Waits for the work, and says every now and then that it goes on.
async fn with_pulse<T>(progress: &Progress, name: &str, work: impl Future<Output = T>) -> T {
    if !progress.is_wanted() {
        return work.await;
    }
    let started = Instant::now();
    let mut pulse = interval_at(started + PULSE, PULSE);
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            _ = pulse.tick() => {
                let seconds = started.elapsed().as_secs();
                let message = Some(format!("{name} has been running for {seconds} s"));
                progress.report(ProgressStep { progress: seconds as f64, total: None, message });
            }
        }
    }
}

/// Takes the text for the process out of the parameters: it goes in frames of its own, since a header is small.
fn take_stdin(params: &mut Value) -> Vec<u8> {
    match params.as_object_mut().and_then(|params| params.remove("stdin")) {
        Some(Value::String(text)) => text.into_bytes(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use std::collections::BTreeSet;

    use cuddy_commands::{Hosted, TABLE};

    use serde_json::json;

    use super::*;
    use crate::activity::Activity;
    use crate::clock::Clock;
    use crate::idle::{IdleAction, Policy};
    use crate::leases::Leases;
    use crate::proved::Proved;

    #[tokio::test]
    async fn every_command_of_the_host_is_passed_on() {
        let policy = Policy {
            timeout: Duration::from_secs(1),
            grace: Duration::ZERO,
            max_busy: Duration::ZERO,
            action: IdleAction::None,
        };
        let folder = tempfile::tempdir().unwrap();
        let host = Arc::new(HostClient::new("/nowhere".into()));
        let activity = Activity::new(Clock::start(), policy);
        let leases = Arc::new(Leases::load(folder.path(), Arc::clone(&activity), Arc::clone(&host) as _));
        let proved = Proved::load(folder.path(), "uid");
        let watch = HostWatch::new(Arc::clone(&host), activity, leases, proved);
        let handlers = add(Handlers::new(), &host, &watch);
        let passed: BTreeSet<_> = handlers.names().collect();
        let declared = TABLE.iter().filter(|d| d.hosted == Hosted::Host).map(|d| d.name).collect();
        assert_eq!(passed, declared);
    }

    #[test]
    fn a_call_lasts_as_long_as_it_says_and_a_little() {
        let of = |declaration: &Declaration, params: Value| deadline(declaration, &params).as_secs();
        let (run, wait) = (&ExecRaw::DECLARATION, &ExecJobAwait::DECLARATION);
        assert_eq!(of(run, json!({ "argv": ["x"], "timeout_seconds": 1 })), 11);
        assert_eq!(of(run, json!({ "argv": ["x"] })), 310);
        assert_eq!(of(run, json!({ "argv": ["x"], "timeout_seconds": 3600 })), 3610);
        assert_eq!(of(run, json!({ "argv": ["x"], "wait": false, "timeout_seconds": 3600 })), 12);
        assert_eq!(of(wait, json!({ "id": "x", "timeoutSeconds": 1 })), 4);
        assert_eq!(of(wait, json!({ "id": "x", "timeoutSeconds": 0 })), 33);
        assert_eq!(of(wait, json!({ "id": "x" })), 33);
        for declaration in TABLE {
            let most = of(declaration, json!({ "timeout_seconds": u64::MAX, "timeoutSeconds": u64::MAX }));
            assert!(most <= declaration.deadline.as_secs(), "{}", declaration.name);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_for_progress_hears_that_the_work_goes_on() {
        let (sender, mut steps) = tokio::sync::mpsc::channel(8);
        let work = tokio::time::sleep(Duration::from_secs(5));
        with_pulse(&Progress::to(sender), "exec_raw", work).await;
        let mut heard = Vec::new();
        while let Some(step) = steps.recv().await {
            heard.push((step.progress, step.message.unwrap()));
        }
        assert_eq!(
            heard,
            [
                (2.0, "exec_raw has been running for 2 s".to_owned()),
                (4.0, "exec_raw has been running for 4 s".to_owned()),
            ]
        );
    }

    #[test]
    fn stdin_leaves_the_parameters() {
        let mut params = serde_json::json!({ "argv": ["cat"], "stdin": "x" });
        assert_eq!(take_stdin(&mut params), b"x");
        assert_eq!(params, serde_json::json!({ "argv": ["cat"] }));
    }
}
