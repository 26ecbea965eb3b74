//! Ed25519 keys: PEM in and out, and the thumbprint that names them (RFC 7638, RFC 8037).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{
    DecodePrivateKey, DecodePublicKey, EncodePrivateKey, EncodePublicKey, KeypairBytes,
};
use ed25519_dalek::{SigningKey, VerifyingKey};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

/// Why a text is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text is no PEM of an Ed25519 public key.
    #[error("not an Ed25519 public key in PEM (SubjectPublicKeyInfo): {0}")]
    Public(String),
    /// The text is no PEM of an Ed25519 private key. The parser's words could quote the text, so they are left out.
    #[error("not an Ed25519 private key in PEM (PKCS#8)")]
    Private,
    /// The machine gives no random numbers.
    #[error("no random numbers to be had: {0}")]
    Random(String),
    /// The key cannot be written as PEM.
    #[error("a key that cannot be written as PEM")]
    Encode,
}

/// Returns a new key.
pub fn generate() -> Result<SigningKey, KeyError> {
    let mut seed = zeroize::Zeroizing::new([0_u8; 32]);
    getrandom::fill(&mut *seed).map_err(|e| KeyError::Random(e.to_string()))?;
    Ok(SigningKey::from_bytes(&seed))
}

/// Returns a private key from PEM (PKCS#8), the public key in it recomputed and not believed.
pub fn private_from_pem(pem: &SecretString) -> Result<SigningKey, KeyError> {
    SigningKey::from_pkcs8_pem(pem.expose_secret().trim()).map_err(|_| KeyError::Private)
}

/// Returns a private key as PEM (PKCS#8 version 1, RFC 8410): the form with the public key attached is version 2, which
/// OpenSSL 3.0 and the programs built on it do not read.
pub fn private_to_pem(key: &SigningKey) -> Result<SecretString, KeyError> {
    let alone = KeypairBytes { secret_key: key.to_bytes(), public_key: None };
    let pem = alone.to_pkcs8_pem(LineEnding::LF).map_err(|_| KeyError::Encode)?;
    Ok(SecretString::from(pem.as_str().to_owned()))
}

/// Returns a public key from PEM (SubjectPublicKeyInfo). Weak keys are refused: with one of small order anybody could sign.
pub fn public_from_pem(pem: &str) -> Result<VerifyingKey, KeyError> {
    let key = VerifyingKey::from_public_key_pem(pem.trim()).map_err(|e| KeyError::Public(e.to_string()))?;
    if key.is_weak() {
        return Err(KeyError::Public("a key of small order".to_owned()));
    }
    Ok(key)
}

/// Returns a public key as PEM.
pub fn public_to_pem(key: &VerifyingKey) -> Result<String, KeyError> {
    key.to_public_key_pem(LineEnding::LF).map_err(|_| KeyError::Encode)
}

/// Returns the thumbprint of a public key: SHA-256 over its JWK with the members in order, base64url without padding.
pub fn thumbprint(key: &VerifyingKey) -> String {
    let x = URL_SAFE_NO_PAD.encode(key.as_bytes());
    let jwk = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}"#);
    URL_SAFE_NO_PAD.encode(Sha256::digest(jwk.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8037, appendix A.3.
    #[test]
    fn thumbprint_is_the_rfcs() {
        let x = URL_SAFE_NO_PAD.decode("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo").unwrap();
        let key = VerifyingKey::from_bytes(&x.try_into().unwrap()).unwrap();
        assert_eq!(thumbprint(&key), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
    }

    #[test]
    fn keys_survive_pem() {
        let key = generate().unwrap();
        let again = private_from_pem(&private_to_pem(&key).unwrap()).unwrap();
        assert_eq!(again.verifying_key(), key.verifying_key());
        let public = public_to_pem(&key.verifying_key()).unwrap();
        assert_eq!(public_from_pem(&public).unwrap(), key.verifying_key());
    }

    /// RFC 8410, section 10.3: the same key without its public half, and with it.
    #[test]
    fn private_keys_are_written_as_version_1_and_read_as_either() {
        const ALONE: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC
-----END PRIVATE KEY-----
";
        const WITH_PUBLIC: &str = "-----BEGIN PRIVATE KEY-----
MHICAQEwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC
oB8wHQYKKoZIhvcNAQkJFDEPDA1DdXJkbGUgQ2hhaXJzgSEAGb9ECWmEzf6FQbrB
Z9w7lshQhqowtrbLDFw4rXAxZuE=
-----END PRIVATE KEY-----
";
        let key = private_from_pem(&SecretString::from(ALONE.to_owned())).unwrap();
        assert_eq!(private_to_pem(&key).unwrap().expose_secret(), ALONE);
        // As this program wrote it once: version 2, without attributes.
        let once = key.to_pkcs8_pem(LineEnding::LF).unwrap();
        assert_ne!(once.as_str(), ALONE);
        for pem in [once.as_str(), WITH_PUBLIC] {
            let read = private_from_pem(&SecretString::from(pem.to_owned())).unwrap();
            assert_eq!(read.to_bytes(), key.to_bytes(), "{pem}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "hello", "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA\n-----END PUBLIC KEY-----"] {
            assert!(public_from_pem(text).is_err(), "{text}");
            assert_eq!(
                private_from_pem(&SecretString::from(text.to_owned())).unwrap_err(),
                KeyError::Private
            );
        }
    }
}
