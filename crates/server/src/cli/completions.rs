//! `logway completions`: scripts that complete command lines.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Cli;
use super::error::CliError;
use super::output;

/// Print a shell's completion script
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway completions bash > /etc/bash_completion.d/logway
  logway completions zsh > \"${fpath[1]}/_logway\"
  logway completions fish > ~/.config/fish/completions/logway.fish")]
pub(super) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script.
pub(super) fn run(args: &CompletionsArgs) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "logway", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}
