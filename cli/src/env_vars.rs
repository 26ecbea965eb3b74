//! The environment variables that the program reads, each with its flag where it has one.

/// The folder used in place of `<UserConfigDir>/erun`.
pub const CONFIG_DIR: &str = "CUDDY_CONFIG_DIR";
/// `--key`: the private key to sign with.
pub const KEY: &str = "CUDDY_KEY";
/// `--tenant`.
pub const TENANT: &str = "CUDDY_TENANT";
/// `--environment`.
pub const ENVIRONMENT: &str = "CUDDY_ENVIRONMENT";
/// `--issuer`.
pub const ISSUER: &str = "CUDDY_ISSUER";
/// `--context`.
pub const CONTEXT: &str = "CUDDY_CONTEXT";
/// `--namespace`.
pub const NAMESPACE: &str = "CUDDY_NAMESPACE";
/// The sidecar's program, for `cuddy local up`.
pub const SIDECAR_BIN: &str = "CUDDY_SIDECAR_BIN";
/// The host's program, for `cuddy local up`.
pub const HOST_BIN: &str = "CUDDY_HOST_BIN";
/// Filter of the diagnostics on stderr (`cuddy=debug`).
pub const LOG: &str = "CUDDY_LOG";
/// Set, to whatever value: no colour (<https://no-color.org>).
pub const NO_COLOR: &str = "NO_COLOR";
/// Set in the process that goes on in the background.
pub const DETACHED: &str = "CUDDY_DETACHED";
