//! What a command says of itself (DESIGN section 4).

use std::time::Duration;

use cuddy_protocol::Capability;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::schema;

/// A command's types, tied to its declaration. Handlers are written against this; doors only ever see [`Declaration`].
pub trait Command: 'static {
    /// The declaration.
    const DECLARATION: Declaration;
    /// The parameters; unknown ones are refused.
    type Params: DeserializeOwned + Serialize + JsonSchema + Send + 'static;
    /// The result.
    type Output: DeserializeOwned + Serialize + JsonSchema + Send + 'static;
}

/// The groups of the seed, told to clients as `_meta.family`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum Family {
    /// `(top-level)`
    #[serde(rename = "(top-level)")]
    TopLevel,
    /// `exec`
    #[serde(rename = "exec")]
    Exec,
    /// `idle`
    #[serde(rename = "idle")]
    Idle,
    /// `activity`
    #[serde(rename = "activity")]
    Activity,
}

impl Family {
    /// Returns the name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TopLevel => "(top-level)",
            Self::Exec => "exec",
            Self::Idle => "idle",
            Self::Activity => "activity",
        }
    }
}

/// What a command does to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Effect {
    /// Nothing.
    Read,
    /// It changes something that can be changed back.
    Change,
    /// It may destroy.
    Destructive,
}

/// Where the handler is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Hosted {
    /// In the sidecar.
    Sidecar,
    /// In the host, inside the user's container; the sidecar passes it on.
    Host,
}

/// How a result is wrapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ResultShape {
    /// The output itself.
    Plain,
}

/// The HTTP method of a command's own route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// Parameters in the query.
    Get,
    /// Parameters in the body.
    Post,
}

/// A command's own route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path, below `/v1`.
    pub path: &'static str,
}

/// What a command wants to hear before it acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Confirm {
    /// Nothing.
    None,
}

/// Second names of parameters: (alias, canonical name). Both given is an error (D5).
pub type Aliases = &'static [(&'static str, &'static str)];

/// Everything that doors need to know of a command.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Declaration {
    /// The tool's name, from the seed.
    pub name: &'static str,
    /// The group.
    pub family: Family,
    /// One sentence: what it does, for people and models.
    pub summary: &'static str,
    /// What it does to the world.
    pub effect: Effect,
    /// Whether a second call with the same arguments changes nothing more.
    pub idempotent: bool,
    /// Whether it reaches beyond the environment.
    pub open_world: bool,
    /// What the caller needs.
    pub capability: Capability,
    /// Where the handler is.
    pub hosted: Hosted,
    /// How the result is wrapped.
    pub result: ResultShape,
    /// The command's own route.
    pub route: Route,
    /// The words of the CLI.
    pub path: &'static [&'static str],
    /// How long the handler may take, with the parameters at their largest.
    #[serde(skip)]
    pub deadline: Duration,
    /// The confirmation it wants.
    pub confirm: Confirm,
    /// Whether `preview: true` traces instead of acting.
    pub preview: bool,
    /// Whether `wait: false` detaches it as a job.
    pub job: bool,
    /// Whether a call is evidence that somebody works.
    pub activity: bool,
    /// Second names of parameters.
    pub aliases: Aliases,
    /// Names under which it is callable, yet not listed.
    pub retired_names: &'static [&'static str],
    /// The parameters' schema: flat, without `$ref`.
    #[serde(skip)]
    pub params_schema: fn() -> Value,
    /// The result's schema.
    #[serde(skip)]
    pub output_schema: fn() -> Value,
}

impl Declaration {
    /// Returns a read-only command with the shape that most have; the rest is set by struct update.
    pub const fn read<C: Command>(name: &'static str, family: Family, summary: &'static str) -> Self {
        Self {
            name,
            family,
            summary,
            effect: Effect::Read,
            idempotent: true,
            open_world: false,
            capability: Capability::Read,
            hosted: Hosted::Sidecar,
            result: ResultShape::Plain,
            route: Route { method: Method::Get, path: "" },
            path: &[],
            deadline: Duration::from_secs(10),
            confirm: Confirm::None,
            preview: false,
            job: false,
            activity: true,
            aliases: &[],
            retired_names: &[],
            params_schema: schema::of_params::<C::Params>,
            output_schema: schema::of_output::<C::Output>,
        }
    }
}

/// The parameters of a command that has none of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoParams {}
