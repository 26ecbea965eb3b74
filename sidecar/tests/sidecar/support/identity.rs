//! Keys, bearers and certificates.

use cuddy_edge::{keys, token};
use cuddy_protocol::Capability;
use cuddy_protocol::anchor::{ANCHOR_VERSION, AnchorDocument, ControlKeys, TrustedKey};
use cuddy_protocol::claims::{Claims, DEFAULT_ISSUER, control_audience};
use cuddy_protocol::places::server_name;
use ed25519_dalek::SigningKey;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use secrecy::ExposeSecret;

pub(crate) const UID: &str = "7c1b0a3e-0000-4000-8000-000000000001";
pub(crate) const AUDIENCE: &str = "erun-mcp:t/e";
const OPERATOR: &str = "cuddy-operator";

/// A key that signs bearers.
#[derive(Clone)]
pub(crate) struct Signer(pub(crate) SigningKey);

impl Signer {
    pub(crate) fn new() -> Self {
        Self(keys::generate().unwrap())
    }

    pub(crate) fn trusted(&self) -> TrustedKey {
        TrustedKey {
            kid: keys::thumbprint(&self.0.verifying_key()),
            issuer: DEFAULT_ISSUER.to_owned(),
            public_key: keys::public_to_pem(&self.0.verifying_key()).unwrap(),
            max_capability: Capability::Admin,
            not_after: None,
        }
    }

    fn mint(&self, issuer: &str, audience: &str, lifetime: i64) -> String {
        let now = jiff::Timestamp::now().as_second();
        let claims = Claims {
            iss: issuer.to_owned(),
            sub: None,
            aud: audience.to_owned(),
            iat: now,
            exp: now + lifetime,
            nbf: None,
            scope: None,
            roles: None,
            cuddy_uid: None,
        };
        format!("Bearer {}", token::mint(&self.0, &claims).unwrap().expose_secret())
    }

    /// A bearer for the doors.
    pub(crate) fn bearer(&self) -> String {
        self.mint(DEFAULT_ISSUER, AUDIENCE, 300)
    }

    /// A bearer for the control listener.
    pub(crate) fn control_bearer(&self) -> String {
        self.mint(OPERATOR, &control_audience(UID), 30)
    }
}

/// Everything that an anchor's folder holds, and the keys to it.
pub(crate) struct Identity {
    pub(crate) user: Signer,
    pub(crate) operator: Signer,
    pub(crate) ca: String,
    pub(crate) certificate: String,
    pub(crate) certificate_key: String,
}

impl Identity {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new(vec![server_name(UID)]).unwrap().signed_by(&key, &ca).unwrap();
        Self {
            user: Signer::new(),
            operator: Signer::new(),
            ca: ca.pem(),
            certificate: leaf.pem(),
            certificate_key: key.serialize_pem(),
        }
    }

    pub(crate) fn document(&self, generation: u64) -> AnchorDocument {
        AnchorDocument {
            version: ANCHOR_VERSION,
            generation,
            environment_uid: UID.to_owned(),
            tenant: "t".parse().unwrap(),
            environment: "e".parse().unwrap(),
            audience: AUDIENCE.to_owned(),
            keys: vec![self.user.trusted()],
            control: ControlKeys {
                issuer: OPERATOR.to_owned(),
                public_keys: vec![keys::public_to_pem(&self.operator.0.verifying_key()).unwrap()],
            },
        }
    }
}
