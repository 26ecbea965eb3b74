//! Commands whose handlers are in the host: parameters go in as they are, results come back in their declared shape.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use cuddy_commands::exec::job_await::ExecJobAwait;
use cuddy_commands::exec::job_cancel::ExecJobCancel;
use cuddy_commands::exec::job_output::ExecJobOutput;
use cuddy_commands::exec::job_status::ExecJobStatus;
use cuddy_commands::exec::raw::ExecRaw;
use cuddy_commands::usage::Usage;
use cuddy_commands::{Command, Effect};
use cuddy_edge::handler::{CallContext, Handlers, Progress, ProgressStep};
use cuddy_protocol::CommandError;
use cuddy_protocol::host::MAX_RESULT;
use serde_json::Value;
use tokio::time::{Instant, interval_at};

use super::client::{Ask, HostClient};
use super::reply;
use crate::activity::Activity;

/// How often a caller who asked for progress hears that the work goes on: well within the time-outs of clients, which
/// progress resets.
const PULSE: Duration = Duration::from_secs(2);

/// Adds a handler for every command that the host runs.
pub fn add(handlers: Handlers, host: &Arc<HostClient>, activity: &Arc<Activity>) -> Handlers {
    let handlers = pass::<Usage>(handlers, host, activity);
    let handlers = pass::<ExecRaw>(handlers, host, activity);
    let handlers = pass::<ExecJobStatus>(handlers, host, activity);
    let handlers = pass::<ExecJobAwait>(handlers, host, activity);
    let handlers = pass::<ExecJobOutput>(handlers, host, activity);
    pass::<ExecJobCancel>(handlers, host, activity)
}

fn pass<C: Command>(handlers: Handlers, host: &Arc<HostClient>, activity: &Arc<Activity>) -> Handlers {
    let (host, activity) = (Arc::clone(host), Arc::clone(activity));
    handlers.with_raw(C::DECLARATION.name, move |context, params| {
        let (host, activity) = (Arc::clone(&host), Arc::clone(&activity));
        async move { run::<C>(&host, &activity, context, params).await }
    })
}

async fn run<C: Command>(
    host: &HostClient,
    activity: &Activity,
    context: CallContext,
    mut params: Value,
) -> Result<Value, CommandError> {
    let declaration = &C::DECLARATION;
    let stdin = take_stdin(&mut params);
    let asked = host.ask(Ask {
        command: declaration.name,
        params,
        stdin,
        deadline: declaration.deadline,
        call: &context.call_id,
        progress: context.progress.clone(),
        cancel: context.cancel,
        max_result: MAX_RESULT,
    });
    let answer = with_pulse(&context.progress, declaration.name, asked).await;
    if declaration.effect != Effect::Read {
        // Whoever called, and however it ended: something may run now that did not before.
        activity.stir();
    }
    match answer {
        Ok(json) => reply::reshape::<C::Output>(&json),
        Err(error) => Err(error.into_command_error(declaration.effect != Effect::Read)),
    }
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
    use std::collections::BTreeSet;
    use std::time::Duration;

    use cuddy_commands::{Hosted, TABLE};

    use super::*;
    use crate::clock::Clock;
    use crate::idle::{IdleAction, Policy};

    #[tokio::test]
    async fn every_command_of_the_host_is_passed_on() {
        let policy = Policy {
            timeout: Duration::from_secs(1),
            grace: Duration::ZERO,
            max_busy: Duration::ZERO,
            action: IdleAction::None,
        };
        let host = Arc::new(HostClient::new("/nowhere".into()));
        let handlers = add(Handlers::new(), &host, &Activity::new(Clock::start(), policy));
        let passed: BTreeSet<_> = handlers.names().collect();
        let declared = TABLE.iter().filter(|d| d.hosted == Hosted::Host).map(|d| d.name).collect();
        assert_eq!(passed, declared);
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
