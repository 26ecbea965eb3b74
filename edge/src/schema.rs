//! Checking arguments against a command's schema: the flat JSON Schemas of the table, compiled once, with answers that
//! name the place and what is expected there.
//!
//! A keyword that this checker does not know makes the command unusable at start, not unchecked at run time.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Map, Value};

/// Why a schema cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// A keyword that is not checked here.
    #[error("{path}: the keyword {keyword:?} is not checked")]
    Keyword {
        /// Where in the schema.
        path: String,
        /// The keyword.
        keyword: String,
    },
    /// A keyword with a value that makes no sense.
    #[error("{path}: the keyword {keyword:?} has a value that is not understood")]
    Value {
        /// Where in the schema.
        path: String,
        /// The keyword.
        keyword: String,
    },
}

/// What is wrong with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mismatch {
    /// Where: `$.argv[0]`.
    pub(crate) path: String,
    /// What is expected there.
    pub(crate) expected: String,
}

/// The JSON types, as bits.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Types(u8);

impl Types {
    const NULL: u8 = 1;
    const BOOLEAN: u8 = 2;
    const INTEGER: u8 = 4;
    const NUMBER: u8 = 8;
    const STRING: u8 = 16;
    const ARRAY: u8 = 32;
    const OBJECT: u8 = 64;
    const ANY: Self = Self(127);

    fn bit(name: &str) -> Option<u8> {
        Some(match name {
            "null" => Self::NULL,
            "boolean" => Self::BOOLEAN,
            "integer" => Self::INTEGER,
            "number" => Self::NUMBER,
            "string" => Self::STRING,
            "array" => Self::ARRAY,
            "object" => Self::OBJECT,
            _ => return None,
        })
    }

    fn parse(value: &Value) -> Option<Self> {
        match value {
            Value::String(name) => Self::bit(name).map(Self),
            Value::Array(names) => {
                let bits =
                    names.iter().map(|n| n.as_str().and_then(Self::bit)).collect::<Option<Vec<_>>>()?;
                Some(Self(bits.into_iter().fold(0, |all, bit| all | bit)))
            }
            _ => None,
        }
    }

    const fn has(self, bits: u8) -> bool {
        self.0 & bits != 0
    }

    fn of(value: &Value) -> u8 {
        match value {
            Value::Null => Self::NULL,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Number(n) if n.is_i64() || n.is_u64() => Self::INTEGER | Self::NUMBER,
            Value::Number(_) => Self::NUMBER,
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        }
    }
}

/// Whether properties beside the named ones may be there.
enum Additional {
    Any,
    None,
    Each(Box<Schema>),
}

/// A compiled schema.
pub(crate) struct Schema {
    types: Types,
    one_of: Option<Vec<Value>>,
    /// Alternatives (`anyOf`, `oneOf`): one must fit.
    any_of: Vec<Self>,
    minimum: Option<f64>,
    maximum: Option<f64>,
    length: (usize, usize),
    count: (usize, usize),
    items: Option<Box<Self>>,
    properties: BTreeMap<String, Self>,
    required: Vec<String>,
    additional: Additional,
}

/// Keywords that say something to people and nothing to a checker.
const SILENT: [&str; 8] =
    ["description", "title", "default", "examples", "deprecated", "$schema", "format", "readOnly"];

impl Schema {
    /// Compiles a schema.
    pub(crate) fn compile(value: &Value) -> Result<Self, SchemaError> {
        Self::at("#", value)
    }

    fn at(path: &str, value: &Value) -> Result<Self, SchemaError> {
        let mut schema = Self {
            types: Types::ANY,
            one_of: None,
            any_of: Vec::new(),
            minimum: None,
            maximum: None,
            length: (0, usize::MAX),
            count: (0, usize::MAX),
            items: None,
            properties: BTreeMap::new(),
            required: Vec::new(),
            additional: Additional::Any,
        };
        let object = match value {
            Value::Bool(true) => return Ok(schema),
            Value::Object(object) => object,
            _ => return Err(SchemaError::Value { path: path.to_owned(), keyword: "schema".to_owned() }),
        };
        for (keyword, value) in object {
            let known = schema.set(path, keyword, value)?;
            if !known {
                return Err(SchemaError::Value { path: path.to_owned(), keyword: keyword.clone() });
            }
        }
        Ok(schema)
    }

    /// Takes one keyword in; false means that its value makes no sense.
    fn set(&mut self, path: &str, keyword: &str, value: &Value) -> Result<bool, SchemaError> {
        let size = || value.as_u64().and_then(|n| usize::try_from(n).ok());
        let below = |what: &str| format!("{path}/{what}");
        let list = |values: &[Value]| {
            values.iter().map(|v| Self::at(&below(keyword), v)).collect::<Result<Vec<_>, _>>()
        };
        match (keyword, value) {
            (keyword, _) if SILENT.contains(&keyword) => {}
            ("type", _) => match Types::parse(value) {
                Some(types) => self.types = types,
                None => return Ok(false),
            },
            ("enum", Value::Array(values)) => self.one_of = Some(values.clone()),
            ("const", _) => self.one_of = Some(vec![value.clone()]),
            ("anyOf" | "oneOf", Value::Array(values)) => self.any_of = list(values)?,
            ("minimum", _) => self.minimum = value.as_f64(),
            ("maximum", _) => self.maximum = value.as_f64(),
            ("minLength", _) => self.length.0 = size().unwrap_or(usize::MAX),
            ("maxLength", _) => self.length.1 = size().unwrap_or(0),
            ("minItems", _) => self.count.0 = size().unwrap_or(usize::MAX),
            ("maxItems", _) => self.count.1 = size().unwrap_or(0),
            ("items", _) => self.items = Some(Box::new(Self::at(&below("items"), value)?)),
            ("properties", Value::Object(properties)) => {
                for (name, property) in properties {
                    self.properties.insert(name.clone(), Self::at(&below(name), property)?);
                }
            }
            ("required", Value::Array(names)) => {
                self.required = names.iter().filter_map(|n| n.as_str().map(str::to_owned)).collect();
            }
            ("additionalProperties", Value::Bool(true)) => self.additional = Additional::Any,
            ("additionalProperties", Value::Bool(false)) => self.additional = Additional::None,
            ("additionalProperties", _) => {
                self.additional = Additional::Each(Box::new(Self::at(&below(keyword), value)?));
            }
            ("enum" | "anyOf" | "oneOf" | "properties" | "required", _) => return Ok(false),
            _ => {
                return Err(SchemaError::Keyword { path: path.to_owned(), keyword: keyword.to_owned() });
            }
        }
        Ok(true)
    }

    /// Returns the names of the properties.
    pub(crate) fn property_names(&self) -> impl Iterator<Item = &str> {
        self.properties.keys().map(String::as_str)
    }

    /// Drops a property, which is then unknown.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.properties.remove(name);
        self.required.retain(|n| n != name);
        self
    }

    /// Checks the members of an object, and answers with the first mismatch.
    pub(crate) fn check_object(&self, object: &Map<String, Value>) -> Result<(), Mismatch> {
        self.object("$", object)
    }

    fn check(&self, path: &str, value: &Value) -> Result<(), Mismatch> {
        let wrong = || Mismatch { path: path.to_owned(), expected: self.expectation() };
        if !self.types.has(Types::of(value)) {
            return Err(wrong());
        }
        if self.one_of.as_ref().is_some_and(|values| !values.contains(value)) {
            return Err(wrong());
        }
        self.alternatives(path, value)?;
        match value {
            Value::Number(number) => {
                // Bounds are far below 2^53, so that nothing near one is rounded.
                let number = number.as_f64().unwrap_or(f64::NAN);
                let fits = self.minimum.is_none_or(|min| number >= min)
                    && self.maximum.is_none_or(|max| number <= max);
                if fits { Ok(()) } else { Err(wrong()) }
            }
            Value::String(text) => {
                // Counting characters is for texts whose bytes leave it open.
                let fits = text.len() >= self.length.0
                    && (text.len() <= self.length.1 || text.chars().count() <= self.length.1)
                    && (self.length.0 <= 1 || text.chars().count() >= self.length.0);
                if fits { Ok(()) } else { Err(wrong()) }
            }
            Value::Array(items) => {
                if items.len() < self.count.0 || items.len() > self.count.1 {
                    return Err(wrong());
                }
                let Some(schema) = &self.items else { return Ok(()) };
                items.iter().enumerate().try_for_each(|(at, item)| {
                    if schema.accepts_at_once(item) {
                        return Ok(());
                    }
                    schema.check(&format!("{path}[{at}]"), item)
                })
            }
            Value::Object(object) => self.object(path, object),
            Value::Null | Value::Bool(_) => Ok(()),
        }
    }

    /// Says yes to the plain texts that long lists are made of, without making up a path for each.
    fn accepts_at_once(&self, value: &Value) -> bool {
        value.is_string()
            && self.types.has(Types::STRING)
            && self.one_of.is_none()
            && self.any_of.is_empty()
            && self.length == (0, usize::MAX)
    }

    fn alternatives(&self, path: &str, value: &Value) -> Result<(), Mismatch> {
        if self.any_of.is_empty() || self.any_of.iter().any(|s| s.check(path, value).is_ok()) {
            return Ok(());
        }
        // Of `X or null` only X has something to say about a value that is not null.
        let mut telling = self.any_of.iter().filter(|s| s.types != Types(Types::NULL));
        match (telling.next(), telling.next()) {
            (Some(only), None) => only.check(path, value),
            _ => Err(Mismatch { path: path.to_owned(), expected: self.expectation() }),
        }
    }

    fn object(&self, path: &str, object: &Map<String, Value>) -> Result<(), Mismatch> {
        for (name, value) in object {
            let schema = match (self.properties.get(name), &self.additional) {
                (Some(schema), _) => schema,
                (None, Additional::Each(schema)) => schema,
                (None, Additional::Any) => continue,
                (None, Additional::None) => {
                    let known: Vec<&str> = self.property_names().collect();
                    let expected = if known.is_empty() {
                        "unknown parameter; there are none".to_owned()
                    } else {
                        format!("unknown parameter; known are {}", known.join(", "))
                    };
                    return Err(Mismatch { path: member(path, name), expected });
                }
            };
            schema.check(&member(path, name), value)?;
        }
        for name in &self.required {
            if !object.contains_key(name) {
                let expected = self.properties.get(name).map_or_else(String::new, Self::expectation);
                return Err(Mismatch {
                    path: member(path, name),
                    expected: format!("is required: expected {expected}"),
                });
            }
        }
        Ok(())
    }

    /// Returns what a value must be, in words.
    fn expectation(&self) -> String {
        if let Some(values) = &self.one_of {
            let values: Vec<String> = values.iter().filter(|v| !v.is_null()).map(Value::to_string).collect();
            return format!("one of {}", values.join(", "));
        }
        if !self.any_of.is_empty() {
            let words: Vec<String> =
                self.any_of.iter().filter(|s| s.types != Types(Types::NULL)).map(Self::expectation).collect();
            return words.join(", or ");
        }
        let mut words = Vec::new();
        if self.types.has(Types::BOOLEAN) {
            words.push("true or false".to_owned());
        }
        if self.types.has(Types::INTEGER | Types::NUMBER) {
            let noun = if self.types.has(Types::NUMBER) { "a number" } else { "an integer" };
            words.push(format!("{noun}{}", range(self.minimum, self.maximum)));
        }
        if self.types.has(Types::STRING) {
            words.push(format!("a text{}", sizes(self.length, "characters")));
        }
        if self.types.has(Types::ARRAY) {
            let of = match &self.items {
                Some(items) if items.types == Types(Types::STRING) => "texts",
                _ => "items",
            };
            match self.count {
                (0, usize::MAX) => words.push(format!("a list of {of}")),
                count => words.push(format!("a list{}", sizes(count, of))),
            }
        }
        if self.types.has(Types::OBJECT) {
            words.push("an object".to_owned());
        }
        if self.types == Types::ANY { "any value".to_owned() } else { words.join(" or ") }
    }
}

fn range(minimum: Option<f64>, maximum: Option<f64>) -> String {
    match (minimum, maximum) {
        (Some(min), Some(max)) => format!(" from {min} to {max}"),
        (Some(min), None) => format!(" of at least {min}"),
        (None, Some(max)) => format!(" of at most {max}"),
        (None, None) => String::new(),
    }
}

fn sizes(bounds: (usize, usize), noun: &str) -> String {
    match bounds {
        (0, usize::MAX) => String::new(),
        (min, usize::MAX) => format!(" of at least {min} {noun}"),
        (0, max) => format!(" of at most {max} {noun}"),
        (min, max) => format!(" of {min} to {max} {noun}"),
    }
}

/// Returns the path of a member; a name that is none of the plain ones is quoted and cut, since the caller chose it.
fn member(path: &str, name: &str) -> String {
    let plain = !name.is_empty()
        && name.len() <= 64
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    let mut text = path.to_owned();
    if plain {
        let _ = write!(text, ".{name}");
    } else {
        let short: String = name.chars().take(64).collect();
        let _ = write!(text, "[{}]", Value::String(short));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(schema: &Value, value: &Value) -> Result<(), (String, String)> {
        let schema = Schema::compile(schema).unwrap();
        schema.check_object(value.as_object().unwrap()).map_err(|m| (m.path, m.expected))
    }

    fn properties(properties: &Value) -> Value {
        json!({ "type": "object", "properties": properties, "additionalProperties": false })
    }

    #[test]
    fn every_schema_of_the_table_compiles() {
        for declaration in cuddy_commands::TABLE {
            let compiled = Schema::compile(&(declaration.params_schema)());
            assert!(compiled.is_ok(), "{}: {:?}", declaration.name, compiled.err());
        }
    }

    #[test]
    fn mismatches_name_place_and_expectation() {
        let schema = json!({
            "type": "object", "additionalProperties": false, "required": ["argv"],
            "properties": {
                "argv": { "type": "array", "items": { "type": "string" }, "minItems": 1, "maxItems": 3 },
                "n": { "type": ["integer", "null"], "minimum": 1, "maximum": 9 },
                "f": { "type": "number", "minimum": 0.5 },
                "s": { "type": "string", "minLength": 1, "maxLength": 3 },
                "b": { "type": "boolean" },
                "e": { "enum": ["x", "y"] },
                "m": { "type": "object", "additionalProperties": { "type": "string" } },
                "o": { "anyOf": [{ "type": "string", "enum": ["k"] }, { "type": "null" }] }
            }
        });
        let cases = [
            (json!({}), "$.argv", "is required: expected a list of 1 to 3 texts"),
            (json!({ "argv": [] }), "$.argv", "a list of 1 to 3 texts"),
            (json!({ "argv": ["a", "b", "c", "d"] }), "$.argv", "a list of 1 to 3 texts"),
            (json!({ "argv": ["a", 5] }), "$.argv[1]", "a text"),
            (json!({ "argv": "ls" }), "$.argv", "a list of 1 to 3 texts"),
            (json!({ "argv": ["a"], "n": 0 }), "$.n", "an integer from 1 to 9"),
            (json!({ "argv": ["a"], "n": 10 }), "$.n", "an integer from 1 to 9"),
            (json!({ "argv": ["a"], "n": 1.5 }), "$.n", "an integer from 1 to 9"),
            (json!({ "argv": ["a"], "n": "1" }), "$.n", "an integer from 1 to 9"),
            (json!({ "argv": ["a"], "f": 0.4 }), "$.f", "a number of at least 0.5"),
            (json!({ "argv": ["a"], "s": "" }), "$.s", "a text of 1 to 3 characters"),
            (json!({ "argv": ["a"], "s": "äöüß" }), "$.s", "a text of 1 to 3 characters"),
            (json!({ "argv": ["a"], "b": "true" }), "$.b", "true or false"),
            (json!({ "argv": ["a"], "e": "z" }), "$.e", "one of \"x\", \"y\""),
            (json!({ "argv": ["a"], "m": { "K": 1 } }), "$.m.K", "a text"),
            (json!({ "argv": ["a"], "m": { "a b": 1 } }), "$.m[\"a b\"]", "a text"),
            (json!({ "argv": ["a"], "o": "z" }), "$.o", "one of \"k\""),
            (
                json!({ "argv": ["a"], "q": 1 }),
                "$.q",
                "unknown parameter; known are argv, b, e, f, m, n, o, s",
            ),
        ];
        for (value, path, expected) in cases {
            assert_eq!(check(&schema, &value), Err((path.to_owned(), expected.to_owned())), "{value}");
        }
        let good =
            json!({ "argv": ["a"], "n": null, "f": 1, "s": "äöü", "b": true, "e": "x", "m": {}, "o": null });
        assert_eq!(check(&schema, &good), Ok(()));
    }

    #[test]
    fn unknown_keywords_are_not_passed_over() {
        for schema in [
            properties(&json!({ "a": { "type": "string", "pattern": "^a$" } })),
            properties(&json!({ "a": { "$ref": "#/x" } })),
            json!({ "type": "object", "patternProperties": {} }),
        ] {
            assert!(matches!(Schema::compile(&schema), Err(SchemaError::Keyword { .. })), "{schema}");
        }
        assert!(matches!(Schema::compile(&json!({ "type": "strange" })), Err(SchemaError::Value { .. })));
    }

    #[test]
    fn names_of_the_callers_choice_are_cut() {
        let value = json!({ "x".repeat(5000): 1 });
        let (path, _) = check(&properties(&json!({})), &value).unwrap_err();
        assert!(path.len() < 80, "{path}");
    }
}
