//! `logway log repair`.

use std::path::{Path, PathBuf};

use clap::Args;
use logway_log::inspect::{Access, Change, DataDir, Problem, Repair};
use logway_model::TopicName;
use schemars::JsonSchema;
use serde::Serialize;

use super::check::{Checked, check_all};
use super::problem_row::{self, ProblemCount, ProblemRow, line, named};
use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format, JsonArray};

/// Make anew what 'logway log verify' finds wrong and the records tell
///
/// Indexes are made anew from the batches, leader epochs too; a snapshot of producers that is damaged
/// is set aside, as the broker makes do without; checkpoints that cannot be right, topic ids and the
/// directory's identity are written with what the other files say. The files of records are read and
/// never written: what is damaged in them is said, and the exit code is 1 then. A file that is
/// replaced is kept beside, with '.damaged' behind its name, unless it is an index.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway log repair logway-data --dry-run
  logway log repair logway-data
  logway log repair logway-data/events-0")]
pub(in crate::cli) struct RepairArgs {
    /// Data directories, those of one broker together, or directories of partitions
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
}

/// A partition's files, or the data directory's own.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Row {
    /// `null` for the data directory's own files
    #[schemars(with = "Option<String>")]
    topic: Option<TopicName>,
    /// `null` for the data directory's own files
    partition: Option<i32>,
    directory: PathBuf,
    problems: Vec<ProblemRow>,
    changes: Vec<ChangeRow>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ChangeRow {
    path: PathBuf,
    /// `rebuild`, `rewrite` or `set aside`
    repair: &'static str,
    /// Not with `--dry-run`
    done: bool,
    /// Where the file is now that was there; `null` if it was not kept
    kept: Option<PathBuf>,
    /// Why it could not be done
    error: Option<String>,
}

pub(super) fn run(args: &RepairArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let access = if args.dry_run { Access::Read } else { Access::Repair };
    let mut left = ProblemCount::default();
    let mut array = JsonArray::new();
    check_all(&args.dirs, access, |checked| {
        let Checked { data, dir, verified, problems, changes } = checked;
        let mut done = Vec::with_capacity(changes.len());
        for change in &changes {
            let row = make(data, change, args.dry_run);
            if global.format == Format::Text {
                output::print(&format!("{}\n", text(change, &row, &problems)))?;
            }
            done.push(row);
        }
        for problem in &problems {
            if !is_settled(problem, &done) {
                eprintln!("{}", line(problem));
                left.add(&Problem { repair: None, ..problem.clone() });
            }
        }
        let problems = problems.into_iter().map(ProblemRow::new).collect();
        let named = named(dir, verified.is_some());
        let partition = named.as_ref().map(|named| named.partition.0);
        let topic = named.map(|named| named.topic);
        match global.format {
            Format::Json => {
                let directory = dir.to_owned();
                array.push(&Row { topic, partition, directory, problems, changes: done })
            }
            Format::Text => Ok(()),
        }
    })?;
    if global.format == Format::Json {
        array.end()?;
    }
    left.into_result(&args.dirs)
}

/// Carries a change out, unless that is not wanted.
fn make(data: &DataDir, change: &Change, is_dry_run: bool) -> ChangeRow {
    let row = |done, kept, error| ChangeRow {
        path: change.path().to_owned(),
        repair: problem_row::name(change.repair()),
        done,
        kept,
        error,
    };
    if is_dry_run {
        return row(false, None, None);
    }
    match data.carry_out(change) {
        Ok(kept) => row(true, kept, None),
        Err(error) => row(false, None, Some(error.to_string())),
    }
}

/// Whether a repair puts a problem right, or would.
fn is_settled(problem: &Problem, done: &[ChangeRow]) -> bool {
    let is_its = |row: &ChangeRow| row.path == problem.path && row.error.is_none();
    problem.repair.is_some() && done.iter().any(is_its)
}

/// What was done about a file, and why.
fn text(change: &Change, row: &ChangeRow, problems: &[Problem]) -> String {
    let path = change.path();
    let shown = path.display();
    let what = match (&row.error, row.done, change.repair()) {
        (Some(error), _, _) => format!("cannot {} {shown}: {error}", row.repair),
        (None, false, _) => format!("would {} {shown}", row.repair),
        (None, true, Repair::Rebuild) => format!("rebuilt {shown}"),
        (None, true, Repair::Rewrite) => format!("rewrote {shown}"),
        (None, true, Repair::SetAside) => format!("set aside {shown}"),
    };
    let kept = row.kept.as_deref().map(|kept| format!(", kept as {}", kept.display()));
    format!("{what}{}: {}", kept.unwrap_or_default(), reason(path, problems))
}

/// The first thing that is wrong with a file, and how much else is.
fn reason(path: &Path, problems: &[Problem]) -> String {
    let mut of_file = problems.iter().filter(|problem| problem.path == path);
    let Some(first) = of_file.next() else { return "it does not fit the others".to_owned() };
    let more = match of_file.count() {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    format!("at byte {}: {}{more}", first.position, first.reason)
}
