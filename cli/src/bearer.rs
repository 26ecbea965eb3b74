//! Bearers for one environment: minted per request, never kept, never printed but by `mcp token`.

use cuddy_edge::token;
use cuddy_protocol::Scope;
use cuddy_protocol::claims::{Claims, DEFAULT_ISSUER, MAX_LIFETIME_SECONDS};
use ed25519_dalek::SigningKey;
use jiff::Timestamp;
use secrecy::SecretString;

use crate::error::CliError;

/// Signs bearers for one environment.
#[derive(Clone)]
pub(crate) struct Minter {
    key: SigningKey,
    scope: Scope,
    capabilities: Option<String>,
}

impl std::fmt::Debug for Minter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Minter").field("scope", &self.scope).finish_non_exhaustive()
    }
}

/// What a bearer says beside its signature.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The issuer, if it is not the default one.
    pub(crate) issuer: Option<String>,
    /// The UID of the Environment, where it is known (D36).
    pub(crate) uid: Option<String>,
}

impl Minter {
    /// Returns a minter; without `capabilities` its bearers may do all that the key may.
    pub(crate) const fn new(key: SigningKey, scope: Scope, capabilities: Option<String>) -> Self {
        Self { key, scope, capabilities }
    }

    /// Returns the claims of a bearer made now.
    pub(crate) fn claims(&self, facts: &Facts, now: Timestamp) -> Claims {
        let iat = now.as_second();
        Claims {
            iss: facts.issuer.clone().unwrap_or_else(|| DEFAULT_ISSUER.to_owned()),
            sub: None,
            aud: self.scope.audience(),
            iat,
            exp: iat + MAX_LIFETIME_SECONDS,
            nbf: None,
            scope: self.capabilities.clone(),
            roles: None,
            cuddy_uid: facts.uid.clone(),
        }
    }

    /// Returns a bearer over claims.
    pub(crate) fn sign(&self, claims: &Claims) -> Result<SecretString, CliError> {
        token::mint(&self.key, claims)
            .map_err(|e| CliError::failed("the bearer cannot be written").because(e))
    }

    /// Returns a bearer made now.
    pub(crate) fn mint(&self, facts: &Facts) -> Result<SecretString, CliError> {
        self.sign(&self.claims(facts, Timestamp::now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_the_seeds() {
        let scope = Scope { tenant: "acme".parse().unwrap(), environment: "dev".parse().unwrap() };
        let minter = Minter::new(cuddy_edge::keys::generate().unwrap(), scope, Some("erun:read".into()));
        let facts = Facts { issuer: None, uid: Some("u-1".into()) };
        let claims = minter.claims(&facts, Timestamp::from_second(1_000).unwrap());
        insta::assert_json_snapshot!(claims, @r#"
        {
          "iss": "file:///etc/erun/mcp-auth/desktopid.pub",
          "aud": "erun-mcp:acme/dev",
          "iat": 1000,
          "exp": 1300,
          "scope": "erun:read",
          "cuddy_uid": "u-1"
        }
        "#);
        assert!(!format!("{minter:?}").contains("key"), "no key in a debug text");
    }
}
