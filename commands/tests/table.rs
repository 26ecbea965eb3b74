//! What holds for every command, whatever it does.

use std::collections::HashSet;

use cuddy_commands::{Declaration, Effect, Method, TABLE};
use cuddy_protocol::Capability;
use serde_json::Value;

fn each(check: impl Fn(&Declaration)) {
    assert!(!TABLE.is_empty());
    for declaration in TABLE {
        check(declaration);
    }
}

#[test]
fn names_routes_and_paths_are_unique() {
    let (mut names, mut routes, mut paths) = (HashSet::new(), HashSet::new(), HashSet::new());
    each(|d| assert!(!d.summary.is_empty() && d.summary.ends_with('.'), "{}", d.name));
    for d in TABLE {
        assert!(names.insert(d.name), "{}", d.name);
        for name in d.retired_names {
            assert!(names.insert(name), "{name}");
        }
        assert!(routes.insert((d.route.path, d.route.method == Method::Get)), "{}", d.name);
        assert!(d.route.path.starts_with('/'), "{}", d.name);
        assert!((1..=3).contains(&d.path.len()) && paths.insert(d.path), "{}", d.name);
        // The seed's rule: the tool's name is the CLI path with underscores.
        assert_eq!(d.path.join("_"), d.name);
    }
}

#[test]
fn effect_asks_for_its_capability() {
    each(|d| match d.effect {
        Effect::Read => assert!(d.capability >= Capability::Read, "{}", d.name),
        Effect::Change | Effect::Destructive => assert!(d.capability >= Capability::Operate, "{}", d.name),
    });
}

#[test]
fn aliases_stand_for_parameters() {
    each(|d| {
        let schema = (d.params_schema)();
        for (alias, canonical) in d.aliases {
            assert!(schema["properties"].get(*canonical).is_some(), "{}: {canonical}", d.name);
            assert!(schema["properties"].get(*alias).is_none(), "{}: {alias}", d.name);
        }
    });
}

#[test]
fn schemas_are_flat_and_every_parameter_is_described() {
    fn walk(value: &Value, name: &str) {
        match value {
            Value::Object(object) => {
                assert!(!object.contains_key("$ref"), "{name}");
                object.values().for_each(|v| walk(v, name));
            }
            Value::Array(items) => items.iter().for_each(|v| walk(v, name)),
            _ => {}
        }
    }
    each(|d| {
        for schema in [(d.params_schema)(), (d.output_schema)()] {
            walk(&schema, d.name);
            assert_eq!(schema["type"], "object", "{}", d.name);
            for word in ["oneOf", "anyOf", "allOf", "$schema"] {
                assert!(schema.get(word).is_none(), "{}: {word}", d.name);
            }
            jsonschema::validator_for(&schema).unwrap();
        }
        let schema = (d.params_schema)();
        for (name, property) in schema["properties"].as_object().unwrap() {
            assert!(property["description"].as_str().is_some_and(|t| !t.is_empty()), "{}.{name}", d.name);
        }
    });
}

#[test]
fn schemas_are_as_committed() {
    for d in TABLE {
        insta::assert_json_snapshot!(
            d.name,
            serde_json::json!({
                "declaration": d, "params": (d.params_schema)(), "output": (d.output_schema)()
            })
        );
    }
}
