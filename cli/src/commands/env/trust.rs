//! Whether an Environment lets its maker in, and putting the maker's key in where it does not (D8).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cuddy_crds::{EnvironmentClass, labels};
use cuddy_edge::keys;
use ed25519_dalek::VerifyingKey;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use crate::error::CliError;

/// What the class of an Environment says about keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ClassKeys {
    /// It trusts this very key.
    Mine,
    /// It trusts others.
    Others,
    /// It trusts nobody.
    None,
    /// It cannot be read, or is not there.
    Unknown,
}

/// Returns the name under which a key is entered: the same for the same key, another for another.
pub(crate) fn key_name(key: &VerifyingKey) -> String {
    let bytes = URL_SAFE_NO_PAD.decode(keys::thumbprint(key)).unwrap_or_default();
    let number = bytes.iter().take(4).fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte));
    format!("desktop-{number:08x}")
}

/// Reads the keys of a class: the one named, or the default one.
pub(super) async fn class_keys(client: &Client, class: Option<&str>, key: &VerifyingKey) -> ClassKeys {
    let api: Api<EnvironmentClass> = Api::all(client.clone());
    let found = match class {
        Some(name) => api.get_opt(name).await.ok().flatten(),
        None => api.list(&ListParams::default()).await.ok().and_then(|list| default_class(list.items)),
    };
    found.map_or(ClassKeys::Unknown, |class| of(&class, key))
}

/// Returns the class that serves Environments which name none: of several the newest.
fn default_class(classes: Vec<EnvironmentClass>) -> Option<EnvironmentClass> {
    classes
        .into_iter()
        .filter(|c| c.annotations().get(labels::IS_DEFAULT_CLASS).is_some_and(|v| v == "true"))
        .max_by_key(|c| c.creation_timestamp().map(|t| t.0))
}

fn of(class: &EnvironmentClass, key: &VerifyingKey) -> ClassKeys {
    let trusted = class.spec.auth.iter().flat_map(|auth| &auth.keys);
    let mut parsed = trusted.map(|k| keys::public_from_pem(&k.public_key)).peekable();
    if parsed.peek().is_none() {
        ClassKeys::None
    } else if parsed.any(|k| k.as_ref() == Ok(key)) {
        ClassKeys::Mine
    } else {
        ClassKeys::Others
    }
}

/// Returns the public key as it is entered.
pub(super) fn pem(key: &VerifyingKey) -> Result<String, CliError> {
    keys::public_to_pem(key).map_err(|e| CliError::failed("the public key cannot be written").because(e))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn class(name: &str, created: &str, default: bool, keys: &Value) -> EnvironmentClass {
        let annotations = if default { json!({ labels::IS_DEFAULT_CLASS: "true" }) } else { json!({}) };
        serde_json::from_value(json!({
            "apiVersion": "cuddy.dev/v1alpha1", "kind": "EnvironmentClass",
            "metadata": { "name": name, "creationTimestamp": created, "annotations": annotations },
            "spec": { "auth": { "keys": keys } },
        }))
        .unwrap()
    }

    #[test]
    fn the_newest_default_class_serves() {
        let classes = vec![
            class("old", "2026-01-01T00:00:00Z", true, &json!([])),
            class("new", "2026-02-01T00:00:00Z", true, &json!([])),
            class("other", "2026-03-01T00:00:00Z", false, &json!([])),
        ];
        assert_eq!(default_class(classes).unwrap().name_any(), "new");
    }

    #[test]
    fn a_class_knows_whom_it_trusts() {
        let key = keys::generate().unwrap().verifying_key();
        let other = keys::generate().unwrap().verifying_key();
        let entry = |key: &VerifyingKey| json!({ "name": key_name(key), "publicKey": pem(key).unwrap() });
        let with = |keys: Value| of(&class("c", "2026-01-01T00:00:00Z", true, &keys), &key);
        assert_eq!(with(json!([])), ClassKeys::None);
        assert_eq!(with(json!([entry(&other)])), ClassKeys::Others);
        assert_eq!(with(json!([entry(&other), entry(&key)])), ClassKeys::Mine);
        assert_ne!(key_name(&key), key_name(&other));
    }
}
