//! How Environments are shown: the columns of `kubectl get env`, and whole objects.

use cuddy_crds::conditions::{self, types};
use cuddy_crds::{Environment, EnvironmentStatus};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::Format;
use crate::error::CliError;
use crate::output;

/// Prints Environments.
pub(super) fn print(
    all: &[Environment],
    format: Format,
    with_namespace: bool,
    as_list: bool,
) -> Result<(), CliError> {
    match format {
        Format::Json if as_list => output::json(&json!({ "items": all })),
        Format::Yaml if as_list => output::yaml(&json!({ "items": all })),
        Format::Json => output::json(&first(all)?),
        Format::Yaml => output::yaml(&first(all)?),
        Format::Name => {
            let names: Vec<String> =
                all.iter().map(|e| format!("environment.cuddy.dev/{}", e.name_any())).collect();
            if names.is_empty() { Ok(()) } else { output::line(&names.join("\n")) }
        }
        Format::Text | Format::Wide => {
            let wide = format == Format::Wide;
            let now = Timestamp::now();
            let rows: Vec<Vec<String>> = all.iter().map(|e| row(e, wide, with_namespace, now)).collect();
            output::table(&head(wide, with_namespace), &rows)
        }
    }
}

fn first(all: &[Environment]) -> Result<Value, CliError> {
    serde_json::to_value(all.first())
        .map_err(|e| CliError::failed("the Environment cannot be written").because(e))
}

fn head(wide: bool, with_namespace: bool) -> Vec<&'static str> {
    let mut head = if with_namespace { vec!["NAMESPACE"] } else { Vec::new() };
    head.extend(["NAME", "READY", "REASON", "IDLE", "STOPS-AT", "AGE"]);
    if wide {
        head.extend(["POD", "IMAGE", "TENANT"]);
    }
    head
}

fn row(environment: &Environment, wide: bool, with_namespace: bool, now: Timestamp) -> Vec<String> {
    let status = environment.status.clone().unwrap_or_default();
    let mut row = Vec::new();
    if with_namespace {
        row.push(environment.namespace().unwrap_or_default());
    }
    let ready = conditions::find(&status.conditions, types::READY);
    row.extend([
        environment.name_any(),
        ready.map(|c| c.status.clone()).unwrap_or_default(),
        ready.map(|c| c.reason.clone()).unwrap_or_default(),
        conditions::find(&status.conditions, types::IDLE).map(|c| c.reason.clone()).unwrap_or_default(),
        stops_at(&status).map(|at| at.to_string()).unwrap_or_default(),
        environment.creation_timestamp().map(|t| age(now.duration_since(t.0))).unwrap_or_default(),
    ]);
    if wide {
        row.extend([
            status.pod_name.unwrap_or_default(),
            status.image.unwrap_or_default(),
            status.tenant.unwrap_or_default(),
        ]);
    }
    row
}

/// Returns when the Environment is stopped if nothing happens.
pub(super) fn stops_at(status: &EnvironmentStatus) -> Option<Timestamp> {
    status.activity.as_ref().and_then(|a| a.stops_at.as_ref()).map(|t| t.0)
}

/// Returns a duration in its largest unit or two, as kubectl does: `45s`, `5m`, `3h20m`, `2d`.
pub(super) fn age(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{minutes}m"),
        7_200..86_400 if minutes % 60 == 0 => format!("{hours}h"),
        7_200..86_400 => format!("{hours}h{}m", minutes % 60),
        86_400..172_800 => format!("{hours}h"),
        _ => format!("{days}d"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let of = |seconds: i64| age(SignedDuration::from_secs(seconds));
        let ages = [-5, 0, 119, 120, 7_199, 7_200, 12_000, 86_400, 172_800, 1_000_000].map(of);
        assert_eq!(ages, ["0s", "0s", "119s", "2m", "119m", "2h", "3h20m", "24h", "2d", "11d"]);
    }

    #[test]
    fn a_new_environment_has_empty_columns() {
        let environment: Environment = serde_json::from_value(json!({
            "apiVersion": "cuddy.dev/v1alpha1", "kind": "Environment",
            "metadata": { "name": "dev", "namespace": "acme" }, "spec": {}
        }))
        .unwrap();
        let row = row(&environment, true, true, Timestamp::now());
        assert_eq!(row.len(), head(true, true).len());
        assert_eq!(&row[..3], ["acme", "dev", ""]);
    }
}
