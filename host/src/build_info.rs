//! Which build this is.

/// Returns the version and the commit, by the same rule in host and sidecar: they come from one image and must agree.
pub fn build() -> String {
    format!("{}+{}", env!("CARGO_PKG_VERSION"), option_env!("CUDDY_COMMIT").unwrap_or("dev"))
}
