//! Which class serves an Environment. Pure.

use std::path::Path;

use cuddy_crds::{EnvironmentClass, EnvironmentSpec, labels};
use kube::ResourceExt;
use serde::Deserialize;

/// A class that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The class.
    pub class: EnvironmentClass,
    /// What an administrator should know, if anything: two classes are marked as the default one.
    pub remark: Option<String>,
}

/// Why there is no class.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClassError {
    /// The one that is named does not exist.
    #[error("there is no EnvironmentClass {0}; `kubectl get environmentclasses` lists those there are")]
    Missing(String),
    /// None is named, and none is marked as the default.
    #[error(
        "spec.classRef names no class and none is marked as the default; `cuddy class init` makes one with your key in it"
    )]
    NoDefault,
}

/// Finds the class of an Environment.
pub fn find(spec: &EnvironmentSpec, classes: &[EnvironmentClass]) -> Result<Found, ClassError> {
    if let Some(reference) = &spec.class_ref {
        let class = classes.iter().find(|class| class.name_any() == reference.name);
        return class
            .map(|class| Found { class: class.clone(), remark: None })
            .ok_or_else(|| ClassError::Missing(reference.name.clone()));
    }
    let mut defaults: Vec<_> = classes.iter().filter(|class| is_default(class)).collect();
    // The newest first; of two of one second the one whose name comes first, so that all see the same.
    defaults.sort_by_key(|class| (std::cmp::Reverse(class.creation_timestamp()), class.name_any()));
    let newest = defaults.first().ok_or(ClassError::NoDefault)?;
    let remark = (defaults.len() > 1).then(|| {
        let names: Vec<_> = defaults.iter().map(|class| class.name_any()).collect();
        format!(
            "classes {} are all marked as the default; the newest, {}, is used",
            names.join(", "),
            names[0]
        )
    });
    Ok(Found { class: (*newest).clone(), remark })
}

fn is_default(class: &EnvironmentClass) -> bool {
    class.annotations().get(labels::IS_DEFAULT_CLASS).is_some_and(|value| value == "true")
        && class.metadata.deletion_timestamp.is_none()
}

/// Why a file of classes cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("failed to read the file of classes")]
    Read(#[source] std::io::Error),
    /// It is not a list of classes.
    #[error("failed to understand the file of classes: it holds YAML documents, each an EnvironmentClass")]
    Parse(#[source] Box<serde_saphyr::Error>),
}

/// Reads the classes of an operator that looks after one namespace and may not read classes of the cluster: YAML
/// documents, each an EnvironmentClass. It is read once: a change of the chart's values restarts the operator.
pub fn from_file(path: &Path) -> Result<Vec<EnvironmentClass>, FileError> {
    let text = std::fs::read_to_string(path).map_err(FileError::Read)?;
    parse(&text)
}

fn parse(text: &str) -> Result<Vec<EnvironmentClass>, FileError> {
    /// What is read of a class; `spec` may be left out, as on the API server.
    #[derive(Deserialize)]
    struct Document {
        metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
        #[serde(default)]
        spec: cuddy_crds::EnvironmentClassSpec,
    }
    let documents: Vec<Document> =
        serde_saphyr::from_multiple(text).map_err(|error| FileError::Parse(Box::new(error)))?;
    Ok(documents
        .into_iter()
        .map(|document| EnvironmentClass { metadata: document.metadata, spec: document.spec })
        .collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn class(name: &str, created: &str, default: Option<&str>) -> EnvironmentClass {
        let mut annotations = serde_json::Map::new();
        if let Some(value) = default {
            annotations.insert(labels::IS_DEFAULT_CLASS.into(), json!(value));
        }
        serde_json::from_value(json!({
            "apiVersion": "cuddy.dev/v1alpha1", "kind": "EnvironmentClass",
            "metadata": {"name": name, "creationTimestamp": created, "annotations": annotations}, "spec": {},
        }))
        .unwrap()
    }

    fn spec(class: Option<&str>) -> EnvironmentSpec {
        let value = class.map_or_else(|| json!({}), |name| json!({"classRef": {"name": name}}));
        serde_json::from_value(value).unwrap()
    }

    const DAY_1: &str = "2026-01-01T00:00:00Z";
    const DAY_2: &str = "2026-01-02T00:00:00Z";

    #[test]
    fn a_named_class_is_taken_or_missed() {
        let classes = [class("a", DAY_1, None), class("b", DAY_1, Some("true"))];
        assert_eq!(find(&spec(Some("a")), &classes).unwrap().class.name_any(), "a");
        assert_eq!(find(&spec(Some("c")), &classes), Err(ClassError::Missing("c".into())));
    }

    #[test]
    fn the_default_serves_those_that_name_none() {
        let classes =
            [class("a", DAY_1, None), class("b", DAY_1, Some("true")), class("c", DAY_2, Some("false"))];
        let found = find(&spec(None), &classes).unwrap();
        assert_eq!((found.class.name_any().as_str(), found.remark), ("b", None));
        let error = find(&spec(None), &classes[..1]).unwrap_err();
        assert!(error.to_string().contains("cuddy class init"));
    }

    #[test]
    fn of_two_defaults_the_newest_serves_and_it_is_told() {
        let classes = [
            class("a", DAY_1, Some("true")),
            class("b", DAY_2, Some("true")),
            class("c", DAY_2, Some("true")),
        ];
        let found = find(&spec(None), &classes).unwrap();
        assert_eq!(found.class.name_any(), "b");
        assert!(found.remark.unwrap().contains("b, c, a"));
    }

    #[test]
    fn classes_come_from_a_file() {
        let text = "metadata:\n  name: small\n  annotations:\n    cuddy.dev/is-default-class: \"true\"\nspec:\n  image: debian\n---\nmetadata:\n  name: bare\n";
        let classes = parse(text).unwrap();
        assert_eq!(classes.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["small", "bare"]);
        assert_eq!(find(&spec(None), &classes).unwrap().class.spec.image.as_deref(), Some("debian"));
        assert!(matches!(parse("metadata: 7"), Err(FileError::Parse(_))));
    }
}
