//! Version `v1alpha1` of the API.

pub mod class;
pub mod environment;
pub mod keys;
pub mod network;
pub mod status;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};
use kube::CustomResourceExt;
use serde_json::{Value, json};

use crate::schema;

pub use class::{ClassAuth, ClassKey, EnvironmentClass, EnvironmentClassSpec, ImagePullPolicy};
pub use environment::{
    Auth, AuthMode, ClassRef, EnvVar, Environment, EnvironmentSpec, Idle, IdleAction, Mode, PullSecret,
    Resources, Security, Workspace,
};
pub use keys::{ConfigMapKeyRef, KeySource};
pub use network::{Egress, Network, Peer, Verify};
pub use status::{
    ActivityState, ActivityStatus, EndpointStatus, EnvironmentStatus, MAX_HISTORY, StopReason, StopRecord,
    StopStatus,
};

/// The CRD of [`Environment`], as it is installed.
pub fn environment_crd() -> CustomResourceDefinition {
    let mut crd = Environment::crd();
    edit_schema(&mut crd, |root| {
        leave_out_spec(root);
        root["x-kubernetes-validations"] = json!([
            {
                "rule": "self.metadata.name.size() <= 52",
                "message": "metadata.name must have at most 52 characters: the names of the pod, the volume and the Secret are made from it",
            },
            {
                "rule": "!self.metadata.name.contains('.')",
                "message": "metadata.name must not contain a dot: it becomes the host name of the pod",
            },
        ]);
    });
    crd
}

/// The CRD of [`EnvironmentClass`], as it is installed.
pub fn environment_class_crd() -> CustomResourceDefinition {
    let mut crd = EnvironmentClass::crd();
    edit_schema(&mut crd, leave_out_spec);
    crd
}

/// Reads an Environment that a person wrote: `spec` may be left out, as on the API server.
pub fn parse_environment(mut value: Value) -> Result<Environment, serde_json::Error> {
    if let Some(object) = value.as_object_mut() {
        let spec = object.entry("spec").or_insert(Value::Null);
        if spec.is_null() {
            *spec = json!({});
        }
    }
    serde_json::from_value(value)
}

/// `spec` may be left out altogether; the API server then puts an empty one.
fn leave_out_spec(root: &mut Value) {
    root["properties"]["spec"]["default"] = json!({});
    if let Some(required) = root.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| name != "spec");
        if required.is_empty()
            && let Some(root) = root.as_object_mut()
        {
            root.remove("required");
        }
    }
}

fn edit_schema(crd: &mut CustomResourceDefinition, edit: impl Fn(&mut Value)) {
    for version in &mut crd.spec.versions {
        let Some(slot) = version.schema.as_mut().and_then(|s| s.open_api_v3_schema.as_mut()) else {
            continue;
        };
        let Ok(mut root) = serde_json::to_value(&*slot) else { continue };
        schema::tidy(&mut root);
        edit(&mut root);
        // Both directions are of the same type; a failure here would show in the test of the committed YAML.
        if let Ok(edited) = serde_json::from_value::<JSONSchemaProps>(root) {
            *slot = edited;
        }
    }
}
