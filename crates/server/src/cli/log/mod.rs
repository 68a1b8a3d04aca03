//! `logway log`: partitions' files, without a broker.

mod batch_row;
mod dump;
mod verify;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use logway_log::fs::RealFs;
use logway_log::inspect;

use super::GlobalArgs;
use super::error::CliError;
use super::quantity;

/// The commands.
#[derive(Debug, Subcommand)]
pub(super) enum LogCommand {
    Dump(dump::DumpArgs),
    Verify(verify::VerifyArgs),
}

/// Carries a command out.
pub(super) fn run(command: LogCommand, global: &GlobalArgs) -> Result<(), CliError> {
    match command {
        LogCommand::Dump(args) => dump::run(&args, global),
        LogCommand::Verify(args) => verify::run(&args, global),
    }
}

/// The partitions under a directory, by name; never none.
fn partition_dirs(dir: &Path) -> Result<Vec<PathBuf>, CliError> {
    let mut dirs = inspect::partition_dirs(&RealFs, dir)?;
    if dirs.is_empty() {
        return Err(CliError::Input(format!(
            "{} is neither a data directory with partitions nor a partition's directory",
            dir.display()
        )));
    }
    dirs.sort();
    Ok(dirs)
}

fn count_of_problems(problems: u64) -> String {
    match problems {
        1 => "1 problem".to_owned(),
        _ => format!("{} problems", quantity::count(problems)),
    }
}
