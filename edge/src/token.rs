//! Minting bearers: a JWT (RFC 7519) signed with EdDSA (RFC 8037). Checking them is `bearer`'s.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cuddy_protocol::claims::Claims;
use ed25519_dalek::{Signer, SigningKey};
use secrecy::SecretString;

use crate::keys;

/// Returns a bearer over the claims. Its header names the key's thumbprint as `kid`.
pub fn mint(key: &SigningKey, claims: &Claims) -> Result<SecretString, serde_json::Error> {
    let header =
        serde_json::json!({ "alg": "EdDSA", "typ": "JWT", "kid": keys::thumbprint(&key.verifying_key()) });
    let mut token = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&header)?);
    token.push('.');
    token.push_str(&URL_SAFE_NO_PAD.encode(serde_json::to_vec(claims)?));
    let signature = key.sign(token.as_bytes());
    token.push('.');
    token.push_str(&URL_SAFE_NO_PAD.encode(signature.to_bytes()));
    Ok(SecretString::from(token))
}
