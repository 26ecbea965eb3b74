//! What an Environment and its class come to together: every value that either leaves out is filled in here, and the
//! bounds that the class sets are checked (D31).

use std::cmp::Ordering;
use std::collections::BTreeMap;

use cuddy_protocol::Capability;
use cuddy_protocol::claims::DEFAULT_ISSUER;
use cuddy_protocol::places;
use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::quantity;
use crate::v1alpha1::{
    AuthMode, ConfigMapKeyRef, Egress, EnvVar, EnvironmentClassSpec, EnvironmentSpec, IdleAction,
    ImagePullPolicy, Mode, Peer, Resources, Verify,
};

/// The size of a workspace.
pub const WORKSPACE_SIZE: &str = "10Gi";
/// After how many seconds without work an environment is idle.
pub const IDLE_TIMEOUT_SECONDS: u32 = 900;
/// For how many further seconds an idle environment stays up.
pub const IDLE_GRACE_SECONDS: u32 = 60;
/// For how many seconds jobs and terminals alone keep an environment up.
pub const IDLE_MAX_BUSY_SECONDS: u32 = 86_400;
/// What the runtime container asks for (D47).
pub const RUNTIME_REQUESTS: [(&str, &str); 2] = [("cpu", "100m"), ("memory", "128Mi")];
/// What the runtime container may use where neither Environment nor class says so: without a limit of ours the limits of
/// a LimitRange would decide (D10).
pub const RUNTIME_LIMITS: [(&str, &str); 2] = [("cpu", "2"), ("memory", "2Gi")];

/// A class by name, as it is merged into an Environment.
#[derive(Debug, Clone, Copy)]
pub struct Class<'a> {
    /// The class's name, for messages.
    pub name: &'a str,
    /// What it says.
    pub spec: &'a EnvironmentClassSpec,
}

/// Everything about an Environment, with nothing left out.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Whether it should run.
    pub mode: Mode,
    /// The image of the runtime container.
    pub image: String,
    /// When the image is pulled (D32).
    pub image_pull_policy: ImagePullPolicy,
    /// The user's own program, arguments included; may be empty.
    pub command: Vec<String>,
    /// Environment variables of the runtime container.
    pub env: Vec<EnvVar>,
    /// Resources of the runtime container, requests and limits for cpu and memory always among them.
    pub resources: ResourceRequirements,
    /// The size of the volume.
    pub workspace_size: String,
    /// The StorageClass; absent means the cluster's default.
    pub storage_class_name: Option<String>,
    /// Where the volume is mounted.
    pub mount_path: String,
    /// How callers show who they are.
    pub auth_mode: AuthMode,
    /// The keys, the Environment's before the class's.
    pub keys: Vec<KeySettings>,
    /// When it is idle, and what happens then.
    pub idle: IdleSettings,
    /// What it may reach.
    pub egress: Egress,
    /// Who may reach it.
    pub ingress_from: Vec<Peer>,
    /// Further host names.
    pub hosts: Vec<String>,
    /// What happens where isolation is not seen.
    pub verify: Verify,
    /// The uid of the runtime container.
    pub run_as_user: i64,
    /// Names of Secrets for pulling the image.
    pub image_pull_secrets: Vec<String>,
}

/// One key, its defaults filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct KeySettings {
    /// Where it is named, for messages: `spec.auth.keys[laptop]` or `class default, auth.keys[admin]`.
    pub path: String,
    /// A name that no other key of this Environment has: `environment/laptop`, `class/admin`.
    pub id: String,
    /// The key or where it is.
    pub source: KeyPlace,
    /// The `iss` that it signs for.
    pub issuer: String,
    /// The most that it may do.
    pub max_capability: Capability,
    /// When it ends.
    pub not_after: Option<Time>,
}

/// Where a key is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyPlace {
    /// Here: PEM.
    Inline(String),
    /// In a ConfigMap of the Environment's namespace.
    ConfigMap(ConfigMapKeyRef),
}

/// Idle, its defaults filled in. Seconds throughout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleSettings {
    /// After this long without work it is idle.
    pub timeout_seconds: u32,
    /// For this long it stays up nevertheless.
    pub grace_seconds: u32,
    /// For this long what hostile code can make up keeps it up.
    pub max_busy_seconds: u32,
    /// What happens then.
    pub action: IdleAction,
}

/// A field that cannot be met.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct FieldError {
    /// The field, as `kubectl explain` takes it: `spec.image`.
    pub path: String,
    /// What is wrong and what to do.
    pub message: String,
}

impl FieldError {
    fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

/// Merges an Environment with its class.
pub fn resolve(spec: &EnvironmentSpec, class: Class<'_>) -> Result<Settings, FieldError> {
    let image = spec.image.clone().or_else(|| class.spec.image.clone()).ok_or_else(|| {
        FieldError::new(
            "spec.image",
            format!("no image: set spec.image, or spec.image of the EnvironmentClass {}", class.name),
        )
    })?;
    let auth = spec.auth.clone().unwrap_or_default();
    let network = spec.network.clone().unwrap_or_default();
    Ok(Settings {
        mode: spec.mode.unwrap_or_default(),
        image_pull_policy: class.spec.image_pull_policy.unwrap_or_else(|| pull_policy(&image)),
        image,
        command: spec.command.iter().chain(&spec.args).cloned().collect(),
        env: spec.env.clone(),
        resources: resources(spec, class)?,
        workspace_size: spec.workspace.size.clone(),
        storage_class_name: spec.workspace.storage_class_name.clone(),
        mount_path: spec.workspace.mount_path.clone().unwrap_or_else(|| places::HOME.to_owned()),
        auth_mode: auth.mode.unwrap_or_default(),
        keys: keys(spec, class)?,
        idle: idle(spec, class)?,
        egress: network.egress.unwrap_or_default(),
        ingress_from: network.ingress_from,
        hosts: network.hosts,
        verify: network.verify.unwrap_or_default(),
        run_as_user: spec.security.and_then(|s| s.run_as_user).unwrap_or(places::RUNTIME_UID),
        image_pull_secrets: spec.image_pull_secrets.iter().map(|secret| secret.name.clone()).collect(),
    })
}

fn pull_policy(image: &str) -> ImagePullPolicy {
    if image.contains("@sha256:") { ImagePullPolicy::IfNotPresent } else { ImagePullPolicy::Always }
}

fn keys(spec: &EnvironmentSpec, class: Class<'_>) -> Result<Vec<KeySettings>, FieldError> {
    let auth = spec.auth.clone().unwrap_or_default();
    let issuer = auth.issuer.as_deref().unwrap_or(DEFAULT_ISSUER);
    let mut keys = Vec::new();
    for key in &auth.keys {
        let path = format!("spec.auth.keys[{}]", key.name);
        let source = match (&key.public_key, &key.config_map_ref) {
            (Some(pem), None) => KeyPlace::Inline(pem.clone()),
            (None, Some(reference)) => KeyPlace::ConfigMap(reference.clone()),
            _ => return Err(FieldError::new(path, "a key has exactly one of publicKey and configMapRef")),
        };
        keys.push(KeySettings {
            path,
            id: format!("environment/{}", key.name),
            source,
            issuer: key.issuer.clone().unwrap_or_else(|| issuer.to_owned()),
            max_capability: key.max_capability.unwrap_or(Capability::Admin),
            not_after: key.not_after.clone(),
        });
    }
    for key in class.spec.auth.iter().flat_map(|auth| &auth.keys) {
        keys.push(KeySettings {
            path: format!("class {}, spec.auth.keys[{}]", class.name, key.name),
            id: format!("class/{}", key.name),
            source: KeyPlace::Inline(key.public_key.clone()),
            issuer: key.issuer.clone().unwrap_or_else(|| DEFAULT_ISSUER.to_owned()),
            max_capability: key.max_capability.unwrap_or(Capability::Operate),
            not_after: key.not_after.clone(),
        });
    }
    Ok(keys)
}

fn idle(spec: &EnvironmentSpec, class: Class<'_>) -> Result<IdleSettings, FieldError> {
    let own = spec.idle.unwrap_or_default();
    let shared = class.spec.idle.unwrap_or_default();
    if let (Some(asked), Some(most)) = (own.max_busy_seconds, shared.max_busy_seconds)
        && asked > most
    {
        return Err(FieldError::new(
            "spec.idle.maxBusySeconds",
            format!("{asked} is more than the EnvironmentClass {} allows, {most}", class.name),
        ));
    }
    Ok(IdleSettings {
        timeout_seconds: own.timeout_seconds.or(shared.timeout_seconds).unwrap_or(IDLE_TIMEOUT_SECONDS),
        grace_seconds: own.grace_seconds.or(shared.grace_seconds).unwrap_or(IDLE_GRACE_SECONDS),
        max_busy_seconds: own.max_busy_seconds.or(shared.max_busy_seconds).unwrap_or(IDLE_MAX_BUSY_SECONDS),
        action: own.action.or(shared.action).unwrap_or_default(),
    })
}

type Amounts = BTreeMap<String, Quantity>;

fn resources(spec: &EnvironmentSpec, class: Class<'_>) -> Result<ResourceRequirements, FieldError> {
    let own = spec.resources.clone().unwrap_or_default();
    let shared = class.spec.resources.clone().unwrap_or_default();
    within_class(&own, &shared, class.name)?;

    let mut requests = overlay(&shared.requests, &own.requests);
    let mut limits = overlay(&shared.limits, &own.limits);
    for (name, amount) in RUNTIME_LIMITS {
        if !limits.contains_key(name) {
            let least = requests.get(name).map_or(amount, |request| request.0.as_str());
            limits.insert(name.to_owned(), Quantity(larger(least, amount)?.to_owned()));
        }
    }
    for (name, amount) in RUNTIME_REQUESTS {
        if !requests.contains_key(name) {
            let most = limits.get(name).map_or(amount, |limit| limit.0.as_str());
            requests.insert(name.to_owned(), Quantity(smaller(most, amount)?.to_owned()));
        }
    }
    // A request of the class beside a smaller limit of the Environment: the Environment's word is the nearer one.
    for (name, request) in &mut requests {
        if let Some(limit) = limits.get(name)
            && compare(&request.0, &limit.0)? == Ordering::Greater
        {
            if own.requests.contains_key(name) {
                return Err(FieldError::new(
                    format!("spec.resources.requests.{name}"),
                    format!("{} is more than the limit, {}", request.0, limit.0),
                ));
            }
            *request = limit.clone();
        }
    }
    Ok(ResourceRequirements { claims: None, limits: Some(limits), requests: Some(requests) })
}

fn within_class(own: &Resources, class: &Resources, class_name: &str) -> Result<(), FieldError> {
    for (field, amounts) in [("requests", &own.requests), ("limits", &own.limits)] {
        for (name, asked) in amounts {
            let Some(most) = class.limits.get(name) else { continue };
            if compare(&asked.0, &most.0)? == Ordering::Greater {
                return Err(FieldError::new(
                    format!("spec.resources.{field}.{name}"),
                    format!("{} is more than the EnvironmentClass {class_name} allows, {}", asked.0, most.0),
                ));
            }
        }
    }
    Ok(())
}

fn overlay(below: &Amounts, above: &Amounts) -> Amounts {
    let mut all = below.clone();
    all.extend(above.iter().map(|(name, amount)| (name.clone(), amount.clone())));
    all
}

fn compare(left: &str, right: &str) -> Result<Ordering, FieldError> {
    quantity::compare(left, right).map_err(|error| FieldError::new("spec.resources", error.to_string()))
}

fn larger<'a>(left: &'a str, right: &'a str) -> Result<&'a str, FieldError> {
    Ok(if compare(left, right)? == Ordering::Less { right } else { left })
}

fn smaller<'a>(left: &'a str, right: &'a str) -> Result<&'a str, FieldError> {
    Ok(if compare(left, right)? == Ordering::Greater { right } else { left })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn resolved(spec: serde_json::Value, class: serde_json::Value) -> Result<Settings, FieldError> {
        let spec: EnvironmentSpec = serde_json::from_value(spec).unwrap();
        let class: EnvironmentClassSpec = serde_json::from_value(class).unwrap();
        resolve(&spec, Class { name: "small", spec: &class })
    }

    fn amount(settings: &Settings, field: &str, name: &str) -> String {
        let r = &settings.resources;
        let amounts = if field == "limits" { &r.limits } else { &r.requests };
        amounts.as_ref().unwrap()[name].0.clone()
    }

    #[test]
    fn an_empty_spec_takes_everything_from_class_and_defaults() {
        let settings = resolved(json!({}), json!({"image": "debian"})).unwrap();
        insta::assert_debug_snapshot!(settings);
    }

    #[test]
    fn an_image_comes_from_somewhere() {
        let error = resolved(json!({}), json!({})).unwrap_err();
        assert_eq!(error.path, "spec.image");
        assert!(error.message.contains("small"), "{error}");
        assert_eq!(resolved(json!({"image": "a"}), json!({"image": "b"})).unwrap().image, "a");
    }

    #[test]
    fn pull_policy_follows_the_class_then_the_digest() {
        let digest = format!("a@sha256:{}", "0".repeat(64));
        for (image, class, expected) in [
            ("a:1", json!({}), ImagePullPolicy::Always),
            (digest.as_str(), json!({}), ImagePullPolicy::IfNotPresent),
            ("a:1", json!({"imagePullPolicy": "IfNotPresent"}), ImagePullPolicy::IfNotPresent),
            (digest.as_str(), json!({"imagePullPolicy": "Always"}), ImagePullPolicy::Always),
        ] {
            assert_eq!(
                resolved(json!({"image": image}), class).unwrap().image_pull_policy,
                expected,
                "{image}"
            );
        }
    }

    #[test]
    fn an_environment_never_widens_its_class() {
        let class = json!({"image": "i", "idle": {"maxBusySeconds": 100}, "resources": {"limits": {"memory": "1Gi"}}});
        for (spec, path) in [
            (json!({"idle": {"maxBusySeconds": 101}}), "spec.idle.maxBusySeconds"),
            (json!({"resources": {"limits": {"memory": "1025Mi"}}}), "spec.resources.limits.memory"),
            (json!({"resources": {"requests": {"memory": "2Gi"}}}), "spec.resources.requests.memory"),
        ] {
            assert_eq!(resolved(spec, class.clone()).unwrap_err().path, path);
        }
        let narrowed = json!({"idle": {"maxBusySeconds": 99}, "resources": {"limits": {"memory": "1024Mi", "cpu": "8"}}});
        let settings = resolved(narrowed, class).unwrap();
        assert_eq!(settings.idle.max_busy_seconds, 99);
        assert_eq!(amount(&settings, "limits", "cpu"), "8");
    }

    #[test]
    fn requests_and_limits_fit_each_other() {
        let image = json!({"image": "i"});
        let large = resolved(json!({"resources": {"requests": {"memory": "4Gi"}}}), image.clone()).unwrap();
        assert_eq!(amount(&large, "limits", "memory"), "4Gi");
        let small = resolved(json!({"resources": {"limits": {"memory": "64Mi"}}}), image).unwrap();
        assert_eq!(amount(&small, "requests", "memory"), "64Mi");
        let class = json!({"image": "i", "resources": {"requests": {"memory": "1Gi"}}});
        let narrower = resolved(json!({"resources": {"limits": {"memory": "512Mi"}}}), class).unwrap();
        assert_eq!(amount(&narrower, "requests", "memory"), "512Mi");
        let contradiction =
            json!({"resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "512Mi"}}});
        assert_eq!(
            resolved(contradiction, json!({"image": "i"})).unwrap_err().path,
            "spec.resources.requests.memory"
        );
    }

    #[test]
    fn keys_of_both_are_trusted_each_within_its_own_bounds() {
        let settings = resolved(
            json!({"auth": {"issuer": "https://own", "keys": [
                {"name": "laptop", "publicKey": "p"},
                {"name": "ci", "configMapRef": {"name": "keys", "key": "ci.pub"}, "issuer": "https://ci", "maxCapability": "read"},
            ]}}),
            json!({"image": "i", "auth": {"keys": [{"name": "admin", "publicKey": "q"}]}}),
        )
        .unwrap();
        let told: Vec<_> =
            settings.keys.iter().map(|k| (k.id.as_str(), k.issuer.as_str(), k.max_capability)).collect();
        assert_eq!(
            told,
            [
                ("environment/laptop", "https://own", Capability::Admin),
                ("environment/ci", "https://ci", Capability::Read),
                ("class/admin", DEFAULT_ISSUER, Capability::Operate),
            ]
        );
        let both = json!({"auth": {"keys": [{"name": "x"}]}});
        assert_eq!(resolved(both, json!({"image": "i"})).unwrap_err().path, "spec.auth.keys[x]");
    }

    #[test]
    fn arguments_follow_the_command() {
        let settings =
            resolved(json!({"command": ["a"], "args": ["b", "c"]}), json!({"image": "i"})).unwrap();
        assert_eq!(settings.command, ["a", "b", "c"]);
    }
}
