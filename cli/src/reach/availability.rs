//! What an Environment's resource says about reaching it: one pure function.

use cuddy_crds::conditions::{self, reasons, types};
use cuddy_crds::v1alpha1::Mode;
use cuddy_crds::{Environment, labels};
use kube::ResourceExt;

/// What is to be done to reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Availability {
    /// It is up.
    Up(Up),
    /// It comes up, or is about to: wait.
    Coming(Why),
    /// It is stopped, and a new wake id starts it.
    Asleep(Why),
    /// `spec.mode: Stopped` holds it.
    Held,
    /// It cannot come up before somebody changes something.
    Broken(Why),
}

/// How a pod is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Up {
    /// The Environment's name.
    pub(crate) name: String,
    /// The Environment's UID.
    pub(crate) uid: String,
    /// The pod's name.
    pub(crate) pod: String,
    /// The pod's port.
    pub(crate) port: u16,
    /// The CA that signed its certificate, PEM.
    pub(crate) ca: String,
    /// The issuer that its keys sign for, where the spec names one.
    pub(crate) issuer: Option<String>,
}

/// A condition's reason and message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Why {
    /// The reason.
    pub(crate) reason: String,
    /// The message.
    pub(crate) message: String,
}

/// Decides from what the resource says.
pub(crate) fn of(environment: &Environment) -> Availability {
    if environment.metadata.deletion_timestamp.is_some() {
        return Availability::Broken(Why {
            reason: "Deleting".to_owned(),
            message: "the Environment is being deleted".to_owned(),
        });
    }
    if environment.spec.mode == Some(Mode::Stopped) {
        return Availability::Held;
    }
    let status = environment.status.clone().unwrap_or_default();
    let why = |type_: &str| {
        conditions::find(&status.conditions, type_)
            .map(|c| Why { reason: c.reason.clone(), message: conditions::clean(&c.message) })
    };
    let is = |type_: &str, value: &str| {
        conditions::find(&status.conditions, type_).is_some_and(|c| c.status == value)
    };
    let asked = environment.annotations().get(labels::WAKE);
    let is_asked = asked.is_some() && asked != status.last_wake.as_ref();
    if is(types::SUSPENDED, "True") {
        let why = why(types::SUSPENDED).unwrap_or_default();
        let comes = is_asked || why.reason == reasons::WAKING;
        return if comes { Availability::Coming(why) } else { Availability::Asleep(why) };
    }
    if is(types::READY, "True")
        && let (Some(pod), Some(endpoint), Some(uid)) =
            (&status.pod_name, &status.endpoint, environment.uid())
    {
        return Availability::Up(Up {
            name: environment.name_any(),
            uid,
            pod: pod.clone(),
            port: endpoint.port,
            ca: endpoint.ca_bundle.clone(),
            issuer: environment.spec.auth.as_ref().and_then(|auth| auth.issuer.clone()),
        });
    }
    match why(types::READY) {
        Some(why) if why.reason == reasons::INVALID && is_seen(environment) => Availability::Broken(why),
        Some(why) => Availability::Coming(why),
        None => Availability::Coming(Why {
            reason: reasons::STARTING.to_owned(),
            message: "the operator has not seen it yet".to_owned(),
        }),
    }
}

/// Says whether the status is about the spec as it is now.
fn is_seen(environment: &Environment) -> bool {
    let observed = environment.status.as_ref().and_then(|s| s.observed_generation);
    observed.is_some() && observed == environment.metadata.generation
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn environment(spec: &Value, conditions: &[(&str, &str, &str)], rest: &Value) -> Environment {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|(type_, status, reason)| {
                json!({ "type": type_, "status": status, "reason": reason, "message": format!("{reason}!"),
                    "lastTransitionTime": "2026-11-30T12:00:00Z" })
            })
            .collect();
        let mut value = json!({
            "apiVersion": "cuddy.dev/v1alpha1", "kind": "Environment",
            "metadata": { "name": "dev", "namespace": "acme", "uid": "u-1", "generation": 3 },
            "spec": spec,
            "status": { "observedGeneration": 3, "conditions": conditions },
        });
        merge(&mut value, rest);
        serde_json::from_value(value).unwrap()
    }

    fn merge(into: &mut Value, from: &Value) {
        match (into, from) {
            (Value::Object(into), Value::Object(from)) => {
                for (key, value) in from {
                    merge(into.entry(key.clone()).or_insert(Value::Null), value);
                }
            }
            (into, from) => *into = from.clone(),
        }
    }

    fn running() -> Value {
        json!({ "status": { "podName": "dev", "endpoint": { "address": "10.0.0.1", "port": 17443, "caBundle": "CA" } } })
    }

    #[test]
    fn a_ready_one_is_up() {
        let up = of(&environment(&json!({}), &[("Ready", "True", "Running")], &running()));
        let Availability::Up(up) = up else { panic!("{up:?}") };
        assert_eq!((up.pod.as_str(), up.port, up.uid.as_str(), up.ca.as_str()), ("dev", 17443, "u-1", "CA"));
    }

    #[test]
    fn the_mode_holds_whatever_else_is_said() {
        let held = environment(&json!({ "mode": "Stopped" }), &[("Ready", "True", "Running")], &running());
        assert_eq!(of(&held), Availability::Held);
    }

    #[test]
    fn what_is_asleep_is_woken_once() {
        let asleep = |rest| {
            environment(
                &json!({}),
                &[("Ready", "False", "Stopped"), ("Suspended", "True", "IdleStopped")],
                &rest,
            )
        };
        assert!(matches!(of(&asleep(json!({}))), Availability::Asleep(why) if why.reason == "IdleStopped"));
        let asked = json!({ "metadata": { "annotations": { "cuddy.dev/wake": "b" } }, "status": { "lastWake": "a" } });
        assert!(
            matches!(of(&asleep(asked)), Availability::Coming(_)),
            "a wake that was not acted upon yet is not repeated"
        );
        let acted = json!({ "metadata": { "annotations": { "cuddy.dev/wake": "b" } }, "status": { "lastWake": "b" } });
        assert!(matches!(of(&asleep(acted)), Availability::Asleep(_)), "an old wake is none");
    }

    #[test]
    fn what_comes_up_is_waited_for_and_what_cannot_is_not() {
        let coming = environment(&json!({}), &[("Ready", "False", "Starting")], &json!({}));
        assert!(matches!(of(&coming), Availability::Coming(why) if why.message == "Starting!"));
        let new = environment(&json!({}), &[], &json!({ "status": null }));
        assert!(matches!(of(&new), Availability::Coming(_)));
        let invalid = environment(&json!({}), &[("Ready", "False", "Invalid")], &json!({}));
        assert!(matches!(of(&invalid), Availability::Broken(_)));
        let mended = environment(
            &json!({}),
            &[("Ready", "False", "Invalid")],
            &json!({ "metadata": { "generation": 4 } }),
        );
        assert!(matches!(of(&mended), Availability::Coming(_)), "the status is about an older spec");
        let going = json!({ "metadata": { "deletionTimestamp": "2026-11-30T12:00:00Z" } });
        let going = environment(&json!({}), &[("Ready", "True", "Running")], &going);
        assert!(matches!(of(&going), Availability::Broken(_)));
    }
}
