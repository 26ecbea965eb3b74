//! What a caller may do.

use serde::{Deserialize, Serialize};

/// One of the four capabilities of the wire contract (`erun:read|operate|attach|admin`), in ascending order: each
/// includes those before it. A tool asks for one.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum Capability {
    /// See, and change nothing.
    Read,
    /// Run commands and change the workspace.
    Operate,
    /// Open terminals and shells.
    Attach,
    /// Everything, including keys, audit and idle control.
    Admin,
}

impl Capability {
    /// Returns the capability that a scope or role of a bearer names, if it names one.
    pub fn from_claim(text: &str) -> Option<Self> {
        match text {
            "erun:read" => Some(Self::Read),
            "erun:operate" => Some(Self::Operate),
            "erun:attach" => Some(Self::Attach),
            "erun:admin" => Some(Self::Admin),
            _ => None,
        }
    }
}

/// The set of capabilities a caller has. Each capability stands for itself in a bearer, and admin for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Capabilities(u8);

impl Capabilities {
    /// No capability at all.
    pub const NONE: Self = Self(0);

    /// Returns the set that one capability opens: itself and what it includes. Attach opens operate and read, since who
    /// may open a shell may run a command in it.
    pub const fn up_to(capability: Capability) -> Self {
        match capability {
            Capability::Read => Self(0b0001),
            Capability::Operate => Self(0b0011),
            Capability::Attach => Self(0b0111),
            Capability::Admin => Self(0b1111),
        }
    }

    /// Returns what both sets hold: a bearer's claims are cut down to its key's maximum this way.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns what either set holds.
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Says whether the set includes a capability.
    pub const fn allows(self, capability: Capability) -> bool {
        let bit = match capability {
            Capability::Read => 0b0001,
            Capability::Operate => 0b0010,
            Capability::Attach => 0b0100,
            Capability::Admin => 0b1000,
        };
        self.0 & bit != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_include_what_they_open() {
        let operate = Capabilities::up_to(Capability::Operate);
        assert!(operate.allows(Capability::Read) && operate.allows(Capability::Operate));
        assert!(!operate.allows(Capability::Attach) && !operate.allows(Capability::Admin));
        assert_eq!(Capabilities::up_to(Capability::Admin).and(operate), operate);
        assert!(!Capabilities::NONE.allows(Capability::Read));
    }
}
