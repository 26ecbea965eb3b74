//! The claims of a bearer (RFC 7519), as this system reads them.

use serde::{Deserialize, Serialize};

use crate::capability::{Capabilities, Capability};

/// The issuer that bearers name unless an anchor says otherwise: the path from which the seed's edge loads its key.
pub const DEFAULT_ISSUER: &str = "file:///etc/erun/mcp-auth/desktopid.pub";
/// The longest time between `iat` and `exp`, in seconds.
pub const MAX_LIFETIME_SECONDS: i64 = 300;
/// The clock skew that is tolerated, in seconds.
pub const SKEW_SECONDS: i64 = 30;
/// The lifetime of a control bearer (operator to sidecar), in seconds (D35).
pub const CONTROL_LIFETIME_SECONDS: i64 = 30;

/// The claims. `aud` is one string: a list is refused (D13). Unknown claims are ignored, as RFC 7519 asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// Who signed. Only keys recorded for this very issuer are tried.
    pub iss: String,
    /// Who calls; without it the key's thumbprint stands in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub: Option<String>,
    /// The one environment that the bearer is good for.
    pub aud: String,
    /// When it was signed, in seconds since the epoch.
    pub iat: i64,
    /// When it ends, in seconds since the epoch.
    pub exp: i64,
    /// Not before, in seconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nbf: Option<i64>,
    /// Capabilities, separated by spaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Capabilities as a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roles: Option<Vec<String>>,
    /// The UID of the Environment meant; checked when present (D36).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuddy_uid: Option<String>,
}

impl Claims {
    /// Returns what the claims ask for: neither `scope` nor `roles` means admin; only unknown names mean nothing.
    pub fn capabilities(&self) -> Capabilities {
        if self.scope.is_none() && self.roles.is_none() {
            return Capabilities::up_to(Capability::Admin);
        }
        let scopes = self.scope.iter().flat_map(|s| s.split_ascii_whitespace());
        let roles = self.roles.iter().flatten().map(String::as_str);
        scopes
            .chain(roles)
            .filter_map(Capability::from_claim)
            .fold(Capabilities::NONE, |all, one| all.or(Capabilities::up_to(one)))
    }
}

/// Returns the audience of control bearers for an Environment's sidecar (D35).
pub fn control_audience(environment_uid: &str) -> String {
    format!("cuddy-control:{environment_uid}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(scope: Option<&str>, roles: Option<&[&str]>) -> Claims {
        Claims {
            iss: DEFAULT_ISSUER.to_owned(),
            sub: None,
            aud: "erun-mcp:t/e".to_owned(),
            iat: 0,
            exp: 300,
            nbf: None,
            scope: scope.map(str::to_owned),
            roles: roles.map(|r| r.iter().map(|s| (*s).to_owned()).collect()),
            cuddy_uid: None,
        }
    }

    #[test]
    fn claims_give_capabilities() {
        assert!(claims(None, None).capabilities().allows(Capability::Admin));
        assert_eq!(claims(Some("openid profile"), None).capabilities(), Capabilities::NONE);
        assert_eq!(claims(Some(""), None).capabilities(), Capabilities::NONE);
        assert_eq!(
            claims(Some("openid erun:read"), None).capabilities(),
            Capabilities::up_to(Capability::Read)
        );
        assert!(claims(None, Some(&["erun:operate"])).capabilities().allows(Capability::Operate));
        assert!(!claims(None, Some(&["erun:operate"])).capabilities().allows(Capability::Admin));
    }
}
