//! What an Environment's status means, in sentences: why it is (not) ready, what keeps it up, when it stops, what to do.

use cuddy_crds::conditions::{self, reasons, types};
use cuddy_crds::v1alpha1::{ActivityState, ActivityStatus, Mode, StopReason};
use cuddy_crds::{Environment, EnvironmentStatus, labels};
use jiff::Timestamp;
use kube::ResourceExt;

use super::view;

/// Conditions whose truth is the good news, in the order in which one depends on another.
const MUST_BE_TRUE: [&str; 4] =
    [types::WORKSPACE_BOUND, types::NETWORK_ISOLATED, types::RUNTIME_AVAILABLE, types::ANCHORED];

/// Returns the sentences.
pub(super) fn of(environment: &Environment, now: Timestamp) -> Vec<String> {
    let name = environment.name_any();
    let Some(status) = &environment.status else {
        return vec![
            format!("Environment {name} has no status: no operator has seen it."),
            "Is the operator running? `kubectl -n cuddy-system get pods` shows it.".to_owned(),
        ];
    };
    let mut sentences = vec![readiness(environment, &name, status)];
    if environment.metadata.deletion_timestamp.is_some() {
        sentences.push("It is being deleted.".to_owned());
    }
    if status.observed_generation != environment.metadata.generation {
        sentences.push("The operator has not seen the last change of its spec yet.".to_owned());
    }
    let is_suspended = is(status, types::SUSPENDED, "True");
    if is_suspended || environment.spec.mode == Some(Mode::Stopped) {
        sentences.extend(stopped(environment, &name, status, now));
    } else {
        sentences.extend(MUST_BE_TRUE.iter().filter_map(|type_| obstacle(status, type_)));
        if let Some(activity) = &status.activity {
            sentences.extend(activity_words(activity, now));
        }
        sentences.extend(last_stop(status, now));
    }
    sentences.extend(warning(status, types::DEGRADED, "True"));
    if let Some(pending) =
        conditions::find(&status.conditions, types::UP_TO_DATE).filter(|c| c.status == "False")
    {
        let message = period(&conditions::clean(&pending.message));
        sentences.push(
            format!("Changes wait for the next start. {message} `cuddy env restart {name}` takes them up.")
                .replace("  ", " "),
        );
    }
    sentences
}

fn readiness(environment: &Environment, name: &str, status: &EnvironmentStatus) -> String {
    let ready = conditions::find(&status.conditions, types::READY);
    match ready {
        Some(c) if c.status == "True" => {
            let pod = status.pod_name.as_deref().map(|p| format!(" in pod {p}")).unwrap_or_default();
            let image = status.image.as_deref().map(|i| format!(", image {i}")).unwrap_or_default();
            format!("Environment {name} is ready: it runs{pod}{image}.")
        }
        Some(c) if environment.spec.mode == Some(Mode::Stopped) || c.reason == reasons::STOPPED => {
            format!("Environment {name} is stopped on purpose; its workspace is kept.")
        }
        Some(c) => {
            let message = conditions::clean(&c.message);
            let advice = advice(&c.reason, &message).map(|a| format!(" {a}")).unwrap_or_default();
            format!("Environment {name} is not ready ({}): {}{advice}", c.reason, period(&message))
        }
        None => format!("Environment {name} is not ready: the operator has not judged it yet."),
    }
}

fn stopped(environment: &Environment, name: &str, status: &EnvironmentStatus, now: Timestamp) -> Vec<String> {
    let mut sentences = Vec::new();
    if let Some(stop) = status.stop.as_ref().and_then(cuddy_crds::v1alpha1::StopStatus::current) {
        let why = match stop.reason {
            StopReason::UserStopped => "somebody asked for it",
            StopReason::IdleStopped => "nobody worked in it",
            StopReason::MaxBusy => "jobs alone kept it up for longer than idle.maxBusySeconds allows",
        };
        sentences.push(format!("It was stopped {} because {why} (by {}).", ago(stop.at.0, now), stop.by));
    }
    let suspended = conditions::find(&status.conditions, types::SUSPENDED);
    let reason = suspended.map(|c| c.reason.as_str()).unwrap_or_default();
    let asked = environment.annotations().get(labels::WAKE);
    sentences.push(if environment.spec.mode == Some(Mode::Stopped) {
        format!("spec.mode: Stopped holds it, so no call starts it; `cuddy env start {name}` does.")
    } else if reason == reasons::WAITING_FOR_TERMINATION {
        "Its old pod is not gone yet; it cannot start before.".to_owned()
    } else if reason == reasons::WAKING || (asked.is_some() && asked != status.last_wake.as_ref()) {
        "It was asked to start, and comes up.".to_owned()
    } else {
        format!("The next tool call starts it, and so does `cuddy env start {name}`.")
    });
    sentences
}

fn obstacle(status: &EnvironmentStatus, type_: &str) -> Option<String> {
    let condition = conditions::find(&status.conditions, type_).filter(|c| c.status != "True")?;
    // What Ready says already is not said twice.
    let ready = conditions::find(&status.conditions, types::READY);
    if ready.is_some_and(|r| r.reason == condition.reason && r.message == condition.message) {
        return None;
    }
    let message = conditions::clean(&condition.message);
    let advice = advice(&condition.reason, &message).map(|a| format!(" {a}")).unwrap_or_default();
    Some(format!("{type_} is {} ({}): {}{advice}", condition.status, condition.reason, period(&message)))
}

fn warning(status: &EnvironmentStatus, type_: &str, bad: &str) -> Option<String> {
    let condition = conditions::find(&status.conditions, type_).filter(|c| c.status == bad)?;
    let message = conditions::clean(&condition.message);
    let advice = advice(&condition.reason, &message).map(|a| format!(" {a}")).unwrap_or_default();
    Some(format!("{type_} ({}): {}{advice}", condition.reason, period(&message)))
}

fn activity_words(activity: &ActivityStatus, now: Timestamp) -> Vec<String> {
    let mut sentences = Vec::new();
    let last = activity.last_activity.as_ref().map(|at| {
        let source =
            activity.source.map(|s| format!(" ({})", serde_json::json!(s).as_str().unwrap_or_default()));
        format!("the last sign of work came {}{}", ago(at.0, now), source.unwrap_or_default())
    });
    let state = match activity.state {
        ActivityState::Starting => "It comes up",
        ActivityState::Busy => "Somebody works in it",
        ActivityState::Idle => "Nobody works in it",
        ActivityState::Unknown => "Whether somebody works in it is not known, which counts as work",
    };
    sentences.push(last.map_or_else(|| format!("{state}."), |last| format!("{state}: {last}.")));
    if !activity.blockers.is_empty() {
        sentences.push(format!("It is kept up by {}.", activity.blockers.join(", ")));
    } else if let Some(at) = &activity.stops_at {
        let left = at.0.duration_since(now);
        let when = if left.is_positive() {
            format!("in {} (at {})", view::age(left), at.0)
        } else {
            "now".to_owned()
        };
        sentences.push(format!("If nothing happens it is stopped {when}."));
    }
    sentences
}

fn last_stop(status: &EnvironmentStatus, now: Timestamp) -> Option<String> {
    let last = status.stop.as_ref()?.history.first()?;
    Some(format!("It was last stopped {} ({}).", ago(last.at.0, now), last.reason.as_str()))
}

/// What a person can do about a reason.
fn advice(reason: &str, message: &str) -> Option<&'static str> {
    Some(match reason {
        reasons::INVALID if message.contains(reasons::CLASS_NOT_FOUND) => {
            "`cuddy class init` makes the default class; spec.classRef names another."
        }
        reasons::NO_KEYS => "`cuddy key show` prints your key; put it under spec.auth.keys.",
        reasons::BAD_KEY | reasons::KEY_SOURCE_MISSING => {
            "Mend the ConfigMap; it needs the label cuddy.dev/keys and an Ed25519 key in PEM."
        }
        reasons::NOT_ENFORCED => {
            "The cluster needs a network plugin that enforces NetworkPolicies; network.verify: Report starts without proof."
        }
        reasons::CANARY_UNREACHABLE => {
            "Can pods reach the operator's pod? A policy in the operator's namespace may be in the way."
        }
        reasons::FOREIGN_POLICY => "Delete that NetworkPolicy or narrow its selector.",
        reasons::IMAGE_ERROR => "Check spec.image, and spec.imagePullSecrets for a private registry.",
        reasons::QUOTA_EXCEEDED => "Raise the namespace's quota, or stop another environment.",
        reasons::UNSCHEDULABLE => "No node has room; lower spec.resources.requests or add a node.",
        reasons::NAME_CONFLICT => "Rename the Environment, or delete the object that is in the way.",
        reasons::NODE_LOST => {
            "If the node is gone for good, delete its Node object; until then the pod may still run there."
        }
        reasons::FULL => "Delete files, or raise spec.workspace.size.",
        reasons::SIDECAR_SILENT => "`cuddy env restart` starts it anew.",
        _ => return None,
    })
}

fn is(status: &EnvironmentStatus, type_: &str, value: &str) -> bool {
    conditions::find(&status.conditions, type_).is_some_and(|c| c.status == value)
}

fn ago(at: Timestamp, now: Timestamp) -> String {
    let passed = now.duration_since(at);
    if passed.is_negative() { "just now".to_owned() } else { format!("{} ago", view::age(passed)) }
}

/// Returns the text with exactly one full stop at its end.
fn period(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() || text.ends_with(['.', '!', '?', '…']) {
        text.to_owned()
    } else {
        format!("{text}.")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn explain(spec: &Value, conditions: &[(&str, &str, &str, &str)], rest: &Value) -> String {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|(t, s, r, m)| json!({ "type": t, "status": s, "reason": r, "message": m, "lastTransitionTime": "2026-11-30T12:00:00Z" }))
            .collect();
        let mut status = json!({ "observedGeneration": 1, "conditions": conditions });
        for (key, value) in rest.as_object().unwrap() {
            status[key] = value.clone();
        }
        let environment: Environment = serde_json::from_value(json!({
            "apiVersion": "cuddy.dev/v1alpha1", "kind": "Environment",
            "metadata": { "name": "dev", "generation": 1 }, "spec": spec, "status": status,
        }))
        .unwrap();
        of(&environment, "2026-11-30T12:10:00Z".parse().unwrap()).join("\n")
    }

    #[test]
    fn one_that_runs_says_when_it_stops() {
        let running = [("Ready", "True", "Running", ""), ("Suspended", "False", "Running", "")];
        let idle = json!({
            "podName": "dev", "image": "debian:13",
            "activity": { "state": "Idle", "lastActivity": "2026-11-30T12:00:00Z", "source": "call", "jobs": 0, "leases": 0,
                "stopsAt": "2026-11-30T12:16:00Z" },
        });
        insta::assert_snapshot!(explain(&json!({}), &running, &idle), @r"
        Environment dev is ready: it runs in pod dev, image debian:13.
        Nobody works in it: the last sign of work came 10m ago (call).
        If nothing happens it is stopped in 6m (at 2026-11-30T12:16:00Z).
        ");
        let busy = json!({ "activity": { "state": "Busy", "jobs": 1, "leases": 1, "blockers": ["1 job", "lease build"] } });
        insta::assert_snapshot!(explain(&json!({}), &running, &busy), @r"
        Environment dev is ready: it runs.
        Somebody works in it.
        It is kept up by 1 job, lease build.
        ");
    }

    #[test]
    fn one_that_is_stopped_says_what_starts_it() {
        let stopped = [("Ready", "False", "Stopped", "m"), ("Suspended", "True", "IdleStopped", "m")];
        let record =
            json!({ "stop": { "at": "2026-11-30T12:05:00Z", "reason": "IdleStopped", "by": "operator" } });
        insta::assert_snapshot!(explain(&json!({}), &stopped, &record), @r"
        Environment dev is stopped on purpose; its workspace is kept.
        It was stopped 5m ago because nobody worked in it (by operator).
        The next tool call starts it, and so does `cuddy env start dev`.
        ");
        let held = explain(&json!({ "mode": "Stopped" }), &stopped, &record);
        assert!(held.contains("spec.mode: Stopped holds it, so no call starts it"), "{held}");
    }

    #[test]
    fn one_that_cannot_start_says_what_is_in_the_way_once() {
        let blocked = [
            ("Ready", "False", "NotEnforced", "a forbidden path was open"),
            ("NetworkIsolated", "False", "NotEnforced", "a forbidden path was open"),
            ("WorkspaceBound", "Unknown", "Pending", "waiting for a volume"),
            ("UpToDate", "False", "RestartPending", "the image changed"),
        ];
        insta::assert_snapshot!(explain(&json!({}), &blocked, &json!({})), @r"
        Environment dev is not ready (NotEnforced): a forbidden path was open. The cluster needs a network plugin that enforces NetworkPolicies; network.verify: Report starts without proof.
        WorkspaceBound is Unknown (Pending): waiting for a volume.
        Changes wait for the next start. the image changed. `cuddy env restart dev` takes them up.
        ");
        let invalid = [("Ready", "False", "Invalid", "ClassNotFound: there is no default class")];
        assert!(explain(&json!({}), &invalid, &json!({})).contains("cuddy class init"));
    }

    #[test]
    fn one_that_nobody_has_seen_asks_for_the_operator() {
        let environment: Environment = serde_json::from_value(json!({
            "apiVersion": "cuddy.dev/v1alpha1", "kind": "Environment", "metadata": { "name": "dev" }, "spec": {} }))
        .unwrap();
        assert!(of(&environment, Timestamp::now())[1].contains("operator"));
    }
}
