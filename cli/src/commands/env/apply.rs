//! `cuddy env apply`

use std::io::Read;
use std::path::PathBuf;

use clap::Args;
use cuddy_crds::{Environment, EnvironmentClass};
use ed25519_dalek::VerifyingKey;
use kube::api::{Patch, PatchParams, ValidationDirective};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::trust::{self, ClassKeys};
use crate::cluster::{self, ClusterArgs, ClusterError};
use crate::commands::key::KeyArgs;
use crate::context::Context;
use crate::error::CliError;
use crate::output;

/// The field manager of what people apply.
const FIELD_MANAGER: &str = "cuddy";
/// The largest file that is read.
const MAX_BYTES: u64 = 4 * 1024 * 1024;
/// The most documents in one file.
const MAX_DOCUMENTS: usize = 1000;

/// The arguments of `env apply`.
#[derive(Debug, Args)]
pub struct ApplyArgs {
    /// The file; `-` reads stdin
    #[arg(long, short, value_name = "FILE")]
    pub filename: PathBuf,
    /// Take over fields that somebody else set
    #[arg(long)]
    pub force_conflicts: bool,
    /// Do not put your key in where nobody is let in
    #[arg(long)]
    pub no_key: bool,
    #[command(flatten)]
    pub key: KeyArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// One document, read and found to be ours.
#[derive(Debug, PartialEq)]
struct Document {
    kind: String,
    name: String,
    namespace: Option<String>,
    value: Value,
}

pub(super) async fn run(context: &Context, args: &ApplyArgs) -> Result<(), CliError> {
    let documents = parse(&read(args)?)?;
    let place = super::require_place(&args.cluster)?;
    let client = cluster::client(&args.cluster).await?;
    for mut document in documents {
        let namespace = document.namespace.clone().unwrap_or_else(|| place.namespace.clone());
        if document.kind == "Environment" && !args.no_key && lets_nobody_in(&document.value) {
            put_key(context, args, &client, &mut document.value).await?;
        }
        apply(&client, &document, &namespace, args.force_conflicts).await?;
        output::line(&format!("{}.cuddy.dev/{} applied", document.kind.to_lowercase(), document.name))?;
    }
    Ok(())
}

async fn put_key(
    context: &Context,
    args: &ApplyArgs,
    client: &Client,
    value: &mut Value,
) -> Result<(), CliError> {
    let name = value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let class = value.pointer("/spec/classRef/name").and_then(Value::as_str).map(str::to_owned);
    let store = context.keys(args.key.key.as_deref());
    let key = match store.load() {
        Ok(key) => key.verifying_key(),
        Err(error) => {
            output::note(&format!(
                "Environment {name} names no key, and you have none to put in ({error}); only keys of its class open it"
            ));
            return Ok(());
        }
    };
    match trust::class_keys(client, class.as_deref(), &key).await {
        ClassKeys::None | ClassKeys::Unknown => {
            enter(value, &key)?;
            output::note(&format!(
                "put your key {} into Environment {name}: it named none",
                store.public_path().display()
            ));
        }
        ClassKeys::Mine => {}
        ClassKeys::Others => {
            output::note(&format!(
                "Environment {name} names no key, and its class trusts others than yours: you will not get in"
            ));
        }
    }
    Ok(())
}

/// Says whether an Environment asks for bearers and names no key of its own.
fn lets_nobody_in(value: &Value) -> bool {
    let auth = |path: &str| value.pointer(&format!("/spec/auth/{path}"));
    auth("mode").and_then(Value::as_str) != Some("None")
        && auth("keys").and_then(Value::as_array).is_none_or(Vec::is_empty)
}

/// Enters a key into an Environment.
fn enter(value: &mut Value, key: &VerifyingKey) -> Result<(), CliError> {
    let entry = json!({ "name": trust::key_name(key), "publicKey": trust::pem(key)? });
    if value["spec"].is_null() {
        value["spec"] = json!({});
    }
    if value["spec"]["auth"].is_null() {
        value["spec"]["auth"] = json!({});
    }
    value["spec"]["auth"]["keys"] = json!([entry]);
    Ok(())
}

async fn apply(client: &Client, document: &Document, namespace: &str, force: bool) -> Result<(), CliError> {
    let params = PatchParams {
        force,
        field_manager: Some(FIELD_MANAGER.to_owned()),
        // A field that is misspelt would otherwise be dropped without a word.
        field_validation: Some(ValidationDirective::Strict),
        ..PatchParams::default()
    };
    if document.kind == "Environment" {
        patch(&Api::<Environment>::namespaced(client.clone(), namespace), document, &params).await
    } else {
        patch(&Api::<EnvironmentClass>::all(client.clone()), document, &params).await
    }
}

async fn patch<K>(api: &Api<K>, document: &Document, params: &PatchParams) -> Result<(), CliError>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let result = api.patch(&document.name, params, &Patch::Apply(&document.value)).await;
    let error = match result {
        Ok(_) => return Ok(()),
        Err(error) => ClusterError::request(format!("apply {} {}", document.kind, document.name))(error),
    };
    let conflict = error.status() == Some(409);
    let error = CliError::from(error);
    Err(if conflict { error.hint("--force-conflicts takes these fields over") } else { error })
}

fn read(args: &ApplyArgs) -> Result<String, CliError> {
    if args.filename.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().lock().take(MAX_BYTES).read_to_string(&mut text)?;
        return Ok(text);
    }
    crate::files::read(&args.filename, MAX_BYTES)?
        .ok_or_else(|| CliError::usage(format!("there is no file {}", args.filename.display())))
}

fn parse(text: &str) -> Result<Vec<Document>, CliError> {
    let values: Vec<Value> = serde_saphyr::from_multiple(text)
        .map_err(|e| CliError::usage(format!("the file is no YAML: {e}")))?;
    let documents: Vec<Document> =
        values.into_iter().filter(|v| !v.is_null()).map(document).collect::<Result<_, _>>()?;
    match documents.len() {
        0 => Err(CliError::usage("the file holds no Environment")),
        1..=MAX_DOCUMENTS => Ok(documents),
        _ => Err(CliError::usage(format!("the file holds more than {MAX_DOCUMENTS} documents"))),
    }
}

fn document(value: Value) -> Result<Document, CliError> {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let kind = text("/kind").unwrap_or_default();
    let is_ours = text("/apiVersion").is_some_and(|v| v.starts_with("cuddy.dev/"))
        && matches!(kind.as_str(), "Environment" | "EnvironmentClass");
    if !is_ours {
        return Err(CliError::usage(format!(
            "{kind:?} is neither an Environment nor an EnvironmentClass of cuddy.dev"
        ))
        .hint("`kubectl apply` takes everything else"));
    }
    let name =
        text("/metadata/name").ok_or_else(|| CliError::usage(format!("an {kind} without metadata.name")))?;
    let namespace = text("/metadata/namespace");
    Ok(Document { kind, name, namespace, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE_LINES: &str = "apiVersion: cuddy.dev/v1alpha1\nkind: Environment\nmetadata: {name: dev}\n";

    #[test]
    fn three_lines_are_an_environment_that_lets_nobody_in() {
        let mut documents = parse(THREE_LINES).unwrap();
        let value = &mut documents[0].value;
        assert!(lets_nobody_in(value));
        let key = cuddy_edge::keys::generate().unwrap().verifying_key();
        enter(value, &key).unwrap();
        assert!(!lets_nobody_in(value));
        let read = cuddy_crds::parse_environment(value.clone()).unwrap();
        assert_eq!(read.spec.auth.unwrap().keys.len(), 1);
    }

    #[test]
    fn who_lets_somebody_in_is_left_alone() {
        let with =
            |auth: &str| parse(&format!("{THREE_LINES}spec: {{auth: {auth}}}\n")).unwrap().remove(0).value;
        assert!(!lets_nobody_in(&with("{keys: [{name: a, configMapRef: {name: b, key: c}}]}")));
        assert!(!lets_nobody_in(&with("{mode: None}")));
        assert!(lets_nobody_in(&with("{keys: []}")));
    }

    #[test]
    fn other_things_are_not_applied() {
        for text in ["", "---\n", "kind: Pod\napiVersion: v1\nmetadata: {name: x}", "a: [", "- 1"] {
            assert_eq!(parse(text).unwrap_err().kind.exit_code(), 2, "{text:?}");
        }
        let two = format!("{THREE_LINES}---\n{THREE_LINES}");
        assert_eq!(parse(&two).unwrap().len(), 2);
    }
}
