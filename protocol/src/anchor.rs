//! The trust anchor: who may sign bearers for an environment (D36).

use serde::{Deserialize, Serialize};

use crate::capability::Capability;
use crate::ids::{EnvironmentName, TenantName};

/// The version of [`AnchorDocument`] that this build reads and writes.
pub const ANCHOR_VERSION: u32 = 1;
/// The most keys an anchor holds.
pub const MAX_KEYS: usize = 32;
/// Where the anchor Secret is mounted in the sidecar.
pub const ANCHOR_DIR: &str = "/etc/erun/mcp-auth";
/// The document's file name in the Secret.
pub const ANCHOR_FILE: &str = "anchor.json";
/// The serving certificate's file name in the Secret (PEM).
pub const TLS_CERT_FILE: &str = "tls.crt";
/// The serving key's file name in the Secret (PEM, PKCS#8).
pub const TLS_KEY_FILE: &str = "tls.key";
/// The operator's CA certificate in the Secret (PEM).
pub const CA_FILE: &str = "ca.crt";
/// The first key in the place where the seed's clients look for it (PEM, SPKI).
pub const FIRST_KEY_FILE: &str = "desktopid.pub";

/// One key that is trusted to sign bearers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TrustedKey {
    /// The key's thumbprint (RFC 7638, base64url without padding).
    pub kid: String,
    /// The `iss` that this key signs for.
    pub issuer: String,
    /// The key: PEM, SubjectPublicKeyInfo, Ed25519.
    pub public_key: String,
    /// The most that a bearer of this key may do.
    pub max_capability: Capability,
    /// When the key ends, RFC 3339; absent means never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after: Option<String>,
}

/// The keys of the operator itself, which sign control bearers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ControlKeys {
    /// The `iss` of control bearers.
    pub issuer: String,
    /// PEM, SubjectPublicKeyInfo, Ed25519.
    pub public_keys: Vec<String>,
}

/// The content of `anchor.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AnchorDocument {
    /// Always [`ANCHOR_VERSION`]; another one is refused and the sidecar stays closed.
    pub version: u32,
    /// Rises with each change of `keys`; a set older than the highest one seen is refused.
    pub generation: u64,
    /// The UID of the Environment.
    pub environment_uid: String,
    /// The tenant.
    pub tenant: TenantName,
    /// The environment.
    pub environment: EnvironmentName,
    /// The audience that bearers must name, letter by letter.
    pub audience: String,
    /// The keys; may be empty, and then nobody gets in.
    pub keys: Vec<TrustedKey>,
    /// The operator's keys.
    pub control: ControlKeys,
}
