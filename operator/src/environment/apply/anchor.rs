//! The anchor Secret: what is in it, and what should be.

use std::collections::BTreeMap;

use cuddy_crds::labels;
use cuddy_protocol::anchor::{
    ANCHOR_FILE, ANCHOR_VERSION, AnchorDocument, CA_FILE, ControlKeys, TLS_CERT_FILE, TLS_KEY_FILE,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use secrecy::SecretString;

use crate::environment::build::Input;
use crate::environment::build::secret::{self, Serving};
use crate::environment::build::service;
use crate::environment::error::ReconcileError;
use crate::environment::keys::{Before, KeySet};
use crate::identity::Identity;

/// How long before its end a serving certificate is issued anew.
const RENEW_BEFORE: SignedDuration = SignedDuration::from_hours(24 * 30);

/// What a Secret holds, as far as it can be read.
#[derive(Default)]
pub struct Live {
    /// The document.
    pub document: Option<AnchorDocument>,
    /// Where its keys came from.
    sources: BTreeMap<String, Vec<String>>,
    /// The certificate.
    serving: Option<Serving>,
    /// When the certificate ends.
    not_after: Option<Timestamp>,
}

/// Reads a Secret. What makes no sense in it is as good as missing, and is written anew.
pub fn read(secret: Option<&Secret>) -> Live {
    let Some(secret) = secret else { return Live::default() };
    let annotation = |name: &str| secret.metadata.annotations.as_ref().and_then(|all| all.get(name));
    let text = |name: &str| {
        let bytes = secret.data.as_ref()?.get(name)?;
        String::from_utf8(bytes.0.clone()).ok().filter(|text| !text.is_empty())
    };
    let serving = || {
        Some(Serving {
            certificate: text(TLS_CERT_FILE)?,
            key: SecretString::from(text(TLS_KEY_FILE)?),
            names: annotation(labels::CERTIFICATE_NAMES)?.clone(),
            not_after: annotation(labels::CERTIFICATE_NOT_AFTER)?.clone(),
            ca: text(CA_FILE)?,
        })
    };
    Live {
        document: text(ANCHOR_FILE).and_then(|text| serde_json::from_str(&text).ok()),
        sources: annotation(labels::KEY_SOURCES)
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default(),
        serving: serving(),
        not_after: annotation(labels::CERTIFICATE_NOT_AFTER).and_then(|text| text.parse().ok()),
    }
}

impl Live {
    /// Returns what was trusted before.
    pub fn before(&self) -> Before {
        let keys = self.document.as_ref().map(|document| document.keys.clone()).unwrap_or_default();
        Before { keys, sources: self.sources.clone() }
    }

    /// Returns the certificate if it is still good: of this CA, with these names, and for a while.
    fn into_good_serving(self, ca: &str, names: &str, now: Timestamp) -> Option<Serving> {
        let lasts = self.not_after.is_some_and(|end| end - RENEW_BEFORE > now);
        self.serving.filter(|serving| lasts && serving.ca == ca && serving.names == names)
    }
}

/// Returns the Secret as it should be, and the generation of its keys.
pub fn desired(
    input: Input<'_>,
    audience: &cuddy_protocol::Scope,
    keys: &KeySet,
    identity: &Identity,
    live: Live,
    now: Timestamp,
) -> Result<(Secret, u64), ReconcileError> {
    let document = document(input, audience, keys, identity.control_keys(), live.document.as_ref(), now);
    let names = if input.has_service() { service::host_names(input.owner) } else { Vec::new() };
    let joined = names.join(",");
    let serving = match live.into_good_serving(identity.ca_pem(), &joined, now) {
        Some(serving) => serving,
        None => issue(identity, &input.owner.uid, &names)?,
    };
    let secret =
        secret::build(input.owner, &document, &keys.sources, &serving).map_err(ReconcileError::Serialize)?;
    Ok((secret, document.generation))
}

fn issue(identity: &Identity, uid: &str, names: &[String]) -> Result<Serving, ReconcileError> {
    let issued = identity.issue_serving_certificate(uid, names).map_err(ReconcileError::IssueCertificate)?;
    Ok(Serving {
        certificate: issued.cert_pem,
        key: issued.key_pem,
        names: names.join(","),
        not_after: issued.not_after.to_string(),
        ca: identity.ca_pem().to_owned(),
    })
}

/// The generation rises with each change of anything that the sidecar trusts. It is the time of the change: a Secret that
/// was lost must not start again below what the sidecar has seen.
fn document(
    input: Input<'_>,
    scope: &cuddy_protocol::Scope,
    keys: &KeySet,
    control: ControlKeys,
    live: Option<&AnchorDocument>,
    now: Timestamp,
) -> AnchorDocument {
    let mut document = AnchorDocument {
        version: ANCHOR_VERSION,
        generation: live.map(|live| live.generation).unwrap_or_default(),
        environment_uid: input.owner.uid.clone(),
        tenant: scope.tenant.clone(),
        environment: scope.environment.clone(),
        audience: scope.audience(),
        keys: keys.keys.clone(),
        control,
    };
    if live != Some(&document) {
        let milliseconds = u64::try_from(now.as_millisecond()).unwrap_or_default();
        document.generation = milliseconds.max(document.generation.saturating_add(1));
    }
    document
}

/// Says whether a Secret is not what it should be. Entries of others in it are theirs.
pub fn differs(desired: &Secret, live: &Secret) -> bool {
    let empty = BTreeMap::new();
    let data = live.data.as_ref().unwrap_or(&empty);
    super::differs::metadata(&desired.metadata, &live.metadata)
        || desired.data.iter().flatten().any(|(name, value)| data.get(name) != Some(value))
}
