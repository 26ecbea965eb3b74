//! `cuddy key`

use std::path::PathBuf;

use clap::{Args, Subcommand};
use cuddy_edge::keys;
use ed25519_dalek::SigningKey;
use serde_json::json;

use crate::args::OutputArgs;
use crate::context::Context;
use crate::env_vars;
use crate::error::CliError;
use crate::key_store::KeyStore;
use crate::output;

mod create;
mod show;

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Make a key pair; one that is there is kept
    Create(create::CreateArgs),
    /// Print the public key and its thumbprint
    Show(show::ShowArgs),
}

/// Which key.
#[derive(Debug, Clone, Default, Args)]
pub struct KeyArgs {
    /// The private key file [default: <config>/erun/identity/desktopid.key]
    #[arg(long, value_name = "FILE", env = env_vars::KEY, hide_env = true)]
    pub key: Option<PathBuf>,
}

impl Verb {
    pub(crate) const fn wants_json(&self) -> bool {
        match self {
            Self::Create(args) => args.output.is_json(),
            Self::Show(args) => args.output.is_json(),
        }
    }
}

pub(super) fn run(context: &Context, verb: Verb) -> Result<(), CliError> {
    match verb {
        Verb::Create(args) => create::run(context, &args),
        Verb::Show(args) => show::run(context, &args),
    }
}

/// Prints a public key: as PEM with the rest on stderr, or all of it as JSON.
fn print(store: &KeyStore, key: &SigningKey, format: OutputArgs) -> Result<(), CliError> {
    let pem = store.public_pem(key)?;
    let thumbprint = keys::thumbprint(&key.verifying_key());
    if format.is_json() {
        return output::json(&json!({
            "thumbprint": thumbprint,
            "publicKey": pem,
            "privateKeyPath": store.private_path(),
            "publicKeyPath": store.public_path(),
        }));
    }
    output::line(pem.trim_end())?;
    output::note(&format!("thumbprint {thumbprint}"));
    output::note(&format!("private key {}", store.private_path().display()));
    Ok(())
}
