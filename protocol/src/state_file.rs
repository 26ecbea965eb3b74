//! The file in which `cuddy open` tells clients where an environment is reached (seed, "Endpoint discovery"; D42).

use serde::{Deserialize, Serialize};

/// The content of `<UserConfigDir>/erun/portforward/mcp/<tenant>/<environment>.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StateFile {
    /// The tenant.
    pub tenant: String,
    /// The environment.
    pub environment: String,
    /// The kubeconfig's context.
    pub kubernetes_context: String,
    /// The namespace.
    pub namespace: String,
    /// The port on 127.0.0.1.
    pub local_port: u16,
    /// `http`: the local end is plain.
    #[serde(default = "http")]
    pub scheme: String,
    /// Where the forward logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_path: Option<String>,
    /// The forward's process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_id: Option<u32>,
}

fn http() -> String {
    "http".to_owned()
}
