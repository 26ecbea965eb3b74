//! `cuddy env create`

use clap::Args;
use cuddy_crds::Environment;
use ed25519_dalek::VerifyingKey;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use super::{Chosen, trust, waiting};
use crate::args::OutputArgs;
use crate::cluster::{self, ClusterArgs, ClusterError};
use crate::commands::key::KeyArgs;
use crate::commands::open;
use crate::context::Context;
use crate::error::CliError;
use crate::{output, target};

/// The field manager of what people make.
const FIELD_MANAGER: &str = "cuddy";

/// The arguments of `env create`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cuddy env create dev
  cuddy env create dev --image registry.example.com/tools:1 --size 20Gi --egress None
  cuddy env create dev --dry-run > dev.yaml      # for a repository that a pipeline applies")]
pub struct CreateArgs {
    /// What it is called: at most 52 letters, digits and '-'
    #[arg(value_name = "ENV")]
    pub name: String,
    /// The container image [default: the class's]
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// The EnvironmentClass [default: the default one]
    #[arg(long, value_name = "NAME")]
    pub class: Option<String>,
    /// How large the workspace is [default: 10Gi]
    #[arg(long, value_name = "QUANTITY")]
    pub size: Option<String>,
    /// What it may reach: Internet, Cluster or None [default: Internet]
    #[arg(long, value_name = "WHAT", value_parser = ["Internet", "Cluster", "None"], ignore_case = true)]
    pub egress: Option<String>,
    /// Print the Environment, and make nothing in the cluster
    #[arg(long)]
    pub dry_run: bool,
    /// Return at once: do not wait until it is ready, and open no port to it
    #[arg(long)]
    pub no_wait: bool,
    /// Open no local port to it
    #[arg(long)]
    pub no_open: bool,
    /// How long to wait, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub timeout: u64,
    #[command(flatten)]
    pub key: KeyArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

pub(super) async fn run(context: &Context, args: &CreateArgs) -> Result<(), CliError> {
    let place = super::require_place(&args.cluster)?;
    target::scope(&place.namespace, &args.name)?;
    let store = context.keys(args.key.key.as_deref());
    let (key, is_new) = store.load_or_create()?;
    if is_new {
        output::note(&format!("made your key {}", store.private_path().display()));
    }
    let value = object(args, &place.namespace, &key.verifying_key())?;
    if args.dry_run {
        return if args.output.is_json() { output::json(&value) } else { output::yaml(&value) };
    }
    let client = cluster::client(&args.cluster).await?;
    let api: Api<Environment> = Api::namespaced(client, &place.namespace);
    let environment: Environment = serde_json::from_value(value)
        .map_err(|e| CliError::failed("the Environment cannot be written").because(e))?;
    let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    api.create(&params, &environment).await.map_err(|error| refused(error, args))?;
    output::note(&format!(
        "made Environment {} in namespace {} (context {})",
        args.name, place.namespace, place.context
    ));
    let again = super::same_place(&args.cluster);
    if args.no_wait {
        return told(args, &place.namespace, None, &format!("cuddy env wait {}{again}", args.name));
    }
    let chosen = Chosen { api, name: args.name.clone(), place: place.clone() };
    waiting::until_ready(&chosen, args.timeout).await?;
    let call = format!(
        "cuddy mcp call --environment {}{again} --tool exec_raw --arg 'argv=[\"ls\",\"-la\"]'",
        args.name
    );
    if args.no_open {
        return told(args, &place.namespace, None, &call);
    }
    // The Environment is there and ready; a local port that cannot be had does not undo it.
    let port =
        match open::in_background(context, &open::OpenArgs::of(&args.name, &args.cluster, &args.key)).await {
            Ok(port) => Some(port),
            Err(error) => {
                output::note(&format!(
                    "no local port: {}; `cuddy open {}{again}` tries again",
                    error.chain(),
                    args.name
                ));
                None
            }
        };
    told(args, &place.namespace, port, &call)
}

fn told(args: &CreateArgs, namespace: &str, port: Option<u16>, next: &str) -> Result<(), CliError> {
    let endpoint = port.map(|p| format!("http://127.0.0.1:{p}/mcp"));
    if args.output.is_json() {
        let value = json!({ "environment": args.name, "namespace": namespace, "ready": !args.no_wait, "endpoint": endpoint, "next": next });
        return output::json(&value);
    }
    if !args.no_wait {
        output::line(&format!("Environment {} is ready", args.name))?;
    }
    if let Some(endpoint) = endpoint {
        output::line(&format!("it answers on {endpoint}"))?;
    }
    output::line(&format!("next: {next}"))
}

/// Returns the Environment as it is sent. The maker's own key is named in it whatever the class says: by the class alone
/// the maker could do less than the owner of an Environment may.
fn object(args: &CreateArgs, namespace: &str, key: &VerifyingKey) -> Result<Value, CliError> {
    let entry = json!({ "name": trust::key_name(key), "publicKey": trust::pem(key)? });
    let mut spec = json!({ "auth": { "keys": [entry] } });
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            spec[name] = value;
        }
    };
    set("image", args.image.clone().map(Value::from));
    set("classRef", args.class.as_ref().map(|name| json!({ "name": name })));
    set("workspace", args.size.as_ref().map(|size| json!({ "size": size })));
    let egress = args.egress.as_deref().map(|e| match e.to_ascii_lowercase().as_str() {
        "cluster" => "Cluster",
        "none" => "None",
        _ => "Internet",
    });
    set("network", egress.map(|egress| json!({ "egress": egress })));
    Ok(json!({
        "apiVersion": "cuddy.dev/v1alpha1",
        "kind": "Environment",
        "metadata": { "name": args.name, "namespace": namespace },
        "spec": spec,
    }))
}

fn refused(error: kube::Error, args: &CreateArgs) -> CliError {
    let error = ClusterError::request(format!("make Environment {}", args.name))(error);
    let status = error.status();
    let error = CliError::from(error);
    match status {
        Some(409) => {
            error.hint(format!("`cuddy env explain {}` tells about the one that is there", args.name))
        }
        Some(404) => error
            .hint("does the namespace exist? `kubectl create namespace` makes one")
            .hint("are Cuddy's types installed? The chart cuddy-crds installs them"),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        create: CreateArgs,
    }

    #[test]
    fn what_is_sent_holds_what_was_said_and_the_key() {
        let key = cuddy_edge::keys::generate().unwrap().verifying_key();
        let line = ["create", "dev", "--image", "i", "--class", "c", "--size", "1Gi", "--egress", "none"];
        let args = Line::parse_from(line).create;
        let value = object(&args, "acme", &key).unwrap();
        assert_eq!(value["spec"]["network"]["egress"], "None");
        assert_eq!(value["spec"]["classRef"]["name"], "c");
        let environment: Environment = serde_json::from_value(value).unwrap();
        assert_eq!(environment.spec.workspace.size, "1Gi");
        assert_eq!(environment.spec.auth.unwrap().keys.len(), 1);
        let plain = object(&Line::parse_from(["create", "dev"]).create, "acme", &key).unwrap();
        assert_eq!(plain["spec"].as_object().unwrap().len(), 1, "what was not said is left to the class");
    }
}
