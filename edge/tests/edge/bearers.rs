//! Who gets in and who does not.

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cuddy_edge::bearer::{Trust, TrustError, TrustedSet, reasons, verify_control};
use cuddy_edge::caller::{Caller, Door};
use cuddy_edge::keys;
use cuddy_protocol::anchor::{ControlKeys, MAX_KEYS, TrustedKey};
use cuddy_protocol::claims::{DEFAULT_ISSUER, control_audience};
use cuddy_protocol::{Capabilities, Capability};
use ed25519_dalek::SigningKey;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use proptest::prelude::*;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::tokens::{
    AUDIENCE, NOW, UID, claims, claims_with, claims_without, encode, key, kid, now, set, sign, token,
    token_with, trusted,
};

fn headers(values: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for value in values {
        headers.append(AUTHORIZATION, value.parse().unwrap());
    }
    headers
}

fn verify_in(set: &TrustedSet, values: &[&str], query: Option<&str>) -> Result<Caller, &'static str> {
    set.verify(&headers(values), query, Door::Mcp, now()).map_err(|refusal| refusal.reason())
}

fn bearer(token: &str) -> Result<Caller, &'static str> {
    verify_in(&set(1, &[trusted(&key(1))]), &[&format!("Bearer {token}")], None)
}

/// HMAC-SHA-256 (RFC 2104), to sign a token with a public key's text as an old confusion asks for.
fn hmac_sha256(secret: &[u8], message: &[u8]) -> Vec<u8> {
    let mut block = [0_u8; 64];
    if secret.len() > 64 {
        block[..32].copy_from_slice(&Sha256::digest(secret));
    } else {
        block[..secret.len()].copy_from_slice(secret);
    }
    let inner = Sha256::new().chain_update(block.map(|b| b ^ 0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(block.map(|b| b ^ 0x5c)).chain_update(inner).finalize().to_vec()
}

fn hs256_with_the_public_key() -> String {
    let pem = keys::public_to_pem(&key(1).verifying_key()).unwrap();
    let signed = format!("{}.{}", encode(&json!({ "alg": "HS256", "typ": "JWT" })), encode(&claims()));
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(hmac_sha256(pem.as_bytes(), signed.as_bytes())))
}

#[test]
fn a_good_token_gets_in() {
    let caller = bearer(&token(&claims(), &key(1))).unwrap();
    assert_eq!(caller.issuer, DEFAULT_ISSUER);
    assert_eq!(caller.subject, kid(&key(1)), "without sub the key's thumbprint stands in");
    assert_eq!(caller.kid, Some(kid(&key(1))));
    assert_eq!(caller.capabilities, Capabilities::up_to(Capability::Admin));
    assert_eq!(caller.issued_at, NOW);
    assert!(caller.is_bearer());
    for (name, value) in [
        ("sub", json!("me")),
        ("nbf", json!(NOW + 30)),
        ("iat", json!(NOW + 30)),
        ("cuddy_uid", json!(UID)),
        ("unknown", json!({ "any": ["thing"] })),
    ] {
        let claims = if name == "iat" {
            let mut claims = claims_with("iat", value);
            claims["exp"] = json!(NOW + 330);
            claims
        } else {
            claims_with(name, value)
        };
        assert!(bearer(&token(&claims, &key(1))).is_ok(), "{name}");
    }
    // No kid: every key of the issuer is tried. The scheme's case does not matter.
    let set = set(1, &[trusted(&key(2)), trusted(&key(1))]);
    let anonymous = token_with(&json!({ "alg": "EdDSA" }), &claims(), &key(1));
    for scheme in ["Bearer", "bearer", "BEARER", "bEaReR"] {
        assert!(verify_in(&set, &[&format!("{scheme} {anonymous}")], Some("a=b")).is_ok(), "{scheme}");
    }
}

#[test]
fn the_refusal_table() {
    let good_header = json!({ "alg": "EdDSA", "kid": kid(&key(1)) });
    let with_header = |name: &str, value: Value| {
        let mut header = good_header.clone();
        header[name] = value;
        token_with(&header, &claims(), &key(1))
    };
    let lifetime = |iat: i64, exp: i64| {
        let mut claims = claims_with("iat", json!(iat));
        claims["exp"] = json!(exp);
        token(&claims, &key(1))
    };
    let signed = |claims: &Value| token(claims, &key(1));
    let good = signed(&claims());
    let (body, signature) = good.rsplit_once('.').unwrap();
    let twice = sign(
        &format!(
            "{}.{}",
            encode(&good_header),
            URL_SAFE_NO_PAD.encode(claims().to_string().replacen('{', "{\"aud\":\"erun-mcp:x/y\",", 1))
        ),
        &key(1),
    );

    let table: Vec<(&str, String, &str)> = vec![
        ("expired", lifetime(NOW - 400, NOW - 100), reasons::EXPIRED),
        ("expired just now", lifetime(NOW - 330, NOW - 30), reasons::EXPIRED),
        ("331 s", lifetime(NOW, NOW + 331), reasons::LIFETIME),
        ("301 s", lifetime(NOW, NOW + 301), reasons::LIFETIME),
        ("backwards", lifetime(NOW, NOW), reasons::BACKWARDS),
        ("overflowing", lifetime(i64::MIN, i64::MAX), reasons::LIFETIME),
        ("iat in the future", lifetime(NOW + 31, NOW + 200), reasons::FUTURE),
        ("nbf in the future", signed(&claims_with("nbf", json!(NOW + 3600))), reasons::NOT_YET),
        ("no exp", signed(&claims_without("exp")), reasons::NO_EXPIRY),
        ("no iat", signed(&claims_without("iat")), reasons::NO_ISSUED_AT),
        ("no aud", signed(&claims_without("aud")), reasons::NO_AUDIENCE),
        ("no iss", signed(&claims_without("iss")), reasons::NO_ISSUER),
        ("exp null", signed(&claims_with("exp", Value::Null)), reasons::CLAIMS),
        ("exp text", signed(&claims_with("exp", json!((NOW + 300).to_string()))), reasons::CLAIMS),
        ("exp fraction", signed(&claims_with("exp", json!(1.8e9))), reasons::CLAIMS),
        ("nbf null", signed(&claims_with("nbf", Value::Null)), reasons::CLAIMS),
        ("scope null", signed(&claims_with("scope", Value::Null)), reasons::CLAIMS),
        ("scope list", signed(&claims_with("scope", json!(["erun:admin"]))), reasons::CLAIMS),
        ("roles text", signed(&claims_with("roles", json!("erun:admin"))), reasons::CLAIMS),
        ("sub empty", signed(&claims_with("sub", json!(""))), reasons::SUBJECT),
        ("sub with a line break", signed(&claims_with("sub", json!("a\nb"))), reasons::SUBJECT),
        ("sub long", signed(&claims_with("sub", json!("x".repeat(257)))), reasons::SUBJECT),
        ("other audience", signed(&claims_with("aud", json!("erun-mcp:t/e2"))), reasons::AUDIENCE),
        ("audience's prefix", signed(&claims_with("aud", json!("erun-mcp:t/"))), reasons::AUDIENCE),
        ("audience in capitals", signed(&claims_with("aud", json!("erun-mcp:T/e"))), reasons::AUDIENCE),
        ("audience list", signed(&claims_with("aud", json!([AUDIENCE]))), reasons::AUDIENCE_LIST),
        ("control audience", signed(&claims_with("aud", json!(control_audience(UID)))), reasons::AUDIENCE),
        ("other issuer", signed(&claims_with("iss", json!("https://evil.example"))), reasons::ISSUER),
        ("issuer list", signed(&claims_with("iss", json!([DEFAULT_ISSUER]))), reasons::CLAIMS),
        ("other uid", signed(&claims_with("cuddy_uid", json!("another"))), reasons::UID),
        ("uid null", signed(&claims_with("cuddy_uid", Value::Null)), reasons::CLAIMS),
        ("other key", token(&claims(), &key(2)), reasons::KEY),
        ("other key under the good name", token_with(&good_header, &claims(), &key(2)), reasons::SIGNATURE),
        (
            "other key without a name",
            token_with(&json!({"alg":"EdDSA"}), &claims(), &key(2)),
            reasons::SIGNATURE,
        ),
        (
            "alg none",
            format!("{}.{}.", encode(&json!({ "alg": "none" })), encode(&claims())),
            reasons::ALGORITHM,
        ),
        ("alg None, signed", with_header("alg", json!("None")), reasons::ALGORITHM),
        ("alg eddsa", with_header("alg", json!("eddsa")), reasons::ALGORITHM),
        ("alg missing", token_with(&json!({ "typ": "JWT" }), &claims(), &key(1)), reasons::MALFORMED),
        ("HS256 with the public key's text", hs256_with_the_public_key(), reasons::ALGORITHM),
        ("crit", with_header("crit", json!(["exp"])), reasons::CRITICAL),
        ("crit null", with_header("crit", Value::Null), reasons::CRITICAL),
        ("crit empty", with_header("crit", json!([])), reasons::CRITICAL),
        ("kid of nobody", with_header("kid", json!("../../etc/passwd")), reasons::KEY),
        ("kid number", with_header("kid", json!(5)), reasons::MALFORMED),
        ("aud twice", twice, reasons::MALFORMED),
        ("no signature", format!("{body}."), reasons::SIGNATURE),
        ("half a signature", format!("{body}.{}", &signature[..43]), reasons::SIGNATURE),
        ("signature padded", format!("{good}=="), reasons::SIGNATURE),
        ("two segments", body.to_owned(), reasons::MALFORMED),
        ("four segments", format!("{good}.x"), reasons::MALFORMED),
        ("five segments", format!("{good}.x.y"), reasons::MALFORMED),
        ("nothing", String::new(), reasons::MALFORMED),
        ("dots", "..".to_owned(), reasons::MALFORMED),
        ("two tokens", format!("{good}, Bearer {good}"), reasons::MALFORMED),
        ("large", "x".repeat(9000), reasons::TOO_LARGE),
    ];
    for (what, token, reason) in table {
        assert_eq!(bearer(&token).err(), Some(reason), "{what}");
    }
}

#[test]
fn the_header_itself() {
    let set = set(1, &[trusted(&key(1))]);
    let good = format!("Bearer {}", token(&claims(), &key(1)));
    let refused = |values: &[&str], query| verify_in(&set, values, query).err();
    assert_eq!(refused(&[], None), Some(reasons::MISSING));
    assert_eq!(refused(&[&good, &good], None), Some(reasons::TWO_HEADERS));
    assert_eq!(refused(&[&good, "Basic YTpi"], None), Some(reasons::TWO_HEADERS));
    assert_eq!(refused(&["Basic YTpi"], None), Some(reasons::SCHEME));
    assert_eq!(refused(&["Bearer"], None), Some(reasons::SCHEME));
    assert_eq!(refused(&[good.trim_start_matches("Bearer ")], None), Some(reasons::SCHEME));
    let in_query = format!("x=1&access_token={}", token(&claims(), &key(1)));
    assert_eq!(refused(&[], Some(&in_query)), Some(reasons::IN_QUERY));
    assert_eq!(refused(&[&good], Some(&in_query)), Some(reasons::IN_QUERY));
    assert_eq!(refused(&[], Some("access_token=")), Some(reasons::IN_QUERY));
}

#[test]
fn keys_count_for_their_own_issuer_and_time_alone() {
    let gateway =
        TrustedKey { issuer: "gateway".to_owned(), max_capability: Capability::Operate, ..trusted(&key(2)) };
    let old = TrustedKey { not_after: Some(now().to_string()), ..trusted(&key(3)) };
    let set = set(7, &[trusted(&key(1)), gateway, old]);
    let verify = |claims: &Value, key: &SigningKey| {
        verify_in(&set, &[&format!("Bearer {}", token(claims, key))], None)
    };
    let as_gateway = claims_with("iss", json!("gateway"));
    // Each key is good, and not for the other's issuer.
    assert!(verify(&claims(), &key(1)).is_ok());
    assert_eq!(verify(&as_gateway, &key(1)).err(), Some(reasons::KEY));
    assert_eq!(verify(&claims(), &key(2)).err(), Some(reasons::KEY));
    assert_eq!(verify(&claims(), &key(3)).err(), Some(reasons::KEY_EXPIRED));
    // Claims are cut down to the key's maximum, whatever they ask for.
    let caller = verify(&as_gateway, &key(2)).unwrap();
    assert_eq!(caller.capabilities, Capabilities::up_to(Capability::Operate));
    for (scope, expected) in [
        ("erun:admin", Capabilities::up_to(Capability::Operate)),
        ("erun:read", Capabilities::up_to(Capability::Read)),
        ("root", Capabilities::NONE),
        ("", Capabilities::NONE),
    ] {
        let mut claims = as_gateway.clone();
        claims["scope"] = json!(scope);
        assert_eq!(verify(&claims, &key(2)).unwrap().capabilities, expected, "{scope}");
    }
    assert_eq!(set.generation(), 7);
    assert_eq!(set.thumbprints(), [kid(&key(1)), kid(&key(2)), kid(&key(3))]);
}

#[test]
fn bad_sets_are_refused_without_a_byte_of_a_key() {
    let parse = |keys: &[TrustedKey]| {
        TrustedSet::parse(1, AUDIENCE.to_owned(), UID.to_owned(), keys).err().map(|e| e.to_string())
    };
    let secret = "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v_SECRET";
    let bad_pem = TrustedKey { public_key: secret.to_owned(), ..trusted(&key(1)) };
    let error =
        TrustedSet::parse(1, AUDIENCE.to_owned(), UID.to_owned(), &[trusted(&key(2)), bad_pem]).unwrap_err();
    assert!(matches!(&error, TrustError::Key { position: 1, .. }));
    let chain = format!("{error} {:?}", std::error::Error::source(&error).map(ToString::to_string));
    assert!(!chain.contains("SECRET"), "{chain}");
    let misnamed = TrustedKey { kid: kid(&key(2)), ..trusted(&key(1)) };
    assert!(parse(&[misnamed]).unwrap().contains("its thumbprint is"));
    for issuer in [String::new(), "a#b".to_owned(), "x".repeat(513)] {
        assert!(parse(&[TrustedKey { issuer, ..trusted(&key(1)) }]).unwrap().contains("issuer"));
    }
    let no_time = TrustedKey { not_after: Some("tomorrow".to_owned()), ..trusted(&key(1)) };
    assert!(parse(&[no_time]).unwrap().contains("notAfter"));
    assert!(parse(&vec![trusted(&key(1)); MAX_KEYS + 1]).unwrap().contains("33 keys"));
    assert_eq!(parse(&vec![trusted(&key(1)); MAX_KEYS]), None);
}

#[test]
fn trust_is_replaced_while_running() {
    let trust = Trust::closed(AUDIENCE.to_owned(), UID.to_owned());
    let good = format!("Bearer {}", token(&claims(), &key(1)));
    let verify = || verify_in(&trust.current(), &[&good], None);
    assert_eq!(verify().err(), Some(reasons::ISSUER));
    trust.replace(set(1, &[trusted(&key(1))]));
    assert!(verify().is_ok());
    let seen = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let record = std::sync::Arc::clone(&seen);
    trust.on_replace(move |set| record.store(set.generation(), std::sync::atomic::Ordering::SeqCst));
    trust.replace(set(2, &[trusted(&key(2))]));
    assert_eq!(verify().err(), Some(reasons::KEY));
    assert_eq!(seen.load(std::sync::atomic::Ordering::SeqCst), 2);
}

#[test]
fn the_operators_bearer_is_good_on_the_control_port_alone() {
    let keys = ControlKeys {
        issuer: "cuddy-operator".to_owned(),
        public_keys: vec!["no key".to_owned(), keys::public_to_pem(&key(9).verifying_key()).unwrap()],
    };
    let claims = |lifetime: i64| json!({ "iss": "cuddy-operator", "aud": control_audience(UID), "iat": NOW, "exp": NOW + lifetime });
    let control = |token: &str| {
        verify_control(&headers(&[&format!("Bearer {token}")]), &keys, UID, now()).map_err(|r| r.reason())
    };
    let good = token(&claims(30), &key(9));
    assert_eq!(control(&good), Ok(()));
    assert_eq!(control(&token(&claims(31), &key(9))), Err(reasons::LIFETIME));
    assert_eq!(control(&token(&claims(30), &key(1))), Err(reasons::KEY));
    assert_eq!(control(&token(&crate::support::tokens::claims(), &key(1))), Err(reasons::ISSUER));
    let other = verify_control(&headers(&[&format!("Bearer {good}")]), &keys, "another", now());
    assert_eq!(other.err().map(|r| r.reason()), Some(reasons::AUDIENCE));
    assert_eq!(bearer(&good).err(), Some(reasons::ISSUER));
}

/// Base64url texts of 64 bytes whose last character has four bits to spare: all but one of them are no signature.
#[test]
fn a_signature_has_one_spelling() {
    let good = token(&claims(), &key(1));
    let (body, last) = good.split_at(good.len() - 1);
    let spellings = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let accepted: Vec<char> = spellings.chars().filter(|c| bearer(&format!("{body}{c}")).is_ok()).collect();
    assert_eq!(accepted, last.chars().collect::<Vec<_>>());
}

/// A set and a token that it lets in: made once, since keys are dear in a debug build.
static GOOD: LazyLock<(TrustedSet, String)> =
    LazyLock::new(|| (set(1, &[trusted(&key(1))]), token(&claims(), &key(1))));

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_mutation_of_a_good_token_gets_in(
        at in any::<prop::sample::Index>(),
        with in prop::sample::select(b"ABCZabz059-_=.{}\" \x7f".to_vec()),
        how in 0..4_u8,
    ) {
        let (set, good) = &*GOOD;
        let mut bytes = good.clone().into_bytes();
        let at = at.index(bytes.len());
        match how {
            0 => bytes[at] = with,
            1 => bytes.insert(at, with),
            2 => { bytes.remove(at); }
            _ => bytes.truncate(at),
        }
        let mutated = String::from_utf8(bytes).unwrap();
        let value = format!("Bearer {mutated}");
        // A space at the very end is trimmed by HTTP itself, and one at its start is the scheme's.
        prop_assume!(mutated.trim_matches(' ') != good.as_str());
        prop_assume!(http::HeaderValue::from_str(&value).is_ok());
        prop_assert!(verify_in(set, &[&value], None).is_err());
    }

    #[test]
    fn no_signature_by_another_key_gets_in(seed in 2..=255_u8, nameless in any::<bool>()) {
        let header = if nameless { json!({ "alg": "EdDSA" }) } else { json!({ "alg": "EdDSA", "kid": kid(&key(1)) }) };
        let forged = token_with(&header, &claims(), &key(seed));
        let refused = verify_in(&GOOD.0, &[&format!("Bearer {forged}")], None);
        prop_assert_eq!(refused.err(), Some(reasons::SIGNATURE));
    }

    #[test]
    fn any_text_is_answered(text in "[ -~]{0,200}") {
        let refused = verify_in(&GOOD.0, &[&format!("Bearer {text}")], None).is_err();
        prop_assert!(refused);
    }
}
