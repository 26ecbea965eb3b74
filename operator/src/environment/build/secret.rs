//! The anchor Secret: who may call, and the certificate that the sidecar serves with (D36).

use std::collections::BTreeMap;

use cuddy_crds::labels;
use cuddy_protocol::anchor::{
    ANCHOR_FILE, AnchorDocument, CA_FILE, FIRST_KEY_FILE, TLS_CERT_FILE, TLS_KEY_FILE,
};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use secrecy::{ExposeSecret, SecretString};

use super::{Owner, meta};

/// What the sidecar proves who it is with.
pub struct Serving {
    /// The certificate, PEM.
    pub certificate: String,
    /// Its private key, PEM.
    pub key: SecretString,
    /// The names in it besides the environment's own, separated by commas.
    pub names: String,
    /// When it ends, RFC 3339.
    pub not_after: String,
    /// The CA, PEM.
    pub ca: String,
}

/// Builds the Secret. `sources` says which key came from where, for the next time.
pub fn build(
    owner: &Owner,
    document: &AnchorDocument,
    sources: &BTreeMap<String, Vec<String>>,
    serving: &Serving,
) -> Result<Secret, serde_json::Error> {
    let mut metadata = meta::child(owner, labels::anchor_name(&owner.name));
    metadata.annotations = Some(BTreeMap::from([
        (labels::KEY_SOURCES.to_owned(), serde_json::to_string(sources)?),
        (labels::CERTIFICATE_NAMES.to_owned(), serving.names.clone()),
        (labels::CERTIFICATE_NOT_AFTER.to_owned(), serving.not_after.clone()),
    ]));
    let first_key = document.keys.first().map(|key| key.public_key.clone()).unwrap_or_default();
    let entry = |name: &str, text: &str| (name.to_owned(), ByteString(text.as_bytes().to_vec()));
    Ok(Secret {
        metadata,
        type_: Some("Opaque".to_owned()),
        data: Some(BTreeMap::from([
            entry(ANCHOR_FILE, &serde_json::to_string(document)?),
            entry(TLS_CERT_FILE, &serving.certificate),
            entry(TLS_KEY_FILE, serving.key.expose_secret()),
            entry(CA_FILE, &serving.ca),
            entry(FIRST_KEY_FILE, &first_key),
        ])),
        ..Secret::default()
    })
}
