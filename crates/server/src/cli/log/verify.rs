//! `logway log verify`.

use std::path::{Path, PathBuf};

use clap::Args;
use logway_log::fs::RealFs;
use logway_log::inspect::{self, Problem, Verified};
use serde::Serialize;

use super::{count_of_problems, partition_dirs};
use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format, Table};
use crate::cli::quantity;

/// Check the files of partitions, down to each record
///
/// Nothing is changed, and a broker may be running. What a crash left unfinished at the end of a
/// log is reported, but is no failure: the next start of the broker settles it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway log verify logway-data
  logway log verify logway-data/events-0 --format json")]
pub(in crate::cli) struct VerifyArgs {
    /// Data directories, or directories of partitions
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Row {
    partition: String,
    segments: usize,
    batches: u64,
    records: u64,
    bytes: u64,
    first_offset: Option<i64>,
    end_offset: Option<i64>,
    problems: Vec<ProblemRow>,
}

#[derive(Debug, Serialize)]
struct ProblemRow {
    path: PathBuf,
    position: u64,
    reason: String,
    /// The offsets whose records cannot be read; without an end it is not known.
    first_lost_offset: Option<i64>,
    end_lost_offset: Option<i64>,
    may_be_unfinished: bool,
}

pub(super) fn run(args: &VerifyArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let mut rows = Vec::new();
    for dir in partition_dirs(&args.dirs)? {
        let mut problems = Vec::new();
        let verified = inspect::verify(&RealFs, &dir, |problem| {
            eprintln!("{}", line(&problem));
            problems.push(row_of_problem(problem));
        })?;
        rows.push(row(&dir, &verified, problems));
    }
    match global.format {
        Format::Json => output::print_json(&rows)?,
        Format::Text => output::print(&table(&rows).render())?,
    }
    let problems = rows.iter().flat_map(|row| &row.problems);
    match problems.filter(|problem| !problem.may_be_unfinished).count() as u64 {
        0 => Ok(()),
        damaged => {
            Err(CliError::Damaged { problems: count_of_problems(damaged), dirs: args.dirs.clone() })
        }
    }
}

fn line(problem: &Problem) -> String {
    let (word, remark) = match problem.may_be_unfinished {
        true => ("note", " (probably not finished: the broker settles it when it starts)"),
        false => ("problem", ""),
    };
    let Problem { path, position, reason, lost, .. } = problem;
    let lost = lost.map(|lost| format!("; {lost} lost")).unwrap_or_default();
    format!("{word}: {} at byte {position}: {reason}{lost}{remark}", path.display())
}

fn row(dir: &Path, verified: &Verified, problems: Vec<ProblemRow>) -> Row {
    let name = dir.file_name().unwrap_or(dir.as_os_str());
    Row {
        partition: name.to_string_lossy().into_owned(),
        segments: verified.segments,
        batches: verified.batches,
        records: verified.records,
        bytes: verified.bytes,
        first_offset: verified.first_offset.map(|offset| offset.0),
        end_offset: verified.end_offset.map(|offset| offset.0),
        problems,
    }
}

fn row_of_problem(problem: Problem) -> ProblemRow {
    let Problem { path, position, reason, lost, may_be_unfinished } = problem;
    ProblemRow {
        path,
        position,
        reason,
        first_lost_offset: lost.map(|lost| lost.first.0),
        end_lost_offset: lost.and_then(|lost| lost.end).map(|end| end.0),
        may_be_unfinished,
    }
}

fn table(rows: &[Row]) -> Table {
    let names = ["PARTITION", "SEGMENTS", "BATCHES", "RECORDS", "FIRST", "END", "SIZE", "PROBLEMS"];
    let mut table = Table::new(&names);
    let number = |offset: Option<i64>| offset.map(|offset| offset.to_string()).unwrap_or_default();
    for row in rows {
        table.row([
            row.partition.clone(),
            row.segments.to_string(),
            row.batches.to_string(),
            row.records.to_string(),
            number(row.first_offset),
            number(row.end_offset),
            quantity::bytes(row.bytes),
            row.problems.len().to_string(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use logway_log::inspect::LostOffsets;
    use logway_model::Offset;

    use super::*;

    #[test]
    fn partitions_and_problems_are_shown() {
        let problem = Problem {
            path: PathBuf::from("d/a-0/00.log"),
            position: 61,
            reason: "bad CRC".to_owned(),
            lost: Some(LostOffsets { first: Offset(5), end: Some(Offset(9)) }),
            may_be_unfinished: false,
        };
        let expected = "problem: d/a-0/00.log at byte 61: bad CRC; offsets 5 to 8 lost";
        assert_eq!(line(&problem), expected);
        let unfinished = Problem { may_be_unfinished: true, ..problem.clone() };
        assert!(line(&unfinished).starts_with("note: d/a-0/00.log at byte 61: bad CRC; offsets"));

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
            row(Path::new("d/a-0"), &verified, vec![row_of_problem(problem)]),
            row(Path::new("d/b-0"), &Verified { segments: 1, ..Verified::default() }, Vec::new()),
        ];
        let expected = "\
PARTITION  SEGMENTS  BATCHES  RECORDS  FIRST  END  SIZE     PROBLEMS
a-0        2         3        40       5      45   2.0 KiB  1
b-0        1         0        0        -      -    0 B      0
";
        assert_eq!(table(&rows).render(), expected);
    }
}
