//! `EnvironmentClass`: what an administrator decides for many environments.

use cuddy_protocol::Capability;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::v1alpha1::environment::{Idle, Resources};

/// What environments of the class get when they do not say otherwise, and how far they may go.
#[expect(clippy::duplicated_attributes, reason = "columns of one type, not one attribute twice")]
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cuddy.dev",
    version = "v1alpha1",
    kind = "EnvironmentClass",
    plural = "environmentclasses",
    singular = "environmentclass",
    shortname = "envclass",
    category = "cuddy",
    derive = "PartialEq",
    doc = "What many environments have in common. The class with the annotation cuddy.dev/is-default-class: \"true\" serves environments that name none.",
    printcolumn(
        name = "Default",
        type_ = "string",
        description = "Whether it serves environments that name no class",
        json_path = r".metadata.annotations.cuddy\.dev/is-default-class"
    ),
    printcolumn(name = "Image", type_ = "string", json_path = ".spec.image"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentClassSpec {
    /// The image of environments that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512), regex(pattern = r"^[A-Za-z0-9][!-~]*$"))]
    pub image: Option<String>,
    /// When images are pulled. Default: Always, and IfNotPresent for an image that is named by its digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::choice::<ImagePullPolicy>")]
    pub image_pull_policy: Option<ImagePullPolicy>,
    /// When environments are stopped because nobody works in them. maxBusySeconds is also the highest value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<Idle>,
    /// What containers ask for and may use. The limits are also the highest ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Who may call every environment of the class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<ClassAuth>,
}

/// When an image is pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ImagePullPolicy {
    /// At each start.
    Always,
    /// When the node does not have it.
    IfNotPresent,
}

impl ImagePullPolicy {
    /// Returns the policy as the API spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::IfNotPresent => "IfNotPresent",
        }
    }
}

/// Who may call every environment of a class.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassAuth {
    /// Keys that open every environment of the class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["name"],
    ))]
    pub keys: Vec<ClassKey>,
}

/// One trusted key of a class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!self.publicKey.contains('PRIVATE KEY')",
        "message": "publicKey holds a private key: put the public key there, and replace this one, since it has been shown",
    },
    {
        "rule": "self.publicKey.contains('PRIVATE KEY') || self.publicKey.matches('^\\\\s*-----BEGIN PUBLIC KEY-----\\\\s+MCowBQYDK2VwAyEA[A-Za-z0-9+/]{43}=\\\\s+-----END PUBLIC KEY-----\\\\s*$')",
        "message": "publicKey must be an Ed25519 public key in PEM, as `cuddy key show` prints it: RSA and EC keys, certificates and SSH keys are not accepted",
    },
]))]
pub struct ClassKey {
    /// What people call the key; each name occurs once.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub name: String,
    /// An Ed25519 public key in PEM (SubjectPublicKeyInfo), as `cuddy key show` prints it.
    #[schemars(length(min = 1, max = 2048))]
    pub public_key: String,
    /// The issuer (iss) that this key signs for. Default: file:///etc/erun/mcp-auth/desktopid.pub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512), regex(pattern = r"^[!-~]+$"))]
    pub issuer: Option<String>,
    /// The most that a token signed with this key may do, whatever it claims. Default: operate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::choice::<Capability>")]
    pub max_capability: Option<Capability>,
    /// When the key stops being trusted. Default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub not_after: Option<Time>,
}
