//! The trust anchor of a local environment: the user's own key, and a certificate authority made for the run.

use std::path::Path;

use cuddy_edge::keys::{self, KeyError};
use cuddy_protocol::anchor::{
    ANCHOR_FILE, ANCHOR_VERSION, AnchorDocument, CA_FILE, ControlKeys, FIRST_KEY_FILE, TLS_CERT_FILE,
    TLS_KEY_FILE, TrustedKey,
};
use cuddy_protocol::claims::DEFAULT_ISSUER;
use cuddy_protocol::{Capability, Scope, places};
use ed25519_dalek::VerifyingKey;
use jiff::Timestamp;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

use crate::error::CliError;
use crate::files::{self, FileError};

/// Why there is no anchor.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AnchorError {
    /// A certificate cannot be made.
    #[error("make the certificate of the local environment")]
    Certificate(#[from] rcgen::Error),
    /// A key cannot be made or written.
    #[error("write the keys of the local environment")]
    Key(#[from] KeyError),
    /// The document cannot be written.
    #[error("write the anchor of the local environment")]
    Document(#[from] serde_json::Error),
    /// A file cannot be written.
    #[error(transparent)]
    File(#[from] FileError),
}

impl From<AnchorError> for CliError {
    fn from(error: AnchorError) -> Self {
        Self::failed("cannot prepare the local environment").because(error)
    }
}

/// Writes the anchor: `key` is trusted, up to admin, and nobody else is.
pub(crate) fn write(folder: &Path, scope: &Scope, uid: &str, key: &VerifyingKey) -> Result<(), AnchorError> {
    let public_key = keys::public_to_pem(key)?;
    let document = document(scope, uid, key, public_key.clone())?;
    let (ca, certificate, private) = certificate(uid)?;
    files::replace(&folder.join(CA_FILE), ca.as_bytes())?;
    files::replace(&folder.join(TLS_CERT_FILE), certificate.as_bytes())?;
    files::replace(&folder.join(TLS_KEY_FILE), private.as_bytes())?;
    files::replace(&folder.join(FIRST_KEY_FILE), public_key.as_bytes())?;
    files::replace(&folder.join(ANCHOR_FILE), &serde_json::to_vec_pretty(&document)?)?;
    Ok(())
}

fn document(
    scope: &Scope,
    uid: &str,
    key: &VerifyingKey,
    pem: String,
) -> Result<AnchorDocument, AnchorError> {
    // Nobody controls a local environment from outside: the control key's private half is forgotten at once.
    let control = keys::public_to_pem(&keys::generate()?.verifying_key())?;
    Ok(AnchorDocument {
        version: ANCHOR_VERSION,
        // Rises from run to run, as the sidecar asks for; the state outlives the run.
        generation: u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(1),
        environment_uid: uid.to_owned(),
        tenant: scope.tenant.clone(),
        environment: scope.environment.clone(),
        audience: scope.audience(),
        keys: vec![TrustedKey {
            kid: keys::thumbprint(key),
            issuer: DEFAULT_ISSUER.to_owned(),
            public_key: pem,
            max_capability: Capability::Admin,
            not_after: None,
        }],
        control: ControlKeys { issuer: "cuddy-local".to_owned(), public_keys: vec![control] },
    })
}

/// Returns CA, certificate and private key, PEM. The CA's own key is forgotten: nothing else is ever signed with it.
fn certificate(uid: &str) -> Result<(String, String, String), rcgen::Error> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    authority.distinguished_name.push(DnType::CommonName, "cuddy local");
    let authority_key = KeyPair::generate()?;
    let ca = authority.self_signed(&authority_key)?;
    let issuer = Issuer::from_params(&authority, &authority_key);
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new(vec![places::server_name(uid)])?.signed_by(&key, &issuer)?;
    Ok((ca.pem(), certificate.pem(), key.serialize_pem()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_anchor_is_what_the_sidecar_reads() {
        let dir = tempfile::tempdir().unwrap();
        let scope = Scope { tenant: "local".parse().unwrap(), environment: "dev".parse().unwrap() };
        let key = keys::generate().unwrap().verifying_key();
        write(dir.path(), &scope, "u-1", &key).unwrap();
        let text = std::fs::read_to_string(dir.path().join(ANCHOR_FILE)).unwrap();
        let read: AnchorDocument = serde_json::from_str(&text).unwrap();
        assert_eq!(read.audience, "erun-mcp:local/dev");
        assert_eq!(read.keys[0].kid, keys::thumbprint(&key));
        let pem = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
        cuddy_edge::client::tls_config(&pem(CA_FILE)).unwrap();
        cuddy_edge::server::server_config(&pem(TLS_CERT_FILE), &pem(TLS_KEY_FILE)).unwrap();
    }
}
