//! Keys and tokens, good and bad.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cuddy_edge::bearer::TrustedSet;
use cuddy_edge::keys;
use cuddy_protocol::Capability;
use cuddy_protocol::anchor::TrustedKey;
use cuddy_protocol::claims::DEFAULT_ISSUER;
use ed25519_dalek::{Signer, SigningKey};
use jiff::Timestamp;
use serde_json::{Value, json};

/// The time at which tests take place.
pub(crate) const NOW: i64 = 1_800_000_000;
pub(crate) const AUDIENCE: &str = "erun-mcp:t/e";
pub(crate) const UID: &str = "0b9ad1f4-6a0e-4c3c-9a52-2f1d3c1f1f10";

pub(crate) fn now() -> Timestamp {
    Timestamp::from_second(NOW).unwrap()
}

pub(crate) fn key(seed: u8) -> SigningKey {
    SigningKey::from_bytes(&[seed; 32])
}

pub(crate) fn kid(key: &SigningKey) -> String {
    keys::thumbprint(&key.verifying_key())
}

pub(crate) fn trusted(key: &SigningKey) -> TrustedKey {
    TrustedKey {
        kid: kid(key),
        issuer: DEFAULT_ISSUER.to_owned(),
        public_key: keys::public_to_pem(&key.verifying_key()).unwrap(),
        max_capability: Capability::Admin,
        not_after: None,
    }
}

pub(crate) fn set(generation: u64, keys: &[TrustedKey]) -> TrustedSet {
    TrustedSet::parse(generation, AUDIENCE.to_owned(), UID.to_owned(), keys).unwrap()
}

/// The claims of a good token.
pub(crate) fn claims() -> Value {
    json!({ "iss": DEFAULT_ISSUER, "aud": AUDIENCE, "iat": NOW, "exp": NOW + 300 })
}

/// Good claims with one member replaced; null takes it out.
pub(crate) fn claims_with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

pub(crate) fn claims_without(name: &str) -> Value {
    let mut claims = claims();
    claims.as_object_mut().unwrap().remove(name);
    claims
}

pub(crate) fn encode(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

/// A token with any header, signed.
pub(crate) fn token_with(header: &Value, claims: &Value, key: &SigningKey) -> String {
    sign(&format!("{}.{}", encode(header), encode(claims)), key)
}

pub(crate) fn sign(signed: &str, key: &SigningKey) -> String {
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(key.sign(signed.as_bytes()).to_bytes()))
}

pub(crate) fn token(claims: &Value, key: &SigningKey) -> String {
    token_with(&json!({ "alg": "EdDSA", "typ": "JWT", "kid": kid(key) }), claims, key)
}

/// A good token of a subject, for an environment of the tests.
pub(crate) fn token_of(subject: &str, key: &SigningKey) -> String {
    token(&claims_with("sub", json!(subject)), key)
}
