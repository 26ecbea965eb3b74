//! `cuddy mcp token`

use clap::Args;
use cuddy_protocol::Capability;
use jiff::Timestamp;
use secrecy::ExposeSecret;
use serde_json::json;

use super::AccessArgs;
use crate::args::OutputArgs;
use crate::bearer::{Facts, Minter};
use crate::context::Context;
use crate::error::CliError;
use crate::{output, state, target};

/// The arguments of `mcp token`.
#[derive(Debug, Args)]
pub struct TokenArgs {
    /// What the bearer may do, at most: erun:read, erun:operate, erun:attach, erun:admin [default: all that the key may]
    #[arg(long = "scope", value_name = "CAPABILITY", value_parser = capability)]
    pub scopes: Vec<String>,
    #[command(flatten)]
    pub access: AccessArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// A bearer that names an unknown capability would be good for nothing.
fn capability(text: &str) -> Result<String, String> {
    Capability::from_claim(text)
        .map(|_| text.to_owned())
        .ok_or_else(|| "one of erun:read, erun:operate, erun:attach, erun:admin".to_owned())
}

pub(super) async fn run(context: &Context, args: &TokenArgs) -> Result<(), CliError> {
    let key = context.keys(args.access.key.key.as_deref()).load()?;
    let target = target::resolve(&args.access.target, &context.dir).await?;
    let scopes = (!args.scopes.is_empty()).then(|| args.scopes.join(" "));
    let minter = Minter::new(key, target.scope.clone(), scopes);
    let facts = Facts { issuer: args.access.issuer.clone(), uid: None };
    let claims = minter.claims(&facts, Timestamp::now());
    let token = minter.sign(&claims)?;
    if !args.output.is_json() {
        return output::line(token.expose_secret());
    }
    let open = state::read(&context.dir, &target.scope).ok().flatten();
    let expires = Timestamp::from_second(claims.exp).map(|t| t.to_string()).unwrap_or_default();
    output::json(&json!({
        "tenant": target.scope.tenant,
        "environment": target.scope.environment,
        "endpoint": open.map(|s| format!("{}://127.0.0.1:{}/mcp", s.scheme, s.local_port)),
        "issuer": claims.iss,
        "audience": claims.aud,
        "expiresAt": expires,
        "token": token.expose_secret(),
    }))
}
