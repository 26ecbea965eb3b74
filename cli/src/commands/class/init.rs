//! `cuddy class init`

use clap::Args;
use cuddy_crds::labels;
use cuddy_crds::v1alpha1::{ClassAuth, ClassKey, EnvironmentClass, EnvironmentClassSpec, ImagePullPolicy};
use cuddy_edge::keys;
use cuddy_protocol::Capability;
use ed25519_dalek::VerifyingKey;
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::args::OutputArgs;
use crate::cluster::{self, ClusterArgs, ClusterError};
use crate::commands::env::key_name;
use crate::commands::key::KeyArgs;
use crate::context::Context;
use crate::error::CliError;
use crate::output;

/// The field manager of what people make.
const FIELD_MANAGER: &str = "cuddy";

/// The arguments of `class init`.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// What the class is called
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub name: String,
    /// The image of Environments that name none
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// When images are pulled: Always or IfNotPresent [default: Always, IfNotPresent for digests]
    #[arg(long, value_name = "WHEN", value_parser = ["Always", "IfNotPresent"], ignore_case = true)]
    pub image_pull_policy: Option<String>,
    /// The most that your key may do in Environments of the class: read, operate, attach or admin
    #[arg(long, value_name = "CAPABILITY", value_parser = capability, default_value = "operate")]
    pub max_capability: String,
    /// Do not make it the class of Environments that name none
    #[arg(long)]
    pub not_default: bool,
    /// Change the class of this name that is there: what you name, and your key; the rest stays
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub key: KeyArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

fn capability(text: &str) -> Result<String, String> {
    let known = Capability::from_claim(&format!("erun:{text}"));
    known.map(|_| text.to_owned()).ok_or_else(|| "read, operate, attach or admin".to_owned())
}

pub(super) async fn run(context: &Context, args: &InitArgs) -> Result<(), CliError> {
    let store = context.keys(args.key.key.as_deref());
    let (key, is_new) = store.load_or_create()?;
    if is_new {
        output::note(&format!("made your key {}", store.private_path().display()));
    }
    let key = key.verifying_key();
    let api: Api<EnvironmentClass> = Api::all(cluster::client(&args.cluster).await?);
    let action = || format!("make EnvironmentClass {}", args.name);
    let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    let before = api.get_opt(&args.name).await.map_err(ClusterError::request(action()))?;
    match before {
        Some(_) if !args.force => {
            return Err(CliError::refused(format!("there is an EnvironmentClass {} already", args.name))
                .hint("--force puts your key and what else you name into it"));
        }
        Some(mut class) => {
            fill(&mut class, args, &key)?;
            api.replace(&args.name, &params, &class).await.map_err(ClusterError::request(action()))?;
        }
        None => {
            let mut class = EnvironmentClass::new(&args.name, EnvironmentClassSpec::default());
            fill(&mut class, args, &key)?;
            api.create(&params, &class).await.map_err(|error| not_made(error, &args.name))?;
        }
    }
    let thumbprint = keys::thumbprint(&key);
    if args.output.is_json() {
        return output::json(&json!({ "class": args.name, "default": !args.not_default, "key": thumbprint,
            "maxCapability": args.max_capability }));
    }
    let role = if args.not_default { "" } else { ", the class of Environments that name none" };
    output::line(&format!("EnvironmentClass {} is there{role}", args.name))?;
    output::line(&format!(
        "mind: your key {thumbprint} opens every environment of this class, whoever makes it (up to {})",
        args.max_capability
    ))?;
    if args.image.is_none() {
        output::note("it names no image, so each Environment must (spec.image, `cuddy env create --image`)");
    }
    let class = if args.not_default { format!(" --class {}", args.name) } else { String::new() };
    output::line(&format!("next: cuddy env create dev{class}"))
}

/// Puts into a class what was asked for, and leaves the rest.
fn fill(class: &mut EnvironmentClass, args: &InitArgs, key: &VerifyingKey) -> Result<(), CliError> {
    if !args.not_default {
        class.annotations_mut().insert(labels::IS_DEFAULT_CLASS.to_owned(), "true".to_owned());
    }
    if args.image.is_some() {
        class.spec.image.clone_from(&args.image);
    }
    if let Some(policy) = &args.image_pull_policy {
        let always = policy.eq_ignore_ascii_case("Always");
        class.spec.image_pull_policy =
            Some(if always { ImagePullPolicy::Always } else { ImagePullPolicy::IfNotPresent });
    }
    let pem = keys::public_to_pem(key)
        .map_err(|e| CliError::failed("the public key cannot be written").because(e))?;
    let entry = ClassKey {
        name: key_name(key),
        public_key: pem,
        issuer: None,
        max_capability: Capability::from_claim(&format!("erun:{}", args.max_capability)),
        not_after: None,
    };
    let auth = class.spec.auth.get_or_insert_with(ClassAuth::default);
    auth.keys.retain(|k| k.name != entry.name);
    auth.keys.push(entry);
    Ok(())
}

fn not_made(error: kube::Error, name: &str) -> CliError {
    let error = ClusterError::request(format!("make EnvironmentClass {name}"))(error);
    let status = error.status();
    let error = CliError::from(error);
    match status {
        Some(404) => error.hint("are Cuddy's types installed? The chart cuddy-crds installs them"),
        Some(403) => error.hint("classes are the cluster's; an administrator makes them"),
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
        init: InitArgs,
    }

    #[test]
    fn a_class_that_is_there_keeps_what_is_not_named() {
        let key = keys::generate().unwrap().verifying_key();
        let other = keys::generate().unwrap().verifying_key();
        let mut class = EnvironmentClass::new("default", EnvironmentClassSpec::default());
        let first = Line::parse_from(["init", "--image", "one", "--image-pull-policy", "ifnotpresent"]).init;
        fill(&mut class, &first, &other).unwrap();
        fill(&mut class, &Line::parse_from(["init", "--max-capability", "admin"]).init, &key).unwrap();
        fill(&mut class, &Line::parse_from(["init"]).init, &key).unwrap();
        assert_eq!(class.spec.image.as_deref(), Some("one"));
        assert_eq!(class.spec.image_pull_policy, Some(ImagePullPolicy::IfNotPresent));
        let keys = &class.spec.auth.as_ref().unwrap().keys;
        assert_eq!(keys.len(), 2, "one per person");
        assert_eq!(keys[1].max_capability, Some(Capability::Operate));
        assert_eq!(class.annotations()[labels::IS_DEFAULT_CLASS], "true");
        let mut aside = EnvironmentClass::new("aside", EnvironmentClassSpec::default());
        fill(&mut aside, &Line::parse_from(["init", "--not-default"]).init, &key).unwrap();
        assert!(aside.annotations().is_empty());
    }
}
