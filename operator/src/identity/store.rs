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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mock_api::MockApi;
    use http::Method;

    fn load(client: kube::Client) -> tokio::task::JoinHandle<Result<Identity, StoreError>> {
        tokio::spawn(async move { load_or_create(&client, "cuddy-system", Timestamp::now()).await })
    }

    #[tokio::test]
    async fn a_missing_identity_is_made_once() {
        let (client, mut api) = MockApi::new();
        let loading = load(client);
        let call = api.next().await;
        assert_eq!(
            (call.method.as_str(), call.path.as_str()),
            ("GET", "/api/v1/namespaces/cuddy-system/secrets/cuddy-operator-identity")
        );
        call.refuse(404, "NotFound");
        let call = api.next().await;
        assert_eq!(
            (call.method.as_str(), call.path.as_str()),
            ("POST", "/api/v1/namespaces/cuddy-system/secrets")
        );
        let stored: Secret = serde_json::from_value(call.echo()).unwrap();
        let made = loading.await.unwrap().unwrap();
        assert_eq!(stored.immutable, Some(true));
        let again = read(&stored, Timestamp::now()).unwrap();
        assert_eq!((again.ca_pem(), again.control_keys()), (made.ca_pem(), made.control_keys()));
    }

    #[tokio::test]
    async fn who_loses_the_race_reads_the_winners() {
        let winner = Identity::generate(Timestamp::now()).unwrap();
        let (client, mut api) = MockApi::new();
        let loading = load(client);
        api.next().await.refuse(404, "NotFound");
        api.next().await.refuse(409, "AlreadyExists");
        api.next().await.answer(&write(&winner).unwrap());
        assert_eq!(loading.await.unwrap().unwrap().ca_pem(), winner.ca_pem());
    }

    #[tokio::test]
    async fn a_damaged_identity_is_refused_and_never_replaced() {
        let good = write(&Identity::generate(Timestamp::now()).unwrap()).unwrap();
        for name in [CA_CERTIFICATE, CA_KEY, CONTROL_KEY] {
            let mut lacking = good.clone();
            lacking.data.as_mut().unwrap().remove(name);
            let mut binary = good.clone();
            binary.data.as_mut().unwrap().insert(name.to_owned(), ByteString(vec![0xff, 0xfe]));
            for damaged in [lacking, binary, Secret { data: None, ..good.clone() }] {
                let (client, mut api) = MockApi::new();
                let loading = load(client);
                let call = api.next().await;
                assert_eq!(call.method, Method::GET);
                call.answer(&damaged);
                // A further request would wait for its answer for ever.
                let error = loading.await.unwrap().unwrap_err();
                assert!(matches!(error, StoreError::Entry(_) | StoreError::Damaged(_)), "{error:?}");
                assert!(error.to_string().contains(SECRET_NAME));
            }
        }
    }

    #[tokio::test]
    async fn a_refusal_of_the_api_server_is_told() {
        let (client, mut api) = MockApi::new();
        let loading = load(client);
        api.next().await.refuse(403, "Forbidden");
        assert!(matches!(loading.await.unwrap(), Err(StoreError::Api { action: "read", .. })));
    }
}
