//! The operator's own identity: the CA of the sidecars' certificates, and the key pair that signs control bearers.
//!
//! It is kept in one Secret of the operator's namespace (`store`), made by the operator itself when it is missing. Private
//! keys are in no log, error or Debug output.

mod issue;
mod store;

use std::fmt;

use cuddy_edge::{keys, token};
use cuddy_protocol::anchor::ControlKeys;
use cuddy_protocol::claims::{CONTROL_LIFETIME_SECONDS, Claims, control_audience};
use ed25519_dalek::SigningKey;
use jiff::Timestamp;
use rcgen::{Issuer, KeyPair};
use secrecy::{ExposeSecret, SecretString};

pub use issue::ServingCertificate;
pub use store::{SECRET_NAME, StoreError, load_or_create};

/// The `iss` of control bearers.
pub const CONTROL_ISSUER: &str = "cuddy-operator";

/// Why an identity cannot be made, read or used. No variant carries a byte of a key.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A key cannot be made, most likely because the machine gives no random numbers.
    #[error("a key could not be made")]
    Generate(#[source] rcgen::Error),
    /// The control key cannot be made, written or read.
    #[error("the control key is unusable")]
    ControlKey(#[source] keys::KeyError),
    /// The CA's private key cannot be read.
    #[error("the CA's private key is not an ECDSA P-256 key in PEM (PKCS#8)")]
    CaKey,
    /// The CA's certificate does not vouch for what the CA's key signs: another key, no CA, or past its end.
    #[error("the CA's certificate does not vouch for certificates signed with the CA's key: {0}")]
    CaCertificate(String),
    /// A certificate cannot be issued.
    #[error("a certificate could not be issued")]
    Issue(#[source] rcgen::Error),
    /// A name is no DNS name.
    #[error("{0:?} is no DNS name")]
    Name(String),
    /// The claims of a bearer cannot be written.
    #[error("a bearer could not be written")]
    Bearer(#[source] serde_json::Error),
}

/// The CA and the control key pair.
pub struct Identity {
    ca: Issuer<'static, KeyPair>,
    ca_pem: String,
    control: SigningKey,
    control_public_pem: String,
}

/// The texts that an identity is kept as.
pub(crate) struct IdentityPems {
    pub(crate) ca_certificate: String,
    pub(crate) ca_key: SecretString,
    pub(crate) control_key: SecretString,
}

impl Identity {
    /// Makes a new identity.
    pub fn generate(now: Timestamp) -> Result<Self, IdentityError> {
        let (ca, ca_pem) = issue::new_ca(now)?;
        Self::assemble(ca, ca_pem, keys::generate().map_err(IdentityError::ControlKey)?)
    }

    /// Reads an identity, and checks that certificate and key of the CA belong together and are in force.
    pub(crate) fn from_pems(pems: &IdentityPems, now: Timestamp) -> Result<Self, IdentityError> {
        let ca = issue::ca_from_key(pems.ca_key.expose_secret())?;
        let control = keys::private_from_pem(&pems.control_key).map_err(IdentityError::ControlKey)?;
        let identity = Self::assemble(ca, pems.ca_certificate.clone(), control)?;
        identity.check(now).map_err(IdentityError::CaCertificate)?;
        Ok(identity)
    }

    /// Writes an identity as the texts that [`Self::from_pems`] reads.
    pub(crate) fn to_pems(&self) -> Result<IdentityPems, IdentityError> {
        Ok(IdentityPems {
            ca_certificate: self.ca_pem.clone(),
            ca_key: SecretString::from(self.ca.key().serialize_pem()),
            control_key: keys::private_to_pem(&self.control).map_err(IdentityError::ControlKey)?,
        })
    }

    /// Issues a sidecar's serving certificate: ECDSA P-256, one year, for `<uid>.env.cuddy.internal` and the extra names
    /// (those of the environment's Service), with a new key.
    pub fn issue_serving_certificate(
        &self,
        environment_uid: &str,
        extra_names: &[String],
    ) -> Result<ServingCertificate, IdentityError> {
        issue::serving(&self.ca, environment_uid, extra_names, Timestamp::now())
    }

    /// Returns the CA's certificate in PEM: what clients of sidecars trust (`status.endpoint.caBundle`, `ca.crt`).
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// Returns the public side of the control key, as an anchor names it.
    pub fn control_keys(&self) -> ControlKeys {
        ControlKeys { issuer: CONTROL_ISSUER.to_owned(), public_keys: vec![self.control_public_pem.clone()] }
    }

    /// Returns a bearer for the control port of one environment's sidecar, good for 30 seconds.
    pub fn control_bearer(
        &self,
        environment_uid: &str,
        now: Timestamp,
    ) -> Result<SecretString, IdentityError> {
        let iat = now.as_second();
        let claims = Claims {
            iss: CONTROL_ISSUER.to_owned(),
            sub: None,
            aud: control_audience(environment_uid),
            iat,
            exp: iat + CONTROL_LIFETIME_SECONDS,
            nbf: None,
            scope: None,
            roles: None,
            cuddy_uid: Some(environment_uid.to_owned()),
        };
        token::mint(&self.control, &claims).map_err(IdentityError::Bearer)
    }

    /// Checks that a certificate issued now is vouched for at a given time.
    fn check(&self, at: Timestamp) -> Result<(), String> {
        issue::vouches(&self.ca, &self.ca_pem, at)
    }

    fn assemble(
        ca: Issuer<'static, KeyPair>,
        ca_pem: String,
        control: SigningKey,
    ) -> Result<Self, IdentityError> {
        let control_public_pem =
            keys::public_to_pem(&control.verifying_key()).map_err(IdentityError::ControlKey)?;
        Ok(Self { ca, ca_pem, control, control_public_pem })
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    #[test]
    fn an_identity_survives_its_texts() {
        let now = Timestamp::now();
        let identity = Identity::generate(now).unwrap();
        let again = Identity::from_pems(&identity.to_pems().unwrap(), now).unwrap();
        assert_eq!(again.ca_pem(), identity.ca_pem());
        assert_eq!(again.control_keys(), identity.control_keys());
    }

    #[test]
    fn damaged_texts_are_refused_and_not_quoted() {
        let now = Timestamp::now();
        let good = || Identity::generate(now).unwrap().to_pems().unwrap();
        let other = good();
        let cases = [
            ("another CA's key", IdentityPems { ca_key: other.ca_key, ..good() }),
            ("another CA's certificate", IdentityPems { ca_certificate: other.ca_certificate, ..good() }),
            ("no certificate", IdentityPems { ca_certificate: "hello-canary".into(), ..good() }),
            ("no CA key", IdentityPems { ca_key: SecretString::from("hello-canary"), ..good() }),
            ("no control key", IdentityPems { control_key: SecretString::from("hello-canary"), ..good() }),
            ("an EC control key", IdentityPems { control_key: good().ca_key, ..good() }),
            ("an Ed25519 CA key", IdentityPems { ca_key: good().control_key, ..good() }),
        ];
        for (case, pems) in cases {
            let error = Identity::from_pems(&pems, now).expect_err(case);
            let text = format!("{error} {error:?}");
            assert!(!text.contains("canary") && !text.contains("PRIVATE"), "{case}: {text}");
        }
    }

    #[test]
    fn an_expired_ca_is_refused() {
        let now = Timestamp::now();
        let long_ago = now - jiff::SignedDuration::from_hours(24 * 365 * 11);
        let old = Identity::generate(long_ago).unwrap().to_pems().unwrap();
        assert!(matches!(Identity::from_pems(&old, now), Err(IdentityError::CaCertificate(_))));
    }

    #[test]
    fn nothing_secret_is_in_debug_output() {
        let identity = Identity::generate(Timestamp::now()).unwrap();
        let certificate = identity.issue_serving_certificate("uid", &[]).unwrap();
        let text = format!("{identity:?} {certificate:?}");
        assert!(!text.contains("PRIVATE"), "{text}");
        for secret in identity.to_pems().unwrap().ca_key.expose_secret().lines().skip(1) {
            assert!(!text.contains(secret), "{text}");
        }
    }

    #[test]
    fn control_bearers_are_for_one_environment_and_thirty_seconds() {
        let identity = Identity::generate(Timestamp::now()).unwrap();
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let bearer = identity.control_bearer("u-1", now).unwrap();
        let parts: Vec<_> = bearer.expose_secret().split('.').collect();
        let claims: Claims = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(parts[1]).unwrap()).unwrap();
        assert_eq!(claims.aud, "cuddy-control:u-1");
        assert_eq!((claims.iat, claims.exp), (1_800_000_000, 1_800_000_030));
        assert_eq!(claims.iss, identity.control_keys().issuer);
        let key = keys::public_from_pem(&identity.control_keys().public_keys[0]).unwrap();
        let signature: [u8; 64] = URL_SAFE_NO_PAD.decode(parts[2]).unwrap().try_into().unwrap();
        let signed = format!("{}.{}", parts[0], parts[1]);
        key.verify_strict(signed.as_bytes(), &signature.into()).unwrap();
    }
}
