//! Names and identifiers, parsed once at the edge and trusted inside.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The most characters an Environment's name may have: its children add suffixes and still fit into a DNS label.
pub const MAX_ENVIRONMENT_NAME: usize = 52;

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The text is empty or too long.
    #[error("a {kind} has 1 to {max} characters, this one has {len}")]
    Length { kind: &'static str, max: usize, len: usize },
    /// The text is not a DNS label (RFC 1123).
    #[error(
        "a {kind} consists of lower-case letters, digits and '-', and starts and ends with a letter or digit"
    )]
    Form { kind: &'static str },
}

fn dns_label(text: &str, kind: &'static str, max: usize) -> Result<(), NameError> {
    if text.is_empty() || text.len() > max {
        return Err(NameError::Length { kind, max, len: text.len() });
    }
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let outer = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    if !bytes.iter().copied().all(inner) || !outer(bytes[0]) || !outer(bytes[bytes.len() - 1]) {
        return Err(NameError::Form { kind });
    }
    Ok(())
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $kind:literal, $max:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(String);

        impl $type {
            /// Returns the name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $type {
            type Err = NameError;
            fn from_str(text: &str) -> Result<Self, NameError> {
                dns_label(text, $kind, $max)?;
                Ok(Self(text.to_owned()))
            }
        }

        impl TryFrom<String> for $type {
            type Error = NameError;
            fn try_from(text: String) -> Result<Self, NameError> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> Self {
                name.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// The owner of environments (DESIGN section 1): a namespace's name unless tenant labels are on.
    TenantName,
    "tenant name",
    63
);
name!(
    /// The name of an Environment, at most 52 characters.
    EnvironmentName,
    "environment name",
    MAX_ENVIRONMENT_NAME
);

/// The pair that every bearer, command and answer is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Scope {
    /// The tenant.
    pub tenant: TenantName,
    /// The environment.
    pub environment: EnvironmentName,
}

impl Scope {
    /// Returns the audience that a bearer for this environment names: `erun-mcp:<tenant>/<environment>` (seed, section
    /// Authentication).
    pub fn audience(&self) -> String {
        format!("erun-mcp:{}/{}", self.tenant, self.environment)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.environment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_dns_labels() {
        for good in ["a", "a-b", "0", &"x".repeat(52)] {
            assert!(good.parse::<EnvironmentName>().is_ok(), "{good}");
        }
        for bad in ["", "A", "-a", "a-", "a.b", "a/b", "é", &"x".repeat(53)] {
            assert!(bad.parse::<EnvironmentName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn audience_is_the_seeds() {
        let scope = Scope { tenant: "myapp".parse().unwrap(), environment: "local".parse().unwrap() };
        assert_eq!(scope.audience(), "erun-mcp:myapp/local");
    }
}
