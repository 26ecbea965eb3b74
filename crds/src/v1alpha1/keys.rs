//! Keys that are trusted to sign bearers.

use cuddy_protocol::Capability;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// One trusted key: given here, or by a ConfigMap of the same namespace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "has(self.publicKey) != has(self.configMapRef)",
        "message": "a key has exactly one of publicKey and configMapRef",
    },
    {
        "rule": "!has(self.publicKey) || !self.publicKey.contains('PRIVATE KEY')",
        "message": "publicKey holds a private key: put the public key there, and replace this one, since it has been shown",
    },
    {
        "rule": "!has(self.publicKey) || self.publicKey.contains('PRIVATE KEY') || self.publicKey.matches('^\\\\s*-----BEGIN PUBLIC KEY-----\\\\s+MCowBQYDK2VwAyEA[A-Za-z0-9+/]{43}=\\\\s+-----END PUBLIC KEY-----\\\\s*$')",
        "message": "publicKey must be an Ed25519 public key in PEM, as `cuddy key show` prints it: RSA and EC keys, certificates and SSH keys are not accepted",
    },
]))]
pub struct KeySource {
    /// What people call the key; each name occurs once.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub name: String,
    /// An Ed25519 public key in PEM (SubjectPublicKeyInfo), as `cuddy key show` prints it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub public_key: Option<String>,
    /// An entry of a ConfigMap that holds such a key. The ConfigMap must carry the label cuddy.dev/keys (any value): its owner
    /// says with it that it is meant to be trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<ConfigMapKeyRef>,
    /// The issuer (iss) that this key signs for. Default: auth.issuer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512), regex(pattern = r"^[!-~]+$"))]
    pub issuer: Option<String>,
    /// The most that a token signed with this key may do, whatever it claims. Default: admin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::choice::<Capability>")]
    pub max_capability: Option<Capability>,
    /// When the key stops being trusted. Default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub not_after: Option<Time>,
}

/// Names an entry of a ConfigMap of the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigMapKeyRef {
    /// The name of the ConfigMap.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub name: String,
    /// The name of the entry in it.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[-._a-zA-Z0-9]+$"))]
    pub key: String,
}
