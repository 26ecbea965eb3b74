//! The verbs of Environments before an API server in memory: what exactly is asked for.

mod support;

use serde_json::{Value, json};
use support::Home;
use support::fake_api::FakeApi;

fn status(conditions: &[(&str, &str, &str)]) -> Value {
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|(t, s, r)| json!({ "type": t, "status": s, "reason": r, "message": "m", "lastTransitionTime": "2026-11-30T12:00:00Z" }))
        .collect();
    json!({ "observedGeneration": 1, "conditions": conditions })
}

fn cluster() -> (Home, FakeApi) {
    let home = Home::with_key();
    let api = FakeApi::start(&home);
    (home, api)
}

#[test]
fn a_start_and_a_stop_are_new_ids_and_the_mode_only_where_it_must_be() {
    let (home, api) = cluster();
    api.put("dev", &json!({ "mode": "Stopped", "image": "i" }), &status(&[("Ready", "True", "Running")]));
    home.ok(&["env", "start", "dev", "--no-wait"]);
    let first = api.get("dev").unwrap();
    assert_eq!(first["spec"], json!({ "mode": "Running", "image": "i" }));
    home.ok(&["env", "start"]);
    let second = api.get("dev").unwrap();
    let wake = |e: &Value| e["metadata"]["annotations"]["cuddy.dev/wake"].as_str().unwrap().to_owned();
    assert_ne!(wake(&first), wake(&second));
    home.ok(&["env", "stop", "dev"]);
    let stopped = api.get("dev").unwrap();
    assert_eq!(stopped["metadata"]["annotations"]["cuddy.dev/stop"].as_str().unwrap().len(), 36);
    assert_eq!(stopped["spec"]["mode"], "Running", "a stop now is no change of the intent");
    home.ok(&["env", "stop", "dev", "--hold"]);
    assert_eq!(api.get("dev").unwrap()["spec"]["mode"], "Stopped");
}

#[test]
fn waiting_says_the_reason_when_time_is_up() {
    let (home, api) = cluster();
    api.put("dev", &json!({}), &status(&[("Ready", "False", "ImageError")]));
    let said = home.fails(124, &["env", "wait", "--timeout", "1"]);
    assert!(said.contains("Ready=False (ImageError) m") && said.contains("cuddy env explain dev"), "{said}");
    let said = home.fails(2, &["env", "wait", "--for", "Redy"]);
    assert!(said.contains("Ready"), "{said}");
    let said = home.fails(1, &["env", "wait", "other", "--timeout", "5"]);
    assert!(said.contains("no such Environment"), "{said}");
}

#[test]
fn a_deletion_asks_and_names_the_object_that_was_meant() {
    let (home, api) = cluster();
    api.put("dev", &json!({}), &status(&[]));
    let said = home.fails(3, &["env", "delete", "dev"]);
    assert!(said.contains("--yes") && api.get("dev").is_some(), "{said}");
    home.ok(&["env", "delete", "dev", "--yes"]);
    assert_eq!(api.get("dev"), None);
    assert_eq!(api.requests("DELETE")[0].message["preconditions"]["uid"], "u-1");
}

#[test]
fn a_class_trusts_its_maker_and_says_what_that_means() {
    let (home, api) = cluster();
    let said = home.ok(&["class", "init", "--image", "tools:1"]);
    assert!(said.contains("opens every environment of this class"), "{said}");
    let class = api.class("default").unwrap();
    assert_eq!(class["metadata"]["annotations"]["cuddy.dev/is-default-class"], "true");
    let shown: Value = serde_json::from_str(&home.ok(&["key", "show", "--output", "json"])).unwrap();
    assert_eq!(class["spec"]["auth"]["keys"][0]["publicKey"], shown["publicKey"]);
    let said = home.fails(3, &["class", "init", "--image", "tools:2"]);
    assert!(said.contains("--force"), "{said}");
    home.ok(&["class", "init", "--image", "tools:2", "--force"]);
    let class = api.class("default").unwrap();
    assert_eq!(class["spec"]["image"], "tools:2");
    assert_eq!(class["spec"]["auth"]["keys"].as_array().unwrap().len(), 1);
}

#[test]
fn an_applied_environment_gets_the_key_only_where_nobody_would_get_in() {
    let (home, api) = cluster();
    let three_lines = "apiVersion: cuddy.dev/v1alpha1\nkind: Environment\nmetadata: {name: dev}\n";
    std::fs::write(home.path("dev.yaml"), three_lines).unwrap();
    let output = home.run(&["env", "apply", "-f", "dev.yaml"]);
    assert!(output.status.success());
    assert!(support::stderr(&output).contains("put your key"), "it says so");
    assert_eq!(api.get("dev").unwrap()["spec"]["auth"]["keys"].as_array().unwrap().len(), 1);
    let request = &api.requests("PATCH")[0];
    assert!(
        request.head.contains("fieldValidation=Strict") && request.head.contains("fieldManager=cuddy"),
        "{}",
        request.head
    );
    assert_eq!(request.header("content-type"), Some("application/apply-patch+yaml"));

    home.ok(&["class", "init"]);
    std::fs::write(home.path("two.yaml"), three_lines.replace("name: dev", "name: two")).unwrap();
    home.ok(&["env", "apply", "-f", "two.yaml"]);
    assert_eq!(api.get("two").unwrap()["spec"], json!({}), "the class lets the caller in already");
}

#[test]
fn created_environments_are_listed_and_shown() {
    let (home, api) = cluster();
    home.ok(&["env", "create", "dev", "--image", "tools:1", "--no-wait"]);
    let made = api.get("dev").unwrap();
    assert_eq!(made["spec"]["image"], "tools:1");
    assert_eq!(made["spec"]["auth"]["keys"].as_array().unwrap().len(), 1);
    let table = home.ok(&["env", "list"]);
    assert_eq!(
        table.lines().next().unwrap().split_whitespace().collect::<Vec<_>>(),
        ["NAME", "READY", "REASON", "IDLE", "STOPS-AT", "AGE"]
    );
    assert_eq!(home.ok(&["env", "list", "--output", "name"]).trim(), "environment.cuddy.dev/dev");
    assert!(home.ok(&["env", "get", "--output", "yaml"]).contains("image: tools:1"));
    assert!(home.ok(&["env", "explain"]).contains("no operator has seen it"));
    home.ok(&["env", "create", "two", "--no-wait"]);
    let said = home.fails(2, &["env", "get"]);
    assert!(said.contains("2 Environments") && said.contains("dev, two"), "{said}");
    let said = home.fails(2, &["env", "create", "Not_A_Name", "--no-wait"]);
    assert!(said.contains("environment name"), "{said}");
}

#[test]
fn a_call_to_one_that_is_held_says_what_starts_it_and_wakes_nothing() {
    let (home, api) = cluster();
    api.put(
        "dev",
        &json!({ "mode": "Stopped" }),
        &status(&[("Ready", "False", "Stopped"), ("Suspended", "True", "UserStopped")]),
    );
    let said = home.fails(4, &["mcp", "call", "--tool", "version"]);
    assert!(said.contains("cuddy env start dev"), "{said}");
    assert!(api.requests("PATCH").is_empty());
}

#[test]
fn only_a_call_wakes_and_once() {
    let (home, api) = cluster();
    api.put(
        "dev",
        &json!({}),
        &status(&[("Ready", "False", "Stopped"), ("Suspended", "True", "IdleStopped")]),
    );
    let said = home.fails(4, &["mcp", "tools"]);
    assert!(said.contains("is stopped (IdleStopped)"), "{said}");
    home.fails(4, &["open"]);
    assert!(api.requests("PATCH").is_empty(), "to look is no reason to wake");
    let said = home.fails(4, &["mcp", "call", "--tool", "version", "--wake-timeout", "2"]);
    assert!(said.contains("waking environment dev") && said.contains("was not ready within 2 s"), "{said}");
    assert_eq!(api.requests("PATCH").len(), 1, "one new id, however often it is looked");
    assert_eq!(
        api.get("dev").unwrap()["metadata"]["annotations"]["cuddy.dev/wake"].as_str().unwrap().len(),
        36
    );
}
