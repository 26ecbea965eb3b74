//! `cuddy mcp`

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::bearer::Minter;
use crate::commands::key::KeyArgs;
use crate::context::Context;
use crate::env_vars;
use crate::error::CliError;
use crate::reach::{Options, Reach};
use crate::target::{self, TargetArgs};

mod call;
mod config;
mod proxy;
mod token;
mod tools;

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Print a bearer, good for 5 minutes and one environment
    Token(token::TokenArgs),
    /// List the environment's tools
    Tools(tools::ToolsArgs),
    /// Call one tool
    Call(call::CallArgs),
    /// Serve an MCP client on stdio, a bearer per request
    Proxy(proxy::ProxyArgs),
    /// Print or install the entry for an MCP client; it names a command, never a credential
    Config(config::ConfigArgs),
}

impl Verb {
    pub(crate) const fn wants_json(&self) -> bool {
        match self {
            Self::Token(args) => args.output.is_json(),
            Self::Tools(args) => args.output.is_json(),
            Self::Call(args) => args.output.is_json(),
            Self::Proxy(_) | Self::Config(_) => false,
        }
    }
}

/// Which environment, and who signs.
#[derive(Debug, Clone, Args)]
pub struct AccessArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub key: KeyArgs,
    /// The issuer that the key signs for [default: the Environment's, else the seed's]
    #[arg(long, value_name = "ISS", env = env_vars::ISSUER, hide_env = true)]
    pub issuer: Option<String>,
}

impl AccessArgs {
    /// Finds the environment and makes the way to it. The key is read first: without one nothing else is tried.
    pub(crate) async fn reach(&self, context: &Context, wake_timeout: u64) -> Result<Reach, CliError> {
        let key = context.keys(self.key.key.as_deref()).load()?;
        let target = target::resolve(&self.target, &context.dir).await?;
        let minter = Minter::new(key, target.scope.clone(), None);
        Ok(Reach::new(Options {
            dir: context.dir.clone(),
            target,
            cluster: self.target.cluster.clone(),
            minter,
            issuer: self.issuer.clone(),
            wake_timeout: Duration::from_secs(wake_timeout),
        }))
    }
}

pub(super) async fn run(context: &Context, verb: Verb) -> Result<ExitCode, CliError> {
    match verb {
        Verb::Token(args) => token::run(context, &args).await.map(|()| ExitCode::SUCCESS),
        Verb::Tools(args) => tools::run(context, &args).await.map(|()| ExitCode::SUCCESS),
        Verb::Call(args) => call::run(context, &args).await,
        Verb::Proxy(args) => proxy::run(context, &args).await.map(|()| ExitCode::SUCCESS),
        Verb::Config(args) => config::run(context, &args).await.map(|()| ExitCode::SUCCESS),
    }
}
