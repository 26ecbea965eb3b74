//! What nobody has set.

use std::path::Path;
use std::time::Duration;

use clap::CommandFactory;
use cuddy_crds::defaults::{self, Class};
use cuddy_operator::config::{ClusterRanges, DnsResolver, OperatorConfig, PullPolicy, Verify};
use cuddy_operator::environment::build::{Input, Owner, pod_containers};
use cuddy_sidecar::cli::Cli;
use serde_json::json;

use crate::pod::{POD_UID, UID};

/// What an Environment comes to that says nothing, of a class that has an image.
pub(crate) fn defaults() -> defaults::Settings {
    let class = serde_json::from_value(json!({"image": "debian:13"})).unwrap();
    let spec = serde_json::from_value(json!({})).unwrap();
    defaults::resolve(&spec, Class { name: "small", spec: &class }).unwrap()
}

/// How long it stays up without work.
pub(crate) fn shipped() -> Duration {
    let idle = defaults().idle;
    Duration::from_secs(u64::from(idle.timeout_seconds) + u64::from(idle.grace_seconds))
}

/// Returns the sidecar's command line: the variables of its container as arguments, its folders below one of the test's.
pub(crate) fn arguments(folder: &Path) -> Vec<String> {
    let owner = Owner {
        namespace: "acme".to_owned(),
        name: "dev".to_owned(),
        uid: UID.to_owned(),
        tenant: "acme".to_owned(),
    };
    let config = OperatorConfig {
        sidecar_image: "registry.example/cuddy-sidecar:1".to_owned(),
        sidecar_pull_policy: PullPolicy::IfNotPresent,
        operator_namespace: "cuddy-system".to_owned(),
        pod_name: "cuddy-operator-0".to_owned(),
        pod_ip: [10, 244, 0, 9].into(),
        namespace: None,
        class_file: None,
        dns: DnsResolver::default(),
        ranges: ClusterRanges::default(),
        default_verify: Verify::Gate,
    };
    let settings = defaults();
    let container = pod_containers::sidecar(Input { owner: &owner, settings: &settings, config: &config });
    let command = Cli::command();
    let serve = command.find_subcommand("serve").unwrap();
    let flag = |variable: &str| {
        let argument = serve.get_arguments().find(|one| one.get_env().is_some_and(|name| name == variable));
        argument.unwrap_or_else(|| panic!("the sidecar knows no {variable}")).get_long().unwrap().to_owned()
    };
    let mut arguments = vec!["cuddy-sidecar".to_owned(), "serve".to_owned(), "--audit-stdout=off".to_owned()];
    for variable in container.env.unwrap() {
        // The one that is taken from the pod is its UID.
        let value = variable.value.unwrap_or_else(|| POD_UID.to_owned());
        let value = match value.strip_prefix('/') {
            Some(path) => folder.join(path).display().to_string(),
            None => value,
        };
        arguments.push(format!("--{}={value}", flag(&variable.name)));
    }
    arguments
}
