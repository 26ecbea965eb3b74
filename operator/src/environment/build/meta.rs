//! What all children have in common: name, labels and whom they belong to.

use cuddy_crds::{Environment, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;

use super::Owner;

/// Returns the metadata of a child. The garbage collector removes it with its Environment.
pub fn child(owner: &Owner, name: String) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: Some(owner.namespace.clone()),
        labels: Some(labels::child_labels(&owner.name, &owner.uid)),
        owner_references: Some(vec![reference(owner)]),
        ..ObjectMeta::default()
    }
}

/// `blockOwnerDeletion` is left out: it would need the right to update finalizers, and nothing waits for it.
fn reference(owner: &Owner) -> OwnerReference {
    OwnerReference {
        api_version: Environment::api_version(&()).into_owned(),
        kind: Environment::kind(&()).into_owned(),
        name: owner.name.clone(),
        uid: owner.uid.clone(),
        controller: Some(true),
        block_owner_deletion: None,
    }
}

/// Says whether an object belongs to an Environment: by its owner's UID, and by nothing that a label could claim.
pub fn is_child(meta: &ObjectMeta, environment_uid: &str) -> bool {
    meta.owner_references
        .iter()
        .flatten()
        .any(|reference| reference.controller == Some(true) && reference.uid == environment_uid)
}
