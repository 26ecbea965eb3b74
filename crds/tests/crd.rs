//! What the API server refuses at apply, and with which sentence: the rules of the installed CRDs are run here as it runs
//! them.

#![expect(clippy::unwrap_used, reason = "a test that fails")]

use cuddy_crds::{environment_class_crd, environment_crd, schema};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::cel::Validator;
use serde_json::{Value, json};

const KEY: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";
const RSA: &str = "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAu1SU1LfVLPHCozMxH2Mo\n4lgOEePzNm0tRgeLezV6ffAt0gunVTLw7onLRnrq0/IzW7yWR7QkrmBL7jTKEn5u\nqwIDAQAB\n-----END PUBLIC KEY-----\n";

#[test]
fn committed_yaml_is_what_the_types_say() {
    for (name, text) in schema::yaml_files().unwrap() {
        let path = format!("{}/yaml/{name}", env!("CARGO_MANIFEST_DIR"));
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(committed == text, "{path} is old: run `cargo run -p cuddy-crds --bin crdgen`");
    }
}

fn schema_of(crd: &CustomResourceDefinition) -> Value {
    let version = &crd.spec.versions[0];
    serde_json::to_value(version.schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap()).unwrap()
}

/// Fills in defaults as the API server does before it checks.
fn with_defaults(mut value: Value, schema: &Value) -> Value {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return value };
    let Some(object) = value.as_object_mut() else { return value };
    for (name, schema) in properties {
        if !object.contains_key(name)
            && let Some(default) = schema.get("default")
        {
            object.insert(name.clone(), default.clone());
        }
        if let Some(inner) = object.remove(name) {
            object.insert(name.clone(), with_defaults(inner, schema));
        }
    }
    value
}

/// All complaints about an object, of the schema and of the rules.
fn complaints(crd: &CustomResourceDefinition, new: &Value, old: Option<&Value>) -> Vec<String> {
    let schema = schema_of(crd);
    let new = with_defaults(new.clone(), &schema);
    let old = old.map(|old| with_defaults(old.clone(), &schema));
    let validator = jsonschema::draft4::new(&schema).unwrap();
    let mut all: Vec<String> =
        validator.iter_errors(&new).map(|error| format!("{}: {error}", error.instance_path())).collect();
    if let Err(errors) = Validator::new().validate(&schema, &new, old.as_ref()) {
        all.extend(errors.into_iter().map(|error| error.to_string()));
    }
    all
}

fn environment(spec: &Value) -> Value {
    json!({"apiVersion": "cuddy.dev/v1alpha1", "kind": "Environment", "metadata": {"name": "dev"}, "spec": spec})
}

fn assert_refused(spec: &Value, words: &str) {
    let found = complaints(&environment_crd(), &environment(spec), None);
    assert!(found.iter().any(|text| text.contains(words)), "{spec}\nexpected: {words}\nfound: {found:#?}");
}

fn assert_accepted(spec: &Value) {
    assert_eq!(complaints(&environment_crd(), &environment(spec), None), Vec::<String>::new(), "{spec}");
}

#[test]
fn three_lines_are_enough() {
    let crd = environment_crd();
    let object =
        json!({"apiVersion": "cuddy.dev/v1alpha1", "kind": "Environment", "metadata": {"name": "dev"}});
    assert_eq!(complaints(&crd, &object, None), Vec::<String>::new());
    let stored = with_defaults(object.clone(), &schema_of(&crd));
    assert_eq!(stored["spec"], json!({"workspace": {"size": "10Gi"}}));
    serde_json::from_value::<cuddy_crds::Environment>(stored).unwrap();
    cuddy_crds::parse_environment(object).unwrap();
}

#[test]
fn a_full_spec_is_accepted() {
    assert_accepted(&json!({
        "mode": "Running",
        "classRef": {"name": "small"},
        "image": "registry.example/team/image:1@sha256:0000000000000000000000000000000000000000000000000000000000000000",
        "command": ["sleep"], "args": ["infinity"],
        "env": [{"name": "A_1", "value": "x"}, {"name": "_b"}],
        "resources": {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"cpu": "1500m", "memory": "1Gi"}},
        "workspace": {"size": "1.5Gi", "storageClassName": "fast", "mountPath": "/workspace"},
        "auth": {"mode": "Bearer", "issuer": "https://issuer.example/", "keys": [
            {"name": "laptop", "publicKey": KEY, "maxCapability": "admin", "notAfter": "2027-01-01T00:00:00Z"},
            {"name": "windows", "publicKey": KEY.replace('\n', "\r\n")},
            {"name": "shared", "configMapRef": {"name": "keys", "key": "ci.pub"}, "issuer": "ci"},
        ]},
        "idle": {"timeoutSeconds": 10, "graceSeconds": 0, "maxBusySeconds": 60, "action": "Stop"},
        "network": {
            "egress": "None", "hosts": ["dev.example.org", "10.0.0.1"], "verify": "Gate",
            "ingressFrom": [
                {"podSelector": {}},
                {"namespaceSelector": {"matchLabels": {"a": "b"}},
                 "podSelector": {"matchExpressions": [{"key": "x", "operator": "In", "values": ["y"]}]}},
            ],
        },
        "security": {"runAsUser": 1000},
        "imagePullSecrets": [{"name": "registry"}],
    }));
}

#[test]
fn names_are_short_and_have_no_dots() {
    let crd = environment_crd();
    for (name, words) in
        [("x".repeat(53), "at most 52 characters"), ("a.b".to_owned(), "must not contain a dot")]
    {
        let mut object = environment(&json!({}));
        object["metadata"]["name"] = json!(name);
        let found = complaints(&crd, &object, None);
        assert!(found.iter().any(|text| text.contains(words)), "{name}: {found:?}");
    }
    let mut longest = environment(&json!({}));
    longest["metadata"]["name"] = json!("x".repeat(52));
    assert_eq!(complaints(&crd, &longest, None), Vec::<String>::new());
}

#[test]
fn keys_that_are_none_are_refused_with_a_sentence() {
    let key = |public_key: &str| json!({"auth": {"keys": [{"name": "k", "publicKey": public_key}]}});
    let truncated = KEY.replace("ZuE=", "Z=");
    for (text, words) in [
        (RSA, "RSA and EC keys"),
        (
            "-----BEGIN RSA PUBLIC KEY-----\nMIIBCgKCAQEAu1SU1LfVLPHC\n-----END RSA PUBLIC KEY-----",
            "RSA and EC keys",
        ),
        ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZu", "SSH keys"),
        ("not a key", "must be an Ed25519 public key in PEM"),
        (truncated.as_str(), "must be an Ed25519 public key in PEM"),
        ("-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIA==\n-----END PRIVATE KEY-----", "private key"),
    ] {
        assert_refused(&key(text), words);
        let class = json!({"metadata": {"name": "c"}, "spec": {"auth": {"keys": [{"name": "k", "publicKey": text}]}}});
        let found = complaints(&environment_class_crd(), &class, None);
        assert!(found.iter().any(|complaint| complaint.contains(words)), "class, {text}: {found:?}");
    }
    assert_accepted(&key(KEY));
    let class =
        json!({"metadata": {"name": "c"}, "spec": {"auth": {"keys": [{"name": "k", "publicKey": KEY}]}}});
    assert_eq!(complaints(&environment_class_crd(), &class, None), Vec::<String>::new());
}

#[test]
fn a_key_has_one_source() {
    let reference = json!({"name": "m", "key": "k"});
    assert_refused(&json!({"auth": {"keys": [{"name": "k"}]}}), "exactly one of publicKey and configMapRef");
    assert_refused(
        &json!({"auth": {"keys": [{"name": "k", "publicKey": KEY, "configMapRef": reference}]}}),
        "exactly one of publicKey and configMapRef",
    );
}

#[test]
fn a_workspace_grows_and_stays_where_it_is() {
    let crd = environment_crd();
    let with = |workspace: Value| environment(&json!({ "workspace": workspace }));
    let update = |old: Value, new: Value| complaints(&crd, &with(new), Some(&with(old)));
    let refused = |old: Value, new: Value, words: &str| {
        let found = update(old, new);
        assert!(found.iter().any(|text| text.contains(words)), "expected {words}, found {found:?}");
    };
    assert!(update(json!({"size": "1Gi"}), json!({"size": "2Gi"})).is_empty());
    assert!(update(json!({"size": "1Gi"}), json!({"size": "1024Mi"})).is_empty());
    refused(json!({"size": "2Gi"}), json!({"size": "1Gi"}), "cannot shrink");
    refused(json!({"size": "20Gi"}), json!({}), "cannot shrink");
    refused(json!({"storageClassName": "a"}), json!({"storageClassName": "b"}), "cannot change");
    refused(json!({"storageClassName": "a"}), json!({}), "cannot change");
    refused(json!({}), json!({"storageClassName": "b"}), "cannot change");
    let whole = complaints(&crd, &environment(&json!({})), Some(&with(json!({"size": "20Gi"}))));
    assert!(whole.iter().any(|text| text.contains("cannot shrink")), "{whole:?}");
}

#[test]
fn mount_paths_stay_below_what_is_allowed() {
    for good in ["/home/erun", "/home/a/b.c", "/workspace", "/workspaces/x", "/srv/a_b", "/data", "/mnt/x/y"]
    {
        assert_accepted(&json!({"workspace": {"mountPath": good}}));
    }
    for bad in [
        "",
        "/",
        "/home",
        "home/x",
        "/etc",
        "/home/x/",
        "/homer/x",
        "/opt/cuddy/bin",
        "/data//x",
        "/home/a b",
    ] {
        assert_refused(&json!({"workspace": {"mountPath": bad}}), "must be an absolute path below");
    }
    for bad in ["/home/..", "/home/./x", "/data/../etc"] {
        assert_refused(&json!({"workspace": {"mountPath": bad}}), "must not contain . or ..");
    }
}

#[test]
fn bounds_hold() {
    for spec in [
        json!({"idle": {"timeoutSeconds": 9}}),
        json!({"idle": {"timeoutSeconds": 604_801}}),
        json!({"idle": {"graceSeconds": -1}}),
        json!({"idle": {"graceSeconds": 3601}}),
        json!({"idle": {"maxBusySeconds": 59}}),
        json!({"idle": {"action": "Delete"}}),
        json!({"mode": "Paused"}),
        json!({"security": {"runAsUser": 0}}),
        json!({"security": {"runAsUser": 999}}),
        json!({"security": {"runAsUser": 65532}}),
        json!({"network": {"egress": "Everything"}}),
        json!({"network": {"verify": "Off"}}),
        json!({"network": {"hosts": vec!["h"; 17]}}),
        json!({"workspace": {"size": "big"}}),
        json!({"workspace": {"size": "-1Gi"}}),
        json!({"image": ""}),
        json!({"image": "a b"}),
        json!({"image": "x".repeat(513)}),
        json!({"command": vec!["x"; 65]}),
        json!({"resources": {"limits": {"cpu": "much"}}}),
        json!({"auth": {"mode": "Basic"}}),
        json!({"auth": {"issuer": "a b"}}),
        json!({"auth": {"keys": [{"name": "k", "configMapRef": {"name": "m"}}]}}),
        json!({"classRef": {"name": "../x"}}),
    ] {
        let found = complaints(&environment_crd(), &environment(&spec), None);
        assert!(!found.is_empty(), "{spec} was accepted");
    }
}

#[test]
fn the_rest_is_refused_with_its_sentence() {
    for (spec, words) in [
        (json!({"args": ["x"]}), "args need a command"),
        (json!({"env": [{"name": "1A"}]}), "does not begin with a digit"),
        (json!({"env": [{"name": "HOME", "value": "/"}]}), "workspace.mountPath decides HOME"),
        (json!({"env": [{"name": "CUDDY_AUTH", "value": "None"}]}), "begin with CUDDY_"),
        (json!({"resources": {"limits": {"nvidia.com/gpu": 1}}}), "only cpu, memory and ephemeral-storage"),
        (
            json!({"resources": {"requests": {"cpu": 2}, "limits": {"cpu": "1500m"}}}),
            "must not be larger than the limit",
        ),
        (json!({"network": {"hosts": ["https://x"]}}), "without scheme, port or path"),
        (json!({"network": {"ingressFrom": [{}]}}), "a namespaceSelector, a podSelector or both"),
        (json!({"workspace": {"size": "10M"}}), "at least 64Mi"),
    ] {
        assert_refused(&spec, words);
    }
}

#[test]
fn every_field_explains_itself() {
    fn walk(path: &str, schema: &Value, silent: &mut Vec<String>) {
        for (name, inner) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let path = format!("{path}.{name}");
            let text = inner.get("description").and_then(Value::as_str).unwrap_or_default();
            if text.is_empty() || text.contains('\n') && !text.contains("\n\n") {
                silent.push(path.clone());
            }
            walk(&path, inner, silent);
        }
        if let Some(items) = schema.get("items") {
            walk(path, items, silent);
        }
    }
    let mut silent = Vec::new();
    walk("environment", &schema_of(&environment_crd()), &mut silent);
    walk("class", &schema_of(&environment_class_crd()), &mut silent);
    assert_eq!(silent, Vec::<String>::new());
}

#[test]
fn a_choice_keeps_the_words_of_its_field() {
    let schema = schema_of(&environment_crd());
    let text = schema.pointer("/properties/spec/properties/mode/description").unwrap().as_str().unwrap();
    assert!(text.contains("Default: Running"), "{text}");
}
