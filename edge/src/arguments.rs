//! From what a caller sent to what a handler takes: aliases, then the environment the caller believes to talk to, then the
//! command's own parameters (D5, D39).

use cuddy_commands::Aliases;
use cuddy_protocol::{CommandError, ErrorCode, Scope};
use serde_json::{Map, Value};

use crate::schema::{Schema, SchemaError};

/// How one command's arguments are checked.
pub(crate) struct Arguments {
    schema: Schema,
    aliases: Aliases,
}

/// Arguments that passed.
pub(crate) struct Checked {
    /// What the handler takes.
    pub(crate) own: Value,
    tenant: Option<String>,
    environment: Option<String>,
}

impl Arguments {
    /// Prepares the checks of one command.
    pub(crate) fn new(schema: &Value, aliases: Aliases) -> Result<Self, SchemaError> {
        let schema = Schema::compile(schema)?.without("tenant").without("environment");
        Ok(Self { schema, aliases })
    }

    /// Checks arguments; nothing has run yet when this refuses.
    pub(crate) fn check(&self, arguments: Value) -> Result<Checked, CommandError> {
        let Value::Object(mut own) = arguments else {
            return Err(CommandError::invalid("$", "an object with the command's parameters"));
        };
        for (alias, canonical) in self.aliases {
            if let Some(value) = own.remove(*alias) {
                if own.contains_key(*canonical) {
                    let expectation = format!("is another name of {canonical}: give one of the two");
                    return Err(CommandError::invalid(&format!("$.{alias}"), expectation));
                }
                own.insert((*canonical).to_owned(), value);
            }
        }
        // Clients of several SDKs send null for what their caller left out.
        own.retain(|_, value| !value.is_null());
        let tenant = asserted(&mut own, "tenant")?;
        let environment = asserted(&mut own, "environment")?;
        self.schema.check_object(&own).map_err(|m| CommandError::invalid(&m.path, m.expected))?;
        Ok(Checked { own: Value::Object(own), tenant, environment })
    }
}

/// Takes out one half of what the caller believes; null and the empty text believe nothing.
fn asserted(own: &mut Map<String, Value>, name: &str) -> Result<Option<String>, CommandError> {
    match own.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(Value::String(text)) if text.len() <= 63 => Ok(Some(text)),
        Some(_) => Err(CommandError::invalid(&format!("$.{name}"), "a text of at most 63 characters")),
    }
}

impl Checked {
    /// Compares what the caller believes with what is.
    pub(crate) fn assert_scope(&self, scope: &Scope) -> Result<(), CommandError> {
        let halves = [
            ("tenant", &self.tenant, scope.tenant.as_str()),
            ("environment", &self.environment, scope.environment.as_str()),
        ];
        for (kind, believed, own) in halves {
            if let Some(believed) = believed.as_deref().filter(|b| *b != own) {
                let believed: String = believed.chars().filter(|c| !c.is_control()).collect();
                let message = format!(
                    "this MCP server is scoped to {kind} {own}; refusing to operate on {kind} {believed}"
                );
                return Err(CommandError::new(ErrorCode::ScopeMismatch, message)
                    .with("tenant", scope.tenant.as_str())
                    .with("environment", scope.environment.as_str()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn arguments() -> Arguments {
        let schema = json!({
            "type": "object", "additionalProperties": false, "required": ["argv"],
            "properties": {
                "argv": { "type": "array", "items": { "type": "string" } },
                "tenant": { "type": "string" }, "environment": { "type": "string" }
            }
        });
        Arguments::new(&schema, &[("command", "argv")]).unwrap()
    }

    fn scope() -> Scope {
        Scope { tenant: "a".parse().unwrap(), environment: "b".parse().unwrap() }
    }

    #[test]
    fn aliases_stand_in_and_never_beside() {
        let checked = arguments().check(json!({ "command": ["ls"] })).unwrap();
        assert_eq!(checked.own, json!({ "argv": ["ls"] }));
        let error = arguments().check(json!({ "command": ["ls"], "argv": ["ls"] })).err().unwrap();
        assert_eq!(error.error_code, ErrorCode::InvalidParams);
        assert!(error.message.starts_with("$.command: "), "{}", error.message);
    }

    #[test]
    fn null_is_what_was_left_out() {
        let checked = arguments().check(json!({ "argv": ["ls"], "cwd": null })).unwrap();
        assert_eq!(checked.own, json!({ "argv": ["ls"] }));
        let error = arguments().check(json!({ "argv": null })).err().unwrap();
        assert_eq!(error.details["path"], "$.argv");
    }

    #[test]
    fn another_environment_is_refused_in_the_seeds_words() {
        let check = |value| arguments().check(value).unwrap().assert_scope(&scope());
        assert_eq!(check(json!({ "argv": [], "tenant": "a", "environment": "b" })), Ok(()));
        assert_eq!(check(json!({ "argv": [], "tenant": "", "environment": null })), Ok(()));
        let error = check(json!({ "argv": [], "tenant": "z" })).unwrap_err();
        assert_eq!(error.error_code, ErrorCode::ScopeMismatch);
        assert_eq!(error.message, "this MCP server is scoped to tenant a; refusing to operate on tenant z");
        let error = check(json!({ "argv": [], "environment": "z" })).unwrap_err();
        assert_eq!(
            error.message,
            "this MCP server is scoped to environment b; refusing to operate on environment z"
        );
    }

    #[test]
    fn arguments_are_an_object() {
        for value in [json!([]), json!("{}"), json!(5), Value::Null] {
            assert_eq!(arguments().check(value).err().unwrap().details["path"], "$");
        }
        assert!(arguments().check(json!({ "argv": [], "tenant": 5 })).is_err());
    }
}
