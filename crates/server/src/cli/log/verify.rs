//! `logway log verify`.

use std::path::{Path, PathBuf};

use clap::Args;
use logway_log::inspect::{Access, Verified};
use logway_model::TopicName;
use schemars::JsonSchema;
use serde::Serialize;

use super::check::{Checked, check_all};
use super::problem_row::{ProblemCount, ProblemRow, line, named};
use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format, JsonArray, Table};
use crate::cli::quantity;

/// Check the files of a data directory, or of some of its partitions, down to each record
///
/// Nothing is changed. The batches, their offsets and leader epochs, the indexes, the snapshots of
/// producers, the checkpoints, the directory's identity and the metadata are compared with each other.
/// What is wrong is said on stderr, with its file and byte; the exit code is 1 then. What a crash left
/// unfinished at the end of a log is a note, and no failure: the next start of the broker settles it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway log verify logway-data
  logway log verify logway-data/events-0 --format json
  logway log verify /disk-1/logway /disk-2/logway")]
pub(in crate::cli) struct VerifyArgs {
    /// Data directories, those of one broker together, or directories of partitions
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// Look although a broker has the directory open, but not at the metadata
    #[arg(long)]
    while_running: bool,
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
    segments: usize,
    batches: u64,
    records: u64,
    size_bytes: u64,
    /// `null` if there is no batch
    start_offset: Option<i64>,
    /// `null` if there is no batch
    end_offset: Option<i64>,
    problems: Vec<ProblemRow>,
}

pub(super) fn run(args: &VerifyArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let access = if args.while_running { Access::BesideBroker } else { Access::Read };
    let mut count = ProblemCount::default();
    let mut array = JsonArray::new();
    let mut table = empty_table();
    check_all(&args.dirs, access, |checked| {
        for problem in &checked.problems {
            eprintln!("{}", line(problem));
            count.add(problem);
        }
        let row = row_of(checked);
        match global.format {
            Format::Json => array.push(&row)?,
            Format::Text => add_to(&mut table, &row),
        }
        Ok(())
    })?;
    match global.format {
        Format::Json => array.end()?,
        Format::Text => output::print(&table.render())?,
    }
    count.into_result(&args.dirs)
}

fn row_of(checked: Checked<'_>) -> Row {
    let Checked { dir, verified, problems, .. } = checked;
    let problems = problems.into_iter().map(ProblemRow::new).collect();
    row(dir, verified, problems)
}

fn row(dir: &Path, verified: Option<Verified>, problems: Vec<ProblemRow>) -> Row {
    let named = named(dir, verified.is_some());
    let verified = verified.unwrap_or_default();
    Row {
        partition: named.as_ref().map(|named| named.partition.0),
        topic: named.map(|named| named.topic),
        directory: dir.to_owned(),
        segments: verified.segments,
        batches: verified.batches,
        records: verified.records,
        size_bytes: verified.bytes,
        start_offset: verified.first_offset.map(|offset| offset.0),
        end_offset: verified.end_offset.map(|offset| offset.0),
        problems,
    }
}

fn empty_table() -> Table {
    Table::new(&["PARTITION", "SEGMENTS", "BATCHES", "RECORDS", "FIRST", "END", "SIZE", "PROBLEMS"])
}

/// Adds a line for a partition; what is wrong with the directory's own files has been said.
fn add_to(table: &mut Table, row: &Row) {
    let Some((topic, partition)) = row.topic.as_ref().zip(row.partition) else { return };
    let number = |offset: Option<i64>| offset.map(|offset| offset.to_string()).unwrap_or_default();
    table.row([
        format!("{topic}-{partition}"),
        row.segments.to_string(),
        row.batches.to_string(),
        row.records.to_string(),
        number(row.start_offset),
        number(row.end_offset),
        quantity::bytes(row.size_bytes),
        row.problems.len().to_string(),
    ]);
}

#[cfg(test)]
mod tests {
    use logway_log::inspect::Problem;
    use logway_model::Offset;

    use super::*;

    #[test]
    fn partitions_are_shown_and_the_directory_itself_is_not() {
        let problem = Problem {
            path: PathBuf::from("d/a-0/00.log"),
            position: 61,
            reason: "bad CRC".to_owned(),
            lost: None,
            may_be_unfinished: false,
            repair: None,
        };
        let verified = Verified {
            segments: 2,
            batches: 3,
            records: 40,
            bytes: 2048,
            first_offset: Some(Offset(5)),
            end_offset: Some(Offset(45)),
            problems: 1,
        };
        let rows = [
            row(Path::new("d/a-0"), Some(verified), vec![ProblemRow::new(problem)]),
            row(
                Path::new("d/b-0"),
                Some(Verified { segments: 1, ..Verified::default() }),
                Vec::new(),
            ),
            row(Path::new("d"), None, Vec::new()),
        ];
        let mut table = empty_table();
        rows.iter().for_each(|row| add_to(&mut table, row));
        let expected = "\
PARTITION  SEGMENTS  BATCHES  RECORDS  FIRST  END  SIZE     PROBLEMS
a-0        2         3        40       5      45   2.0 KiB  1
b-0        1         0        0        -      -    0 B      0
";
        assert_eq!(table.render(), expected);
    }
}
