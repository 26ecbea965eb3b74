//! Waiting for an Environment to become something, with words about what it is meanwhile.

use std::time::Duration;

use cuddy_crds::Environment;
use cuddy_crds::conditions::{self, reasons, types};
use cuddy_crds::v1alpha1::Mode;
use futures::StreamExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher;

use super::Chosen;
use crate::error::{CliError, Kind};
use crate::output;

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Goal {
    /// A condition with a status.
    Condition {
        /// The condition's type.
        type_: String,
        /// The condition's status.
        status: String,
    },
    /// No pod, on purpose.
    Stopped,
    /// No Environment.
    Gone,
}

/// Where an Environment stands on the way to a goal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Standing {
    /// There.
    Reached,
    /// On the way; what it is.
    Coming(String),
    /// It does not get there by itself; why.
    Never(String),
}

/// Waits until the Environment is ready.
pub(super) async fn until_ready(chosen: &Chosen, seconds: u64) -> Result<(), CliError> {
    until(chosen, &Goal::Condition { type_: types::READY.to_owned(), status: "True".to_owned() }, seconds)
        .await
}

/// Waits until the Environment is stopped.
pub(super) async fn until_stopped(chosen: &Chosen, seconds: u64) -> Result<(), CliError> {
    until(chosen, &Goal::Stopped, seconds).await
}

/// Waits for a goal.
pub(super) async fn until(chosen: &Chosen, goal: &Goal, seconds: u64) -> Result<(), CliError> {
    let name = &chosen.name;
    let mut last = String::new();
    let mut watch = std::pin::pin!(watcher::watch_object(chosen.api.clone(), name).default_backoff());
    let watched = async {
        loop {
            let seen = match watch.next().await {
                Some(Ok(seen)) => seen,
                Some(Err(error)) => {
                    refused(&error, name)?;
                    tracing::info!(%error, "the watch of the Environment broke off");
                    continue;
                }
                None => return Err(CliError::unreachable(format!("the watch of Environment {name} ended"))),
            };
            match standing(seen.as_ref(), goal) {
                Standing::Reached => return Ok(()),
                Standing::Never(why) => return Err(never(name, &why)),
                Standing::Coming(what) if what != last => {
                    output::note(&format!("{name}: {what}"));
                    last = what;
                }
                Standing::Coming(_) => {}
            }
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(seconds), watched).await;
    waited.unwrap_or_else(|_| {
        let what = if last.is_empty() { "nothing was seen of it".to_owned() } else { last.clone() };
        Err(CliError::new(
            Kind::TimedOut,
            format!("Environment {name} did not get there within {seconds} s: {what}"),
        )
        .hint(format!("`cuddy env explain {name}` says what it waits for")))
    })
}

/// Decides where an Environment stands.
pub(super) fn standing(environment: Option<&Environment>, goal: &Goal) -> Standing {
    let Some(environment) = environment else {
        return match goal {
            Goal::Gone => Standing::Reached,
            _ => Standing::Never("there is no such Environment".to_owned()),
        };
    };
    let status = environment.status.clone().unwrap_or_default();
    let of = |type_: &str| conditions::find(&status.conditions, type_);
    let words = |type_: &str| {
        of(type_).map_or_else(
            || "the operator has not seen it yet".to_owned(),
            |c| {
                format!("{}={} ({}) {}", c.type_, c.status, c.reason, conditions::clean(&c.message))
                    .trim()
                    .to_owned()
            },
        )
    };
    let is_current = status.observed_generation == environment.metadata.generation;
    match goal {
        Goal::Gone => Standing::Coming("it is still there".to_owned()),
        Goal::Stopped => {
            let over = of(types::SUSPENDED)
                .is_some_and(|c| c.status == "True" && c.reason != reasons::WAITING_FOR_TERMINATION);
            let asked =
                environment.metadata.annotations.as_ref().and_then(|a| a.get(cuddy_crds::labels::STOP));
            let seen = asked.is_none() || status.stop.as_ref().and_then(|s| s.last_request.as_ref()) == asked;
            if over && is_current && seen {
                Standing::Reached
            } else {
                Standing::Coming(words(types::SUSPENDED))
            }
        }
        Goal::Condition { type_, status: wanted } => {
            let found = of(type_);
            if is_current && found.is_some_and(|c| c.status == *wanted) {
                return Standing::Reached;
            }
            if type_ == types::READY && wanted == "True" {
                if environment.spec.mode == Some(Mode::Stopped) {
                    return Standing::Never("spec.mode: Stopped holds it".to_owned());
                }
                let is_asleep = matches!(
                    crate::reach::availability::of(environment),
                    crate::reach::availability::Availability::Asleep(_)
                );
                if is_current && is_asleep {
                    return Standing::Never(format!("it is stopped: {}", words(types::SUSPENDED)));
                }
                if is_current && found.is_some_and(|c| c.reason == reasons::INVALID) {
                    return Standing::Never(words(types::READY));
                }
            }
            Standing::Coming(words(type_))
        }
    }
}

fn never(name: &str, why: &str) -> CliError {
    let error = CliError::failed(format!("Environment {name} does not get there: {why}"));
    if why.contains("topped") { error.hint(format!("`cuddy env start {name}` starts it")) } else { error }
}

/// A watch that is forbidden stays so; others are taken up again.
fn refused(error: &watcher::Error, name: &str) -> Result<(), CliError> {
    let (watcher::Error::InitialListFailed(source) | watcher::Error::WatchStartFailed(source)) = error else {
        return Ok(());
    };
    match source {
        kube::Error::Api(status) if matches!(status.code, 401 | 403 | 404) => {
            Err(CliError::refused(format!("cannot watch Environment {name}: {}", status.message)))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn environment(
        spec: &Value,
        annotations: &Value,
        conditions: &[(&str, &str, &str)],
        rest: &Value,
    ) -> Environment {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|(t, s, r)| json!({ "type": t, "status": s, "reason": r, "message": "m", "lastTransitionTime": "2026-11-30T12:00:00Z" }))
            .collect();
        let mut status = json!({ "observedGeneration": 2, "conditions": conditions });
        for (key, value) in rest.as_object().unwrap() {
            status[key] = value.clone();
        }
        serde_json::from_value(json!({
            "apiVersion": "cuddy.dev/v1alpha1", "kind": "Environment",
            "metadata": { "name": "dev", "generation": 2, "annotations": annotations }, "spec": spec, "status": status,
        }))
        .unwrap()
    }

    fn ready() -> Goal {
        Goal::Condition { type_: "Ready".into(), status: "True".into() }
    }

    #[test]
    fn ready_is_reached_or_said_to_be_out_of_reach() {
        let at = |spec: Value, conditions: &[(&str, &str, &str)], rest: Value| {
            standing(Some(&environment(&spec, &json!({}), conditions, &rest)), &ready())
        };
        assert_eq!(at(json!({}), &[("Ready", "True", "Running")], json!({})), Standing::Reached);
        let old = at(json!({}), &[("Ready", "True", "Running")], json!({ "observedGeneration": 1 }));
        assert!(matches!(old, Standing::Coming(_)), "the status is about an older spec");
        let coming = at(json!({}), &[("Ready", "False", "ImageError")], json!({}));
        assert_eq!(coming, Standing::Coming("Ready=False (ImageError) m".into()));
        assert!(matches!(at(json!({}), &[("Ready", "False", "Invalid")], json!({})), Standing::Never(_)));
        assert!(matches!(
            at(json!({ "mode": "Stopped" }), &[("Ready", "False", "Stopped")], json!({})),
            Standing::Never(_)
        ));
        let asleep =
            at(json!({}), &[("Ready", "False", "Stopped"), ("Suspended", "True", "IdleStopped")], json!({}));
        assert!(matches!(asleep, Standing::Never(_)));
        assert!(matches!(standing(None, &ready()), Standing::Never(_)));
        assert_eq!(standing(None, &Goal::Gone), Standing::Reached);
    }

    #[test]
    fn a_stop_is_over_when_the_operator_has_seen_this_very_request() {
        let at = |request: &str, reason: &str| {
            let suspended = [("Suspended", "True", reason)];
            let rest = json!({ "stop": { "lastRequest": request } });
            standing(
                Some(&environment(&json!({}), &json!({ "cuddy.dev/stop": "b" }), &suspended, &rest)),
                &Goal::Stopped,
            )
        };
        assert!(matches!(at("a", "IdleStopped"), Standing::Coming(_)));
        assert!(matches!(at("b", "WaitingForTermination"), Standing::Coming(_)));
        assert_eq!(at("b", "UserStopped"), Standing::Reached);
    }
}
