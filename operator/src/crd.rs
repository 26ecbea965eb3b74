//! The CRDs as one YAML stream.

/// Returns every CRD, separated by `---`.
pub fn yaml() -> Result<String, impl std::error::Error> {
    cuddy_crds::schema::yaml_files()
        .map(|files| files.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join("---\n"))
}
