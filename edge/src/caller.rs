//! Who calls.

use cuddy_protocol::Capabilities;

/// The way by which a call came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Door {
    /// An MCP tool call.
    Mcp,
    /// REST.
    Rest,
    /// The agent's own socket inside the environment.
    Agent,
}

impl Door {
    /// Returns the door's name in logs, audit and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mcp => "mcp",
            Self::Rest => "rest",
            Self::Agent => "agent",
        }
    }
}

/// A caller whose bearer has been checked, or the environment itself (D2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The `iss` of the bearer.
    pub issuer: String,
    /// The `sub` of the bearer, or the key's thumbprint.
    pub subject: String,
    /// The thumbprint of the key that signed; none for the environment itself.
    pub kid: Option<String>,
    /// What the caller may do: claims cut down to the key's maximum.
    pub capabilities: Capabilities,
    /// The `iat` of the bearer, seconds since the epoch.
    pub issued_at: i64,
    /// The way in.
    pub door: Door,
    /// The session, where the client keeps one.
    pub session: Option<String>,
}

impl Caller {
    /// Returns the name under which handles and leases are owned: issuer and subject, which no argument can change.
    pub fn owner(&self) -> String {
        format!("{}#{}", self.issuer, self.subject)
    }

    /// Says whether a bearer was checked for this call; the environment's own calls carry none, and are no evidence that
    /// a person works.
    pub fn is_bearer(&self) -> bool {
        self.kid.is_some()
    }
}
