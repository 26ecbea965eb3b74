//! `cuddy completion`

use clap::{Args, CommandFactory, ValueEnum};
use clap_complete::Shell;

use crate::args::Cli;
use crate::error::CliError;
use crate::output;

/// The shells that are served.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Supported {
    /// source <(cuddy completion bash)
    Bash,
    /// cuddy completion zsh > "${fpath[1]}/_cuddy"
    Zsh,
    /// cuddy completion fish | source
    Fish,
}

/// The arguments of `completion`.
#[derive(Debug, Args)]
pub struct CompletionArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: Supported,
}

pub(super) fn run(args: &CompletionArgs) -> Result<(), CliError> {
    let shell = match args.shell {
        Supported::Bash => Shell::Bash,
        Supported::Zsh => Shell::Zsh,
        Supported::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "cuddy", &mut script);
    output::line(String::from_utf8_lossy(&script).trim_end())
}
