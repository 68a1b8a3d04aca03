//! A problem as `logway log verify` and `logway log repair` print it.

use std::path::{Path, PathBuf};

use logway_log::inspect::{Problem, Repair};
use logway_model::TopicPartition;
use schemars::JsonSchema;
use serde::Serialize;

use super::count_of_problems;
use crate::cli::error::CliError;

/// What is to be done where records are damaged or gone.
const ADVICE_ON_RECORDS: &str = "no repair changes records: if there is a copy of the files, put it back \
     while no broker runs; without one the broker serves all but what is lost, and 'logway topic trim' \
     deletes up to an offset behind it (docs/OPERATING.md, 'Records are damaged')";

/// A problem, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ProblemRow {
    path: PathBuf,
    /// The byte at which it begins
    position: u64,
    reason: String,
    /// The first offset whose record cannot be read; `null` if none is lost
    first_lost_offset: Option<i64>,
    /// The offset after the last; `null` if it is not known
    end_lost_offset: Option<i64>,
    /// Whether a crash may have left it so, which the next start of the broker settles
    may_be_unfinished: bool,
    /// What `logway log repair` does about it: `rebuild`, `rewrite`, `set aside`, or nothing
    repair: Option<&'static str>,
}

impl ProblemRow {
    /// Takes a problem apart.
    pub(super) fn new(problem: Problem) -> ProblemRow {
        let Problem { path, position, reason, lost, may_be_unfinished, repair } = problem;
        ProblemRow {
            path,
            position,
            reason,
            first_lost_offset: lost.map(|lost| lost.first.0),
            end_lost_offset: lost.and_then(|lost| lost.end).map(|end| end.0),
            may_be_unfinished,
            repair: repair.map(name),
        }
    }
}

/// A partition by the name of its directory; nothing for the data directory itself, and for one that is
/// not named as a partition is.
pub(super) fn named(dir: &Path, is_partition: bool) -> Option<TopicPartition> {
    let name = dir.file_name().filter(|_| is_partition)?;
    TopicPartition::from_dir_name(&name.to_string_lossy())
}

/// What a repair does, as a word.
pub(super) fn name(repair: Repair) -> &'static str {
    match repair {
        Repair::Rebuild => "rebuild",
        Repair::Rewrite => "rewrite",
        Repair::SetAside => "set aside",
    }
}

/// A problem, for people.
pub(super) fn line(problem: &Problem) -> String {
    let (word, remark) = match problem.may_be_unfinished {
        true => ("note", " (probably not finished: the broker settles it when it starts)"),
        false => ("problem", ""),
    };
    let Problem { path, position, reason, lost, .. } = problem;
    let lost = lost.map(|lost| format!("; {lost} lost")).unwrap_or_default();
    format!("{word}: {} at byte {position}: {reason}{lost}{remark}", path.display())
}

/// How many problems there are that are no mere notes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ProblemCount {
    /// Those that a repair can put right.
    pub(super) repairable: u64,
    pub(super) others: u64,
}

impl ProblemCount {
    /// Counts a problem.
    pub(super) fn add(&mut self, problem: &Problem) {
        match (problem.may_be_unfinished, problem.repair) {
            (true, _) => {}
            (false, Some(_)) => self.repairable += 1,
            (false, None) => self.others += 1,
        }
    }

    /// Fails if there are any, with what can be done about them.
    pub(super) fn into_result(self, dirs: &[PathBuf]) -> Result<(), CliError> {
        let ProblemCount { repairable, others } = self;
        let problems = count_of_problems(repairable + others);
        let error = CliError::Damaged { problems, dirs: dirs.to_vec() };
        match (repairable, others) {
            (0, 0) => Ok(()),
            (0, _) => Err(error.with_hint(ADVICE_ON_RECORDS)),
            (_, 0) => Err(error.with_hint(advice_on_repair(repairable))),
            _ => {
                let repair = advice_on_repair(repairable);
                Err(error.with_hint(format!("{repair}; for the others, {ADVICE_ON_RECORDS}")))
            }
        }
    }
}

fn advice_on_repair(repairable: u64) -> String {
    format!("'logway log repair' puts {repairable} of them right, while no broker runs")
}

#[cfg(test)]
mod tests {
    use logway_log::inspect::LostOffsets;
    use logway_model::Offset;

    use super::*;

    #[test]
    fn a_problem_is_one_line() {
        let problem = Problem {
            path: PathBuf::from("d/a-0/00.log"),
            position: 61,
            reason: "bad CRC".to_owned(),
            lost: Some(LostOffsets { first: Offset(5), end: Some(Offset(9)) }),
            may_be_unfinished: false,
            repair: None,
        };
        let expected = "problem: d/a-0/00.log at byte 61: bad CRC; offsets 5 to 8 lost";
        assert_eq!(line(&problem), expected);
        let unfinished = Problem { may_be_unfinished: true, ..problem };
        assert!(line(&unfinished).starts_with("note: d/a-0/00.log at byte 61: bad CRC; offsets"));
    }

    #[test]
    fn notes_are_no_failure_and_what_can_be_repaired_is_told_apart() {
        let count_of = |problems: &[(bool, Option<Repair>)]| {
            let mut count = ProblemCount::default();
            for &(may_be_unfinished, repair) in problems {
                count.add(&Problem {
                    path: PathBuf::new(),
                    position: 0,
                    reason: String::new(),
                    lost: None,
                    may_be_unfinished,
                    repair,
                });
            }
            count.into_result(&[PathBuf::from("d")]).map_err(|error| match error {
                CliError::Hinted { error, hint } => format!("{error}, {hint}"),
                other => other.to_string(),
            })
        };
        let rebuild = Some(Repair::Rebuild);
        assert_eq!(count_of(&[(true, None), (true, rebuild)]), Ok(()));
        let repairable = count_of(&[(false, rebuild), (true, None)]);
        let expected =
            "1 problem in d, 'logway log repair' puts 1 of them right, while no broker runs";
        assert_eq!(repairable, Err(expected.to_owned()));
        let others = count_of(&[(false, None)]).expect_err("records are damaged");
        assert!(others.contains("d, no repair changes records"), "{others}");
        let both = count_of(&[(false, rebuild), (false, None)]).expect_err("records are damaged");
        assert!(both.contains("puts 1 of them right"), "{both}");
        assert!(both.contains("for the others, no repair changes records"), "{both}");
    }
}
