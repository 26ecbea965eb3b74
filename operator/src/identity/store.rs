//! Where the identity is kept: one Secret in the operator's namespace.
//!
//! It is made when it is missing and never replaced: a damaged one is refused, because a new CA would cut off every
//! running pod. The chart does not template it, since templates change at each render.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::PostParams;
use secrecy::{ExposeSecret, SecretString};

use super::{Identity, IdentityError, IdentityPems};
use crate::config::FIELD_MANAGER;

/// The Secret's name.
pub const SECRET_NAME: &str = "cuddy-operator-identity";

const CA_CERTIFICATE: &str = "ca.crt";
const CA_KEY: &str = "ca.key";
const CONTROL_KEY: &str = "control.key";

/// How long before the CA's end the log starts to say so: the life of a serving certificate.
const WARN_BEFORE_END: SignedDuration = SignedDuration::from_hours(24 * 365);

/// Why there is no identity.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The API server refused or could not be reached.
    #[error("failed to {action} the Secret {SECRET_NAME}")]
    Api {
        /// What was tried.
        action: &'static str,
        /// The answer.
        #[source]
        source: kube::Error,
    },
    /// A new identity could not be made.
    #[error("failed to make an identity")]
    Make(#[source] IdentityError),
    /// The Secret lacks an entry.
    #[error(
        "the Secret {SECRET_NAME} has no entry {0}; restore it from a backup, or delete the Secret to have a new identity \
         made, after which every running environment has to be restarted"
    )]
    Entry(&'static str),
    /// The Secret's content is unusable.
    #[error(
        "the Secret {SECRET_NAME} is damaged; restore it from a backup, or delete it to have a new identity made, after \
         which every running environment has to be restarted"
    )]
    Damaged(#[source] IdentityError),
    /// The Secret was made and deleted by others while this process looked.
    #[error("the Secret {SECRET_NAME} comes and goes")]
    Vanished,
}

/// Returns the identity of the operator in this namespace, which is made if there is none. Of several processes that make
/// one at the same time, one wins and the others read its work.
pub async fn load_or_create(
    client: &kube::Client,
    namespace: &str,
    now: Timestamp,
) -> Result<Identity, StoreError> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    if let Some(secret) = get(&secrets).await? {
        return read(&secret, now);
    }
    let identity = Identity::generate(now).map_err(StoreError::Make)?;
    let secret = write(&identity).map_err(StoreError::Make)?;
    let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    match secrets.create(&params, &secret).await {
        Ok(_) => {
            tracing::info!(secret = SECRET_NAME, "made a new identity");
            Ok(identity)
        }
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            let secret = get(&secrets).await?.ok_or(StoreError::Vanished)?;
            read(&secret, now)
        }
        Err(source) => Err(StoreError::Api { action: "create", source }),
    }
}

async fn get(secrets: &Api<Secret>) -> Result<Option<Secret>, StoreError> {
    secrets.get_opt(SECRET_NAME).await.map_err(|source| StoreError::Api { action: "read", source })
}

fn read(secret: &Secret, now: Timestamp) -> Result<Identity, StoreError> {
    let entry = |name: &'static str| {
        let bytes = secret.data.as_ref().and_then(|data| data.get(name)).ok_or(StoreError::Entry(name))?;
        // Entries that are no text become a text that is no PEM.
        Ok(String::from_utf8_lossy(&bytes.0).into_owned())
    };
    let pems = IdentityPems {
        ca_certificate: entry(CA_CERTIFICATE)?,
        ca_key: SecretString::from(entry(CA_KEY)?),
        control_key: SecretString::from(entry(CONTROL_KEY)?),
    };
    let identity = Identity::from_pems(&pems, now).map_err(StoreError::Damaged)?;
    if identity.check(now + WARN_BEFORE_END).is_err() {
        tracing::warn!(secret = SECRET_NAME, "the CA ends within a year: plan for a new identity");
    }
    Ok(identity)
}

fn write(identity: &Identity) -> Result<Secret, IdentityError> {
    let pems = identity.to_pems()?;
    let entry = |text: &str| ByteString(text.as_bytes().to_vec());
    Ok(Secret {
        metadata: ObjectMeta {
            name: Some(SECRET_NAME.to_owned()),
            labels: Some(BTreeMap::from([
                ("app.kubernetes.io/managed-by".to_owned(), "cuddy".to_owned()),
                ("app.kubernetes.io/name".to_owned(), "cuddy-operator".to_owned()),
            ])),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([
            (CA_CERTIFICATE.to_owned(), entry(&pems.ca_certificate)),
            (CA_KEY.to_owned(), entry(pems.ca_key.expose_secret())),
            (CONTROL_KEY.to_owned(), entry(pems.control_key.expose_secret())),
        ])),
        // Nobody has a reason to edit it: a new identity is made by deleting the old one.
        immutable: Some(true),
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    })
}
