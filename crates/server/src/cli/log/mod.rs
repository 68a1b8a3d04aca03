//! `logway log`: partitions' files, without a broker.

mod batch_row;
mod check;
mod dump;
mod forget_dir;
mod group_record;
mod metadata;
mod problem_row;
mod repair;
mod verify;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use logway_log::fs::RealFs;
use logway_log::inspect;

use super::GlobalArgs;
use super::error::CliError;
use super::json_record::JsonRecord;
use super::quantity;
use super::shapes::Shape;

/// The commands.
#[derive(Debug, Subcommand)]
pub(super) enum LogCommand {
    Dump(dump::DumpArgs),
    Verify(verify::VerifyArgs),
    Repair(repair::RepairArgs),
    ForgetDir(forget_dir::ForgetDirArgs),
}

/// What the commands print as JSON.
pub(super) fn shapes() -> Vec<Shape> {
    vec![
        Shape::lines::<batch_row::BatchRow<'static>>("log dump"),
        Shape::lines::<JsonRecord<'static>>("log dump --records"),
        Shape::document::<Vec<verify::Row>>("log verify"),
        Shape::document::<Vec<repair::Row>>("log repair"),
        Shape::document::<forget_dir::Row>("log forget-dir"),
    ]
}

/// Carries a command out.
pub(super) fn run(command: LogCommand, global: &GlobalArgs) -> Result<(), CliError> {
    match command {
        LogCommand::Dump(args) => dump::run(&args, global),
        LogCommand::Verify(args) => verify::run(&args, global),
        LogCommand::Repair(args) => repair::run(&args, global),
        LogCommand::ForgetDir(args) => forget_dir::run(&args, global),
    }
}

/// The partitions under some directories, by name; never none.
fn partition_dirs(dirs: &[PathBuf]) -> Result<Vec<PathBuf>, CliError> {
    let mut found = Vec::new();
    for dir in dirs {
        let mut partitions = inspect::partition_dirs(&RealFs, dir)?;
        partitions.sort();
        found.extend(partitions);
    }
    // Several directories are often what a pattern of the shell has found: one without is no error.
    match dirs.first().filter(|_| found.is_empty()) {
        Some(first) => Err(no_partitions(first)),
        None => Ok(found),
    }
}

fn no_partitions(dir: &Path) -> CliError {
    let dir = dir.display();
    CliError::Input(format!(
        "{dir} is neither a data directory with partitions nor a partition's directory"
    ))
}

fn count_of_problems(problems: u64) -> String {
    match problems {
        1 => "1 problem".to_owned(),
        _ => format!("{} problems", quantity::count(problems)),
    }
}
