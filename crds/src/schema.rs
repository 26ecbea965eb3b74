//! Pieces of schema that `schemars` would not make the way Kubernetes wants them, and the last pass over the whole.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};

/// A quantity as text, for `workspace.size`.
pub fn size(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 20,
        "pattern": r"^[0-9]+(\.[0-9]+)?(Mi|Gi|Ti|M|G|T)$",
    })
}

/// Amounts of the resources that a container may ask for.
pub fn amounts(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 3,
        "additionalProperties": {
            "x-kubernetes-int-or-string": true,
            "maxLength": 20,
            "pattern": r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$",
        },
        "x-kubernetes-validations": [{
            "rule": "self.all(name, name in ['cpu', 'memory', 'ephemeral-storage'])",
            "message": "only cpu, memory and ephemeral-storage can be asked for",
        }],
    })
}

/// One of the values of an enumeration; unlike the schema of an `Option`, it keeps the description of the field.
pub fn choice<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    T::json_schema(generator)
}

/// A moment.
pub fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// A label selector, with bounds that Kubernetes' own schema lacks.
pub fn label_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchLabels": {
                "description": "Labels that must be there with exactly these values.",
                "type": "object",
                "maxProperties": 16,
                "additionalProperties": { "type": "string", "maxLength": 63 },
            },
            "matchExpressions": {
                "description": "Further demands on labels; all of them must hold.",
                "type": "array",
                "maxItems": 16,
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": { "description": "The label's name.", "type": "string", "maxLength": 317 },
                        "operator": {
                            "description": "How the label relates to the values.",
                            "type": "string",
                            "enum": ["In", "NotIn", "Exists", "DoesNotExist"],
                        },
                        "values": {
                            "description": "The values, for In and NotIn.",
                            "type": "array",
                            "maxItems": 64,
                            "x-kubernetes-list-type": "atomic",
                            "items": { "type": "string", "maxLength": 63 },
                        },
                    },
                },
            },
        },
    })
}

/// The standard list of conditions.
pub fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 16,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "reason", "message", "lastTransitionTime"],
            "properties": {
                "type": { "description": "What the condition is about.", "type": "string", "maxLength": 316 },
                "status": { "description": "Whether it is so.", "type": "string", "enum": ["True", "False", "Unknown"] },
                "reason": { "description": "Why, in one word for programs.", "type": "string", "maxLength": 1024 },
                "message": { "description": "Why, in words for people.", "type": "string", "maxLength": 32768 },
                "lastTransitionTime": {
                    "description": "When the status last changed.",
                    "type": "string",
                    "format": "date-time",
                },
                "observedGeneration": {
                    "description": "The generation of the spec that this was found out for.",
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                },
            },
        },
    })
}

/// The last pass: an absent field is absent and never `null`, as in Kubernetes' own types, and formats that the API
/// server does not know (`uint32`) are taken out; their bounds stay.
pub fn tidy(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.remove("nullable");
            drop_unknown_format(object);
            unwrap_description(object);
            object.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}

fn drop_unknown_format(object: &mut Map<String, Value>) {
    let unknown =
        object.get("format").and_then(Value::as_str).is_some_and(|format| format.starts_with("uint"));
    if unknown {
        object.remove("format");
    }
}

/// Line breaks of the source mean nothing to readers of `kubectl explain`; empty lines between paragraphs do.
fn unwrap_description(object: &mut Map<String, Value>) {
    if let Some(Value::String(text)) = object.get_mut("description") {
        *text =
            text.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect::<Vec<_>>().join("\n\n");
    }
}

/// Returns the files of `crds/yaml`: name and text.
pub fn yaml_files() -> Result<[(&'static str, String); 2], serde_saphyr::ser::Error> {
    Ok([
        ("environments.yaml", yaml(&crate::environment_crd())?),
        ("environmentclasses.yaml", yaml(&crate::environment_class_crd())?),
    ])
}

fn yaml(crd: &CustomResourceDefinition) -> Result<String, serde_saphyr::ser::Error> {
    let header = "# Made by `cargo run -p cuddy-crds --bin crdgen` from crds/src/v1alpha1; do not edit.";
    // The type of the bounds is a float, in an integer's schema too.
    let body: String = serde_saphyr::to_string(crd)?.lines().fold(String::new(), |all, line| {
        let bound = line.contains("maximum: ") || line.contains("minimum: ");
        all + if bound { line.trim_end_matches(".0") } else { line } + "\n"
    });
    Ok(format!("{header}\n{body}"))
}
