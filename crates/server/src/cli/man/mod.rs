//! `logway man`: manual pages, made from what `--help` and the reference are made from.

mod command_page;
mod roff;
mod settings_page;

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};

use super::Cli;
use super::error::CliError;
use super::output;

/// Write the manual pages of all commands and settings
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway man /usr/local/share/man
  logway man ~/.local/share/man && man logway-topic-create && man logway.toml")]
pub(super) struct ManArgs {
    /// Where manual pages are; those of commands go to man1 there, that of settings to man5
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Writes the pages and says how many.
pub(super) fn run(args: &ManArgs) -> Result<(), CliError> {
    let pages = pages();
    for (path, page) in &pages {
        let path = args.dir.join(path);
        write(&path, page)
            .map_err(|source| CliError::Io { what: format!("write {}", path.display()), source })?;
    }
    output::print(&format!("{} pages in {}\n", pages.len(), args.dir.display()))
}

fn write(path: &Path, page: &str) -> std::io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(path, page)
}

/// Every page and where it belongs, as `man1/logway-serve.1`.
fn pages() -> Vec<(String, String)> {
    let mut root = Cli::command();
    root.build();
    let mut pages = vec![("man5/logway.toml.5".to_owned(), settings_page::render())];
    push_commands(&mut pages, "logway", &root);
    pages
}

fn push_commands(pages: &mut Vec<(String, String)>, name: &str, command: &Command) {
    pages.push((format!("man1/{name}.1"), command_page::render(name, command)));
    for below in command_page::visible(command) {
        push_commands(pages, &format!("{name}-{}", below.get_name()), below);
    }
}

#[cfg(test)]
mod tests {
    use logway_metadata::settings::broker::broker_settings;

    use super::*;

    #[test]
    fn every_command_and_setting_has_its_place() {
        let pages = pages();
        let page = |path: &str| &pages.iter().find(|(p, _)| p == path).expect(path).1;
        for setting in broker_settings() {
            assert!(page("man5/logway.toml.5").contains(setting.name), "{}", setting.name);
        }
        assert!(page("man1/logway.1").contains("\n\\fBlogway\\-topic(1)\\fR\n"));
        assert!(page("man1/logway-topic.1").contains("\n\\fBlogway\\-topic\\-create(1)\\fR\n"));
        let create = page("man1/logway-topic-create.1");
        assert!(create.contains("\n\\fB\\-p, \\-\\-partitions <PARTITIONS>\\fR\n"), "{create}");
        assert!(create.contains(".SH \"EXAMPLES\"\n"), "{create}");
        assert!(!pages.iter().any(|(path, _)| path.contains("bench-sender")));
    }
}
