//! The command line. Each verb's own arguments stand beside the verb.

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::commands::{class, completion, env, key, local, mcp, open, version};

const ABOUT: &str = "Sheltered environments for agents and developers on Kubernetes";

const EXAMPLES: &str = "\
Examples:
  cuddy local up --workspace .                    sidecar and host on this machine, without a cluster
  cuddy class init --image IMAGE                  the default class, trusting your key (once per cluster)
  cuddy env create dev                            key, Environment and a local port in one step
  cuddy mcp call --tool exec_raw --arg 'argv=[\"uname\",\"-a\"]'
  cuddy mcp config --client claude-code --write   lets an editor's agent in, without a credential in its config
  cuddy env explain dev                           why it is (not) ready, and when it stops

Exit codes: 0 done, 1 failed, 2 usage, 3 refused, 4 not reachable,
  124 still running, 125 outcome unknown, 126 connection lost during the call";

/// The program's arguments.
#[derive(Debug, Parser)]
#[command(
    name = "cuddy",
    version,
    about = ABOUT,
    after_help = EXAMPLES,
    propagate_version = false,
    disable_help_subcommand = true,
    infer_long_args = false,
    max_term_width = 110
)]
pub struct Cli {
    /// Say more on stderr; twice for more still
    #[arg(long, short, action = clap::ArgAction::Count, global = true, display_order = 100)]
    pub verbose: u8,
    #[command(subcommand)]
    pub command: Command,
}

/// The nouns, and the verbs that need none.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// The key pair that you sign with
    #[command(subcommand)]
    Key(key::Verb),
    /// Classes: what many environments have in common
    #[command(subcommand)]
    Class(class::Verb),
    /// Environments: make, list, wait, start, stop, explain
    #[command(subcommand, visible_alias = "environment")]
    Env(env::Verb),
    /// Open a local port to an environment
    Open(open::OpenArgs),
    /// Talk to an environment: tools, calls, the proxy for MCP clients
    #[command(subcommand)]
    Mcp(mcp::Verb),
    /// An environment on this machine, without a cluster
    #[command(subcommand)]
    Local(local::Verb),
    /// Print the completion script of a shell
    Completion(completion::CompletionArgs),
    /// Print the version
    Version(version::VersionArgs),
}

/// How results are printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
}

/// The form of the result.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct OutputArgs {
    /// The form of the result: text or json; errors take it too, on stderr
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t, hide_possible_values = true)]
    pub output: Format,
}

impl OutputArgs {
    /// Says whether JSON is wanted.
    pub const fn is_json(self) -> bool {
        matches!(self.output, Format::Json)
    }
}

impl Cli {
    /// Says whether errors are wanted as JSON.
    pub(crate) const fn wants_json(&self) -> bool {
        match &self.command {
            Command::Key(verb) => verb.wants_json(),
            Command::Class(verb) => verb.wants_json(),
            Command::Env(verb) => verb.wants_json(),
            Command::Open(args) => args.output.is_json(),
            Command::Mcp(verb) => verb.wants_json(),
            Command::Local(verb) => verb.wants_json(),
            Command::Version(args) => args.output.is_json(),
            Command::Completion(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_holds_together() {
        Cli::command().debug_assert();
    }
}
