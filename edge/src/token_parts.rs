//! Taking a bearer's text apart, before anything in it is believed (RFC 7515, RFC 7519).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cuddy_protocol::claims::Claims;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::bearer::{Unauthorized, reasons};

/// A token in its three parts.
pub(crate) struct Token<'t> {
    /// What the signature covers.
    pub(crate) signed: &'t str,
    /// The signature, base64url.
    pub(crate) signature: &'t str,
    /// The key that the header names.
    pub(crate) kid: Option<String>,
    /// The claims, not believed yet.
    pub(crate) claims: TokenClaims,
}

/// The header's members that matter; `jku`, `x5u` and `jwk`, which name keys of the sender's choice, do not.
#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: Option<String>,
    #[serde(default, deserialize_with = "is_there")]
    crit: bool,
}

/// The claims as they stand there: a member that is null is not one that is missing.
#[derive(Deserialize)]
pub(crate) struct TokenClaims {
    #[serde(default, deserialize_with = "some")]
    iss: Option<Value>,
    #[serde(default, deserialize_with = "some")]
    sub: Option<Value>,
    #[serde(default, deserialize_with = "some")]
    aud: Option<Value>,
    #[serde(default, deserialize_with = "some")]
    iat: Option<Value>,
    #[serde(default, deserialize_with = "some")]
    exp: Option<Value>,
    #[serde(default, deserialize_with = "some")]
    nbf: Option<Value>,
    #[serde(default, deserialize_with = "some")]
    scope: Option<Value>,
    #[serde(default, deserialize_with = "some")]
    roles: Option<Value>,
    #[serde(default, deserialize_with = "some")]
    cuddy_uid: Option<Value>,
}

fn is_there<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(deserializer).map(|_| true)
}

fn some<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

fn part<T: DeserializeOwned>(text: &str) -> Result<T, Unauthorized> {
    let malformed = Unauthorized::because(reasons::MALFORMED);
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| malformed)?;
    serde_json::from_slice(&bytes).map_err(|_| malformed)
}

impl<'t> Token<'t> {
    /// Takes a token apart. A member given twice in header or claims makes it malformed.
    pub(crate) fn parse(text: &'t str) -> Result<Self, Unauthorized> {
        let malformed = Unauthorized::because(reasons::MALFORMED);
        let (signed, signature) = text.rsplit_once('.').ok_or(malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(malformed)?;
        // The signature may be empty (`alg: none`): then the algorithm is what is wrong with it.
        if header.is_empty() || claims.is_empty() || claims.contains('.') {
            return Err(malformed);
        }
        let header: Header = part(header)?;
        if header.crit {
            return Err(Unauthorized::because(reasons::CRITICAL));
        }
        if header.alg != "EdDSA" {
            return Err(Unauthorized::because(reasons::ALGORITHM));
        }
        Ok(Self { signed, signature, kid: header.kid, claims: part(claims)? })
    }
}

impl TokenClaims {
    /// Returns who says to have signed.
    pub(crate) fn issuer(&self) -> Result<&str, Unauthorized> {
        match &self.iss {
            Some(Value::String(issuer)) => Ok(issuer),
            Some(_) => Err(Unauthorized::because(reasons::CLAIMS)),
            None => Err(Unauthorized::because(reasons::NO_ISSUER)),
        }
    }

    /// Returns the claims with their types checked.
    pub(crate) fn typed(self) -> Result<Claims, Unauthorized> {
        let wrong = || Unauthorized::because(reasons::CLAIMS);
        let text = |value: Option<Value>| match value {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(wrong()),
        };
        let integer = |value: Value| value.as_i64().ok_or_else(wrong);
        let aud = match self.aud {
            Some(Value::String(text)) => text,
            Some(_) => return Err(Unauthorized::because(reasons::AUDIENCE_LIST)),
            None => return Err(Unauthorized::because(reasons::NO_AUDIENCE)),
        };
        let roles = match self.roles {
            None => None,
            Some(Value::Array(items)) => {
                let texts = items.iter().map(|item| item.as_str().map(str::to_owned));
                Some(texts.collect::<Option<Vec<_>>>().ok_or_else(wrong)?)
            }
            Some(_) => return Err(wrong()),
        };
        Ok(Claims {
            iss: text(self.iss)?.ok_or(Unauthorized::because(reasons::NO_ISSUER))?,
            sub: text(self.sub)?,
            aud,
            iat: integer(self.iat.ok_or(Unauthorized::because(reasons::NO_ISSUED_AT))?)?,
            exp: integer(self.exp.ok_or(Unauthorized::because(reasons::NO_EXPIRY))?)?,
            nbf: self.nbf.map(integer).transpose()?,
            scope: text(self.scope)?,
            roles,
            cuddy_uid: text(self.cuddy_uid)?,
        })
    }
}
