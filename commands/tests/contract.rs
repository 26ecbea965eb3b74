//! The table beside the contract of the seed (`contract/erun.json`): names, parameters, bounds, results.
#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is the report")]

use cuddy_commands::{Declaration, Effect, TABLE, find};
use serde_json::Value;

fn contract() -> Value {
    serde_json::from_str(include_str!("contract/erun.json")).unwrap()
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|v| v.as_str().unwrap()).collect()
}

fn each(check: impl Fn(&Value, &Declaration)) {
    let contract = contract();
    let tools = contract["tools"].as_array().unwrap();
    assert_eq!(tools.len(), TABLE.len());
    for tool in tools {
        check(tool, find(TABLE, tool["name"].as_str().unwrap()).unwrap());
    }
}

#[test]
fn families_effects_and_names_are_the_seeds() {
    each(|tool, command| {
        assert_eq!(tool["family"], command.family.as_str());
        let effect = match command.effect {
            Effect::Read => "read",
            Effect::Change => "change",
            Effect::Destructive => "destructive",
        };
        assert_eq!(tool["effect"], effect, "{}", command.name);
        assert_eq!(texts(&tool["retired_aliases"]), command.retired_names, "{}", command.name);
        assert_eq!(tool["job_envelope"], command.job, "{}", command.name);
        if let Some(cli) = tool["cli"].as_str() {
            assert_eq!(cli, format!("erun {}", command.path.join(" ")));
        }
    });
}

#[test]
fn every_parameter_of_the_seed_is_taken_within_its_bounds() {
    each(|tool, command| {
        let schema = (command.params_schema)();
        for param in tool["params"].as_array().unwrap() {
            let name = param["name"].as_str().unwrap();
            let canonical = command.aliases.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, c)| c);
            let property = &schema["properties"][canonical];
            assert!(property.is_object(), "{}.{name}", command.name);
            // A clamped value has no bound in the schema: it is taken, not refused.
            if let (Some(max), Some(bound)) = (param["max"].as_f64(), property["maximum"].as_f64()) {
                assert!((max - bound).abs() < f64::EPSILON, "{}.{name}", command.name);
            }
            let required = schema["required"].as_array().is_some_and(|r| r.iter().any(|v| v == canonical));
            if param["source"] != "stated in example" {
                assert_eq!(param["required"].as_bool().unwrap(), required, "{}.{name}", command.name);
            }
        }
        for common in ["tenant", "environment"] {
            assert!(schema["properties"][common].is_object(), "{}.{common}", command.name);
        }
    });
}

#[test]
fn every_field_of_the_seeds_results_has_its_place() {
    each(|tool, command| {
        let schema = (command.output_schema)();
        for field in tool["result"].as_array().unwrap() {
            let path = field["name"].as_str().unwrap().replace("[]", "");
            // Task and agent jobs come with the commands that make them.
            if matches!(path.as_str(), "job.result" | "job.progress") {
                continue;
            }
            let mut at = &schema;
            for step in path.split('.') {
                at = &at["properties"][step];
                assert!(at.is_object(), "{}: {path}", command.name);
            }
        }
    });
}

#[test]
fn numbers_are_the_seeds() {
    use cuddy_commands::{exec, usage};
    use cuddy_protocol::job;
    let contracts = &contract()["contracts"];
    let number = |path: &str| contracts.pointer(path).unwrap().as_f64().unwrap();
    for (path, ours) in [
        ("/exec_raw/timeout_default_seconds", exec::raw::DEFAULT_TIMEOUT_SECONDS as f64),
        ("/exec_raw/timeout_max_seconds", exec::raw::MAX_TIMEOUT_SECONDS as f64),
        ("/exec_raw/stream_cap_bytes", exec::raw::STREAM_LIMIT_BYTES as f64),
        ("/jobs/output_limit_bytes", job::OUTPUT_LIMIT_BYTES as f64),
        ("/jobs/await/default_seconds", exec::job_await::DEFAULT_TIMEOUT_SECONDS as f64),
        ("/jobs/await/max_seconds", exec::job_await::MAX_TIMEOUT_SECONDS as f64),
        ("/jobs/beat/stale_when_aliveAgeMs_exceeds", job::STALE_AFTER_MS as f64),
        ("/jobs/retention/finished_readable_hours", job::RETENTION_SECONDS as f64 / 3600.0),
        ("/usage/interval/min", usage::MIN_INTERVAL_SECONDS),
        ("/usage/interval/max", usage::MAX_INTERVAL_SECONDS),
        ("/usage/thresholds/memory_percent_of_limit", usage::MEMORY_WARNING_PERCENT),
        ("/usage/thresholds/memory_peak_percent", usage::PEAK_WARNING_PERCENT),
        ("/usage/thresholds/disk_percent_used", usage::DISK_WARNING_PERCENT),
        ("/auth/lifetime_seconds", cuddy_protocol::claims::MAX_LIFETIME_SECONDS as f64),
    ] {
        assert!((number(path) - ours).abs() < f64::EPSILON, "{path}: {} and {ours}", number(path));
    }
    assert_eq!(contracts["auth"]["iss"], cuddy_protocol::claims::DEFAULT_ISSUER);
}
