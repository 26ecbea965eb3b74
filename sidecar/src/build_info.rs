//! Which build this is.

/// The version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit it was built from, where the build was told.
pub const COMMIT: Option<&str> = option_env!("CUDDY_COMMIT");
/// When that commit was made, RFC 3339, where the build was told.
pub const DATE: Option<&str> = option_env!("CUDDY_DATE");

/// Returns the version and the commit, by the same rule in host and sidecar: they come from one image and must agree.
pub fn build() -> String {
    format!("{VERSION}+{}", COMMIT.unwrap_or("dev"))
}
