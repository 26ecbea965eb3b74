//! `version`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::declaration::{Command, Declaration, Family, Method, NoParams, Route};

/// Reports which build is answering.
#[derive(Debug)]
pub struct Version;

/// The build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VersionOutput {
    /// The server's version.
    pub build: String,
    /// The commit it was built from.
    pub commit: String,
    /// When that commit was made, RFC 3339, UTC.
    pub date: String,
    /// The API level; a CLI one apart understands it.
    pub api_level: u32,
}

impl Command for Version {
    const DECLARATION: Declaration = Declaration {
        route: Route { method: Method::Get, path: "/version" },
        path: &["version"],
        activity: false,
        ..Declaration::read::<Self>(
            "version",
            Family::TopLevel,
            "Reports which build of the server is answering.",
        )
    };
    type Params = NoParams;
    type Output = VersionOutput;
}
