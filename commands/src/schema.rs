//! JSON Schemas that every client understands: flat, inlined, no top-level combinators.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// The parameters that every command takes: the caller states which environment it believes to talk to (seed), and may
/// name its call so that a retry does not run twice (D4). `dispatch` takes them out before the command's own are parsed.
pub const COMMON_PARAMS: &[(&str, &str)] = &[
    ("tenant", "The tenant you believe to talk to; another one than the server's own is refused"),
    ("environment", "The environment you believe to talk to; another one than the server's own is refused"),
];

fn inlined<T: JsonSchema>() -> Map<String, Value> {
    let settings = SchemaSettings::draft2020_12().with(|s| {
        s.inline_subschemas = true;
        s.meta_schema = None;
    });
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let mut value = schema.to_value();
    strip(&mut value);
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

/// Removes what portable clients stumble over: titles (the type's Rust name) and Rust's number formats. A property may bear
/// either name; its value is a schema then, not a text.
fn strip(value: &mut Value) {
    match value {
        Value::Object(object) => {
            for word in ["title", "format"] {
                if object.get(word).is_some_and(Value::is_string) {
                    object.remove(word);
                }
            }
            object.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

/// Turns "this type or null" into the type: a parameter that may be left out is left out, and many clients know no lists of
/// types. `dispatch` takes a null for an argument that was left out.
fn without_null(value: &mut Value) {
    match value {
        Value::Object(object) => {
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|t| t != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    object.insert("type".to_owned(), only);
                }
            }
            object.values_mut().for_each(without_null);
        }
        Value::Array(items) => items.iter_mut().for_each(without_null),
        _ => {}
    }
}

/// Returns the schema of a command's parameters, with the common ones.
pub fn of_params<T: JsonSchema>() -> Value {
    let mut schema = inlined::<T>();
    schema.remove("description");
    schema.values_mut().for_each(without_null);
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Value::Object(properties) = properties {
        for (name, meaning) in COMMON_PARAMS {
            properties
                .entry(*name)
                .or_insert_with(|| json!({ "type": "string", "maxLength": 63, "description": meaning }));
        }
    }
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("additionalProperties".to_owned(), json!(false));
    Value::Object(schema)
}

/// Returns the schema of a command's result.
pub fn of_output<T: JsonSchema>() -> Value {
    let mut schema = inlined::<T>();
    schema.insert("type".to_owned(), json!("object"));
    Value::Object(schema)
}
