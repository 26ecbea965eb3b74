//! Who may come in: checking bearers (DESIGN section 6, D13).
//!
//! Fail closed: whatever is not exactly as asked for is refused, with a reason that is the same text each time and holds
//! nothing of the token.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cuddy_protocol::Capabilities;
use cuddy_protocol::anchor::{ControlKeys, MAX_KEYS, TrustedKey};
use cuddy_protocol::claims::{
    CONTROL_LIFETIME_SECONDS, Claims, MAX_LIFETIME_SECONDS, SKEW_SECONDS, control_audience,
};
use ed25519_dalek::{Signature, VerifyingKey};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use jiff::Timestamp;
use parking_lot::RwLock;

use crate::caller::{Caller, Door};
use crate::keys::{self, KeyError};
use crate::token_parts::{Token, TokenClaims};

/// The longest text taken for a token, in bytes.
pub const MAX_TOKEN_BYTES: usize = 8 * 1024;
/// The longest `sub`, in bytes: it becomes part of the names of owners.
pub const MAX_SUBJECT_BYTES: usize = 256;

/// Why a set of keys is refused as a whole. No message holds a byte of a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrustError {
    /// There are more keys than an anchor holds.
    #[error("{count} keys, at most {MAX_KEYS} are trusted at once")]
    TooMany {
        /// How many.
        count: usize,
    },
    /// A key's text is none.
    #[error("key {position} ({kid:?})")]
    Key {
        /// Its place in the list, from 0.
        position: usize,
        /// The name in its record.
        kid: String,
        /// Why.
        source: KeyError,
    },
    /// A record's name is not its key's thumbprint.
    #[error("key {position} is named {kid:?}, its thumbprint is {thumbprint}")]
    Thumbprint {
        /// Its place in the list, from 0.
        position: usize,
        /// The name in its record.
        kid: String,
        /// The thumbprint of the key that is there.
        thumbprint: String,
    },
    /// A record's issuer cannot be one: empty, too long or with a fragment, which would make owners ambiguous.
    #[error("key {position} has an issuer that is empty, over 512 bytes or holds '#'")]
    Issuer {
        /// Its place in the list, from 0.
        position: usize,
    },
    /// A record's end is no time.
    #[error("key {position} has a notAfter that is no RFC 3339 time")]
    NotAfter {
        /// Its place in the list, from 0.
        position: usize,
    },
}

/// Why a request does not get in: one of a fixed set of texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unauthorized {
    reason: &'static str,
}

impl Unauthorized {
    pub(crate) const fn because(reason: &'static str) -> Self {
        Self { reason }
    }

    /// Returns the reason.
    pub const fn reason(&self) -> &'static str {
        self.reason
    }

    /// Says whether no bearer was given at all.
    pub fn is_missing(&self) -> bool {
        self.reason == reasons::MISSING
    }
}

impl fmt::Display for Unauthorized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason)
    }
}

impl std::error::Error for Unauthorized {}

/// Every reason there is, in the order in which they are looked at.
pub mod reasons {
    /// No `Authorization` header, in the words that clients of the door know.
    pub const MISSING: &str = "a bearer token is required";
    /// Two of them.
    pub const TWO_HEADERS: &str = "more than one Authorization header";
    /// `?access_token=`.
    pub const IN_QUERY: &str = "a token in the query is refused";
    /// Another scheme.
    pub const SCHEME: &str = "the Authorization header holds no Bearer token";
    /// Over [`super::MAX_TOKEN_BYTES`].
    pub const TOO_LARGE: &str = "token is too large";
    /// No JWT.
    pub const MALFORMED: &str = "token is malformed";
    /// A header extension that must be understood.
    pub const CRITICAL: &str = "token has critical header extensions";
    /// Another algorithm.
    pub const ALGORITHM: &str = "token is not signed with EdDSA";
    /// A claim of the wrong type.
    pub const CLAIMS: &str = "token has claims of the wrong type";
    /// No `iss`.
    pub const NO_ISSUER: &str = "token has no issuer";
    /// No key of this `iss`.
    pub const ISSUER: &str = "token issuer is not trusted";
    /// A `kid` that none of the issuer's keys has.
    pub const KEY: &str = "token names a key that is not trusted";
    /// A signature of somebody else's.
    pub const SIGNATURE: &str = "token signature is invalid";
    /// A key past its end.
    pub const KEY_EXPIRED: &str = "the key that signed the token has expired";
    /// No `aud`.
    pub const NO_AUDIENCE: &str = "token has no audience";
    /// An `aud` that is a list.
    pub const AUDIENCE_LIST: &str = "token audience is not a single text";
    /// Another environment's `aud`.
    pub const AUDIENCE: &str = "token is for another audience";
    /// Another Environment of the same name.
    pub const UID: &str = "token is for another environment of this name";
    /// No `iat`.
    pub const NO_ISSUED_AT: &str = "token has no issue time";
    /// No `exp`.
    pub const NO_EXPIRY: &str = "token has no expiry";
    /// `exp` before `iat`.
    pub const BACKWARDS: &str = "token expires before it is issued";
    /// Valid for too long.
    pub const LIFETIME: &str = "token lifetime is too long";
    /// `iat` in the future.
    pub const FUTURE: &str = "token is issued in the future";
    /// `nbf` in the future.
    pub const NOT_YET: &str = "token is not valid yet";
    /// Past its `exp`.
    pub const EXPIRED: &str = "token has expired";
    /// An empty or monstrous `sub`.
    pub const SUBJECT: &str = "token subject is empty, too long or holds control characters";
}

#[derive(Clone)]
struct Key {
    thumbprint: String,
    issuer: String,
    verifying: VerifyingKey,
    max: Capabilities,
    not_after: Option<Timestamp>,
}

impl Key {
    fn parse(position: usize, record: &TrustedKey) -> Result<Self, TrustError> {
        let verifying = keys::public_from_pem(&record.public_key).map_err(|source| TrustError::Key {
            position,
            kid: record.kid.clone(),
            source,
        })?;
        let thumbprint = keys::thumbprint(&verifying);
        if thumbprint != record.kid {
            return Err(TrustError::Thumbprint { position, kid: record.kid.clone(), thumbprint });
        }
        if record.issuer.is_empty() || record.issuer.len() > 512 || record.issuer.contains('#') {
            return Err(TrustError::Issuer { position });
        }
        let not_after = record.not_after.as_deref().map(str::parse).transpose();
        Ok(Self {
            thumbprint,
            issuer: record.issuer.clone(),
            verifying,
            max: Capabilities::up_to(record.max_capability),
            not_after: not_after.map_err(|_| TrustError::NotAfter { position })?,
        })
    }
}

/// The keys of one generation, parsed.
pub struct TrustedSet {
    generation: u64,
    audience: String,
    environment_uid: String,
    keys: Vec<Key>,
}

impl fmt::Debug for TrustedSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrustedSet")
            .field("generation", &self.generation)
            .field("audience", &self.audience)
            .field("keys", &self.thumbprints())
            .finish_non_exhaustive()
    }
}

impl TrustedSet {
    /// Parses the keys of one generation; one bad key refuses the set, so that the last good one stays in force.
    pub fn parse(
        generation: u64,
        audience: String,
        environment_uid: String,
        keys: &[TrustedKey],
    ) -> Result<Self, TrustError> {
        if keys.len() > MAX_KEYS {
            return Err(TrustError::TooMany { count: keys.len() });
        }
        let keys =
            keys.iter().enumerate().map(|(at, record)| Key::parse(at, record)).collect::<Result<_, _>>()?;
        Ok(Self { generation, audience, environment_uid, keys })
    }

    /// Returns the generation.
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the thumbprints of the keys, in their order.
    pub fn thumbprints(&self) -> Vec<String> {
        self.keys.iter().map(|k| k.thumbprint.clone()).collect()
    }

    /// Returns the audience that bearers must name.
    pub fn audience(&self) -> &str {
        &self.audience
    }

    /// Says whether a key still signs for an issuer.
    pub fn trusts(&self, issuer: &str, thumbprint: &str) -> bool {
        self.keys.iter().any(|k| k.issuer == issuer && k.thumbprint == thumbprint)
    }

    /// Checks the bearer of a request and returns its caller.
    pub fn verify(
        &self,
        headers: &HeaderMap,
        query: Option<&str>,
        door: Door,
        now: Timestamp,
    ) -> Result<Caller, Unauthorized> {
        let text = bearer_text(headers, query)?;
        let policy = Policy {
            audience: &self.audience,
            environment_uid: &self.environment_uid,
            lifetime: MAX_LIFETIME_SECONDS,
        };
        let (claims, key) = check(text, &self.keys, &policy, now)?;
        Ok(Caller {
            capabilities: claims.capabilities().and(key.max),
            issuer: claims.iss,
            subject: claims.sub.unwrap_or_else(|| key.thumbprint.clone()),
            kid: Some(key.thumbprint.clone()),
            issued_at: claims.iat,
            door,
            session: None,
        })
    }
}

/// Checks the operator's bearer on the control port (D35): its own audience, and a lifetime of at most 30 s.
pub fn verify_control(
    headers: &HeaderMap,
    keys: &ControlKeys,
    environment_uid: &str,
    now: Timestamp,
) -> Result<(), Unauthorized> {
    let text = bearer_text(headers, None)?;
    // A key of the operator's that cannot be read is no key: the others still count.
    let keys: Vec<Key> = keys
        .public_keys
        .iter()
        .take(MAX_KEYS)
        .filter_map(|pem| keys::public_from_pem(pem).ok())
        .map(|verifying| Key {
            thumbprint: keys::thumbprint(&verifying),
            issuer: keys.issuer.clone(),
            verifying,
            max: Capabilities::NONE,
            not_after: None,
        })
        .collect();
    let audience = control_audience(environment_uid);
    let policy = Policy { audience: &audience, environment_uid, lifetime: CONTROL_LIFETIME_SECONDS };
    check(text, &keys, &policy, now).map(|_| ())
}

/// What happens when the keys change.
type Listener = Box<dyn Fn(&TrustedSet) + Send + Sync>;

/// The keys in force; replaced while running, read without waiting.
pub struct Trust {
    current: RwLock<Arc<TrustedSet>>,
    listeners: RwLock<Vec<Listener>>,
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Trust").field(&self.current()).finish()
    }
}

impl Trust {
    /// Returns a trust in one set.
    pub fn new(set: TrustedSet) -> Arc<Self> {
        Arc::new(Self { current: RwLock::new(Arc::new(set)), listeners: RwLock::default() })
    }

    /// Returns a trust in nobody, as before the first keys are known.
    pub fn closed(audience: String, environment_uid: String) -> Arc<Self> {
        Self::new(TrustedSet { generation: 0, audience, environment_uid, keys: Vec::new() })
    }

    /// Puts another set in force. When it returns, the doors have ended the sessions and calls of every key that is no
    /// longer trusted (D41).
    pub fn replace(&self, set: TrustedSet) {
        let set = Arc::new(set);
        // Held to the end: two sets that come at once are told one after the other, the one in force last.
        let listeners = self.listeners.write();
        *self.current.write() = Arc::clone(&set);
        for listener in listeners.iter() {
            listener(&set);
        }
    }

    /// Calls a function with each set that comes into force from now on. It must neither block nor call `replace` or
    /// `on_replace`.
    pub fn on_replace(&self, listener: impl Fn(&TrustedSet) + Send + Sync + 'static) {
        self.listeners.write().push(Box::new(listener));
    }

    /// Returns the set in force.
    pub fn current(&self) -> Arc<TrustedSet> {
        Arc::clone(&self.current.read())
    }
}

struct Policy<'a> {
    audience: &'a str,
    environment_uid: &'a str,
    lifetime: i64,
}

/// Returns the token's text, from the one place where it may stand.
fn bearer_text<'h>(headers: &'h HeaderMap, query: Option<&str>) -> Result<&'h str, Unauthorized> {
    // Even beside a good header: a token in an address ends up in logs and histories, and its sender should hear of it.
    let in_query = query.is_some_and(|q| {
        q.split('&')
            .any(|pair| pair.split('=').next().is_some_and(|k| k.eq_ignore_ascii_case("access_token")))
    });
    if in_query {
        return Err(Unauthorized::because(reasons::IN_QUERY));
    }
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next().ok_or(Unauthorized::because(reasons::MISSING))?;
    if values.next().is_some() {
        return Err(Unauthorized::because(reasons::TWO_HEADERS));
    }
    if value.len() > MAX_TOKEN_BYTES {
        return Err(Unauthorized::because(reasons::TOO_LARGE));
    }
    let text = value.to_str().map_err(|_| Unauthorized::because(reasons::MALFORMED))?;
    let (scheme, token) = text.split_once(' ').ok_or(Unauthorized::because(reasons::SCHEME))?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Unauthorized::because(reasons::SCHEME));
    }
    Ok(token.trim_matches(' '))
}

/// Checks one token: form, key, signature, then claims. Nothing in it is believed before the signature holds but which
/// keys to try.
fn check<'k>(
    text: &str,
    keys: &'k [Key],
    policy: &Policy<'_>,
    now: Timestamp,
) -> Result<(Claims, &'k Key), Unauthorized> {
    let token = Token::parse(text)?;
    let issuer = token.claims.issuer()?;
    let mut of_issuer = keys.iter().filter(|k| k.issuer == issuer).peekable();
    if of_issuer.peek().is_none() {
        return Err(Unauthorized::because(reasons::ISSUER));
    }
    let mut named =
        of_issuer.filter(|k| token.kid.as_ref().is_none_or(|kid| *kid == k.thumbprint)).peekable();
    if named.peek().is_none() {
        return Err(Unauthorized::because(reasons::KEY));
    }
    let signature = URL_SAFE_NO_PAD
        .decode(token.signature)
        .ok()
        .and_then(|bytes| Signature::from_slice(&bytes).ok())
        .ok_or(Unauthorized::because(reasons::SIGNATURE))?;
    let key = named
        .find(|k| k.verifying.verify_strict(token.signed.as_bytes(), &signature).is_ok())
        .ok_or(Unauthorized::because(reasons::SIGNATURE))?;
    if key.not_after.is_some_and(|end| now >= end) {
        return Err(Unauthorized::because(reasons::KEY_EXPIRED));
    }
    let claims = check_claims(token.claims, policy, now.as_second())?;
    Ok((claims, key))
}

fn check_claims(claims: TokenClaims, policy: &Policy<'_>, now: i64) -> Result<Claims, Unauthorized> {
    let refuse = |reason| Err(Unauthorized::because(reason));
    let claims = claims.typed()?;
    if claims.aud != policy.audience {
        return refuse(reasons::AUDIENCE);
    }
    if claims.cuddy_uid.as_ref().is_some_and(|uid| uid != policy.environment_uid) {
        return refuse(reasons::UID);
    }
    let bad_subject =
        |s: &String| s.is_empty() || s.len() > MAX_SUBJECT_BYTES || s.chars().any(char::is_control);
    if claims.sub.as_ref().is_some_and(bad_subject) {
        return refuse(reasons::SUBJECT);
    }
    if claims.exp <= claims.iat {
        return refuse(reasons::BACKWARDS);
    }
    if claims.exp.saturating_sub(claims.iat) > policy.lifetime {
        return refuse(reasons::LIFETIME);
    }
    if claims.iat > now.saturating_add(SKEW_SECONDS) {
        return refuse(reasons::FUTURE);
    }
    if claims.nbf.is_some_and(|nbf| nbf > now.saturating_add(SKEW_SECONDS)) {
        return refuse(reasons::NOT_YET);
    }
    if claims.exp <= now.saturating_sub(SKEW_SECONDS) {
        return refuse(reasons::EXPIRED);
    }
    Ok(claims)
}
