//! The PersistentVolumeClaim of the workspace.

use std::collections::BTreeMap;

use cuddy_crds::labels;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::{Input, meta};

/// Builds the claim. One pod at a time mounts it.
pub fn build(input: Input<'_>) -> PersistentVolumeClaim {
    let size = Quantity(input.settings.workspace_size.clone());
    PersistentVolumeClaim {
        metadata: meta::child(input.owner, labels::workspace_name(&input.owner.name)),
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            storage_class_name: input.settings.storage_class_name.clone(),
            resources: Some(VolumeResourceRequirements {
                requests: Some(BTreeMap::from([("storage".to_owned(), size)])),
                limits: None,
            }),
            ..PersistentVolumeClaimSpec::default()
        }),
        status: None,
    }
}
