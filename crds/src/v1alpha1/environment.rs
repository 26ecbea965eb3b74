//! `Environment`: what a person asks for.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::v1alpha1::keys::KeySource;
use crate::v1alpha1::network::Network;
use crate::v1alpha1::status::EnvironmentStatus;

/// What the environment should be. Everything may be left out: the class has the rest.
#[expect(clippy::duplicated_attributes, reason = "columns of one type, not one attribute twice")]
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cuddy.dev",
    version = "v1alpha1",
    kind = "Environment",
    plural = "environments",
    singular = "environment",
    shortname = "env",
    category = "cuddy",
    namespaced,
    status = "EnvironmentStatus",
    derive = "PartialEq",
    doc = "A workspace on the cluster for one agent or developer: a pod with a persistent home, behind a closed network policy, that answers the Model Context Protocol to those whose keys it trusts.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        description = "Whether it answers its clients",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        description = "Why it does or does not",
        json_path = r#".status.conditions[?(@.type=="Ready")].reason"#
    ),
    printcolumn(
        name = "Idle",
        type_ = "string",
        description = "Whether somebody works",
        json_path = r#".status.conditions[?(@.type=="Idle")].reason"#
    ),
    printcolumn(
        name = "Stops-At",
        type_ = "string",
        description = "When it is stopped if nothing happens",
        json_path = ".status.activity.stopsAt"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Pod", type_ = "string", json_path = ".status.podName", priority = 1),
    printcolumn(name = "Image", type_ = "string", json_path = ".status.image", priority = 1),
    printcolumn(name = "Tenant", type_ = "string", json_path = ".status.tenant", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.args) || self.args.size() == 0 || (has(self.command) && self.command.size() > 0)",
    "message": "args need a command: the entry point of the image is not run",
    "fieldPath": ".args",
}]))]
pub struct EnvironmentSpec {
    /// Whether the environment should run. Stopped keeps the workspace and holds the environment stopped: no call wakes it.
    /// Default: Running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::choice::<Mode>")]
    pub mode: Option<Mode>,
    /// The EnvironmentClass that fills in what is left out here. Default: the class that is marked as the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_ref: Option<ClassRef>,
    /// The container image that the work is done in. It needs nothing of Cuddy's. Default: the image of the class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512), regex(pattern = r"^[A-Za-z0-9][!-~]*$"))]
    pub image: Option<String>,
    /// A program of your own that runs beside the work, as a list of arguments without a shell. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 4096)), extend("x-kubernetes-list-type" = "atomic"))]
    pub command: Vec<String>,
    /// Further arguments of command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 4096)), extend("x-kubernetes-list-type" = "atomic"))]
    pub args: Vec<String>,
    /// Environment variables of everything that runs in the container. No place for secrets: whoever may read this object
    /// reads them, and so does the agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["name"],
        "x-kubernetes-validations" = [
            {
                "rule": "self.all(variable, variable.name.matches('^[A-Za-z_][A-Za-z0-9_]*$'))",
                "message": "the name of a variable consists of letters, digits and '_' and does not begin with a digit",
            },
            {
                "rule": "self.all(variable, variable.name != 'HOME' && !variable.name.startsWith('CUDDY_'))",
                "message": "HOME and names that begin with CUDDY_ are set by Cuddy; workspace.mountPath decides HOME",
            },
        ],
    ))]
    pub env: Vec<EnvVar>,
    /// What the container asks the node for, and what it may use at most. Default: as the class says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// The volume that outlives every stop.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub workspace: Workspace,
    /// Who may call the environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// When the environment is stopped because nobody works in it. Default: as the class says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<Idle>,
    /// What the environment may reach, and who reaches it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// As whom the work is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security: Option<Security>,
    /// Secrets of this namespace with which the image is pulled. The environment itself never sees them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["name"],
    ))]
    pub image_pull_secrets: Vec<PullSecret>,
}

/// Whether an environment should run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Mode {
    /// It runs, and is stopped when it is idle until somebody calls it.
    #[default]
    Running,
    /// It is held stopped.
    Stopped,
}

/// Names a class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClassRef {
    /// The name of an EnvironmentClass.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub name: String,
}

/// An environment variable with a plain value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnvVar {
    /// The name.
    #[schemars(length(min = 1, max = 128))]
    pub name: String,
    /// The value. `$(OTHER)` is replaced as in any pod.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32768))]
    pub value: String,
}

/// Amounts of cpu, memory and ephemeral-storage.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.requests) || !has(self.limits) || self.requests.all(name, !(name in self.limits) || quantity(string(self.requests[name])).compareTo(quantity(string(self.limits[name]))) <= 0)",
    "message": "a request must not be larger than the limit of the same name",
}]))]
pub struct Resources {
    /// What the node keeps free for the container.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::amounts")]
    pub requests: BTreeMap<String, Quantity>,
    /// What the container may use at most; a class that sets a limit sets the highest one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::amounts")]
    pub limits: BTreeMap<String, Quantity>,
}

/// The volume that outlives every stop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.size) || !has(oldSelf.size) || quantity(self.size).compareTo(quantity(oldSelf.size)) >= 0",
        "message": "workspace.size cannot shrink: Kubernetes has no way to make a volume smaller",
        "fieldPath": ".size",
    },
    {
        "rule": "has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",
        "message": "workspace.storageClassName cannot change once the environment exists: the volume is already there; make a new environment instead",
    },
]))]
pub struct Workspace {
    /// How large the volume is. It may grow where the storage class allows it, and never shrinks.
    #[serde(default = "default_size")]
    #[schemars(schema_with = "schema::size", extend(
        "default" = "10Gi",
        "x-kubernetes-validations" = [{
            "rule": "quantity(self).compareTo(quantity('64Mi')) >= 0",
            "message": "workspace.size must be at least 64Mi",
        }],
    ))]
    pub size: String,
    /// The StorageClass that makes the volume; fixed once the environment exists. Default: the cluster's default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub storage_class_name: Option<String>,
    /// Where the volume is mounted; it is the home folder of everything that runs. Default: /home/erun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), extend("x-kubernetes-validations" = [
        {
            "rule": "self.matches('^/(home/[A-Za-z0-9._-]+|workspace|workspaces|srv|data|mnt)(/[A-Za-z0-9._-]+)*$')",
            "message": "workspace.mountPath must be an absolute path below /home, /workspace, /workspaces, /srv, /data or /mnt, without a final slash",
        },
        {
            "rule": "!self.split('/').exists(part, part == '.' || part == '..')",
            "message": "workspace.mountPath must not contain . or ..",
        },
    ]))]
    pub mount_path: Option<String>,
}

fn default_size() -> String {
    crate::defaults::WORKSPACE_SIZE.to_owned()
}

impl Default for Workspace {
    fn default() -> Self {
        Self { size: default_size(), storage_class_name: None, mount_path: None }
    }
}

/// Who may call an environment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Auth {
    /// How callers show who they are. Default: Bearer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::choice::<AuthMode>")]
    pub mode: Option<AuthMode>,
    /// The keys that are trusted to sign, beside those of the class. Each has a name of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["name"],
    ))]
    pub keys: Vec<KeySource>,
    /// The issuer (iss) that the keys here sign for, unless a key names its own.
    /// Default: file:///etc/erun/mcp-auth/desktopid.pub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512), regex(pattern = r"^[!-~]+$"))]
    pub issuer: Option<String>,
}

/// How callers show who they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AuthMode {
    /// A token signed with a trusted key, at each request.
    #[default]
    Bearer,
    /// Not at all. Only what runs in the pod itself, or comes through a port-forward, reaches the environment then, and it
    /// gets no more than the agent's own limited identity.
    None,
}

/// When an environment is stopped because nobody works in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Idle {
    /// After how many seconds without a call, job, lease, terminal or traffic it counts as idle. Default: 900.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 10, max = 604_800))]
    pub timeout_seconds: Option<u32>,
    /// For how many further seconds it stays up, so that whoever is warned can keep it. Default: 60.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 3600))]
    pub grace_seconds: Option<u32>,
    /// For how many seconds jobs and terminals alone keep it up, counted from the last call or lease of somebody with a
    /// key. Default: 86400. A class that sets this sets the highest value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 60, max = 2_592_000))]
    pub max_busy_seconds: Option<u32>,
    /// What happens when it is idle. Default: Stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::choice::<IdleAction>")]
    pub action: Option<IdleAction>,
}

/// What happens when an environment is idle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum IdleAction {
    /// The pod is deleted and the workspace is kept. The next call starts it again.
    #[default]
    Stop,
    /// It is only told in the status.
    None,
}

/// As whom the work is done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Security {
    /// The user id of the container, whatever its image says. Default: 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1000, max = 60_000))]
    pub run_as_user: Option<i64>,
}

/// Names a Secret of the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PullSecret {
    /// The name of a Secret of type kubernetes.io/dockerconfigjson.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub name: String,
}
