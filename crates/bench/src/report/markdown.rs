//! The table of aims of a finished report, for a page of documentation.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, ensure};
use clap::Args;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::comparison::{Comparison, SIGNS};
use super::targets::{TargetRow, measured};
use super::text::short;
use crate::measure::Spread;

/// Print the table of aims of a finished report as Markdown
///
/// The last column is left empty: what bounds a figure is for somebody to say who knows.
#[derive(Debug, Clone, Args)]
pub(crate) struct TableArgs {
    /// The report's directory, or its `results.json`
    #[arg(value_name = "REPORT")]
    pub results: std::path::PathBuf,
}

/// What is read of a report.
#[derive(Debug, Deserialize)]
struct Results {
    targets: Vec<TargetRow>,
}

/// The table of aims in a report's `results.json`.
///
/// # Errors
///
/// It cannot be read, is no such file, or nothing of which there is an aim was measured.
pub(crate) fn table(args: &TableArgs) -> anyhow::Result<String> {
    let Results { targets } = read(&args.results)?;
    let report = args.results.display();
    ensure!(!targets.is_empty(), "{report} has no work of which there is an aim");
    Ok(render(&targets))
}

/// Reads a report by its directory, or by its `results.json`.
pub(super) fn read<T: DeserializeOwned>(report: &Path) -> anyhow::Result<T> {
    let path = match report.is_dir() {
        true => &report.join("results.json"),
        false => report,
    };
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let results = serde_json::from_slice(&text);
    results.with_context(|| format!("{} is no report's results", path.display()))
}

pub(super) fn render(targets: &[TargetRow]) -> String {
    let mut text = String::from(
        "| work | over | aim | measured (least to most) | | `null` | `bare` | ours over `bare` \
         | what bounds it here |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    let (targets, about_others) = measured(targets);
    for target in &targets {
        let TargetRow { what, over, aim, ratio, limit, .. } = target;
        writeln!(
            text,
            "| {what} | {over} | {aim} | {} | {} | {} | {} | {} |  |",
            cell(*ratio),
            target.verdict(),
            cell(limit.null),
            cell(limit.bare),
            cell(limit.ours_over_bare),
        )
        .expect("a string takes everything");
    }
    let signs = targets.iter().any(|target| target.is_marked()).then_some(SIGNS);
    for sentence in signs.into_iter().chain(about_others.as_deref()) {
        writeln!(text, "\n{sentence}").expect("a string takes everything");
    }
    text
}

fn cell(ratio: Option<Comparison>) -> String {
    ratio.map_or(String::new(), |Comparison { spread, bound }| {
        let Spread { median, least, most } = spread;
        format!("{}{} ({} to {})", bound.sign(), short(median), short(least), short(most))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::summary::tests::rows;
    use crate::report::targets::targets;

    #[test]
    fn a_table_is_that_of_the_results() {
        let directory = tempfile::tempdir().expect("a directory");
        let results = directory.path().join("results.json");
        let json = serde_json::json!({ "name": "targets", "targets": targets(&rows()) });
        std::fs::write(&results, json.to_string()).expect("is written");
        let of_file = table(&TableArgs { results: results.clone() }).expect("a table");
        let table = table(&TableArgs { results: directory.path().to_owned() }).expect("a table");
        assert_eq!(of_file, table);
        let lines: Vec<&str> = table.lines().collect();
        let all = targets(&rows());
        let measured = all.iter().filter(|target| target.ratio.is_some()).count();
        assert_eq!(lines.iter().filter(|line| line.starts_with('|')).count(), 2 + measured);
        let others = format!("{} other aims were not measured.", all.len() - measured);
        assert_eq!(lines.last(), Some(&others.as_str()));
        assert!(!table.contains('≥') && !table.contains("| not measured |"));
        let expected = "| produce: 16 KiB batches, unsynced: rate | kafka | at least 12.0 \
                        | 10.0 (10.0 to 10.0) | missed |  |  |  |  |";
        assert_eq!(lines[2], expected);
        std::fs::write(&results, r#"{"targets": []}"#).expect("is written");
        assert!(super::table(&TableArgs { results }).is_err());
    }

    #[test]
    fn what_the_generator_held_back_is_marked_and_explained() {
        let mut rows = rows();
        for row in rows.iter_mut().filter(|row| row.side == "logway") {
            row.usage.generator_busy_seconds = row.seconds;
        }
        let table = render(&targets(&rows));
        assert!(table.contains("| ≥ 10.0 (10.0 to 10.0) | undecided |"), "{table}");
        assert_eq!(table.matches(SIGNS).count(), 1);
    }

    #[test]
    fn results_from_before_there_were_limits_are_read() {
        let row = r#"{"targets": [{"what": "a", "over": "kafka", "aim": "at least 2.0",
            "ratio": {"median": 1.0, "least": 0.5, "most": 2.0}, "is_met": false}]}"#;
        let Results { targets } = serde_json::from_str(row).expect("the results of then");
        assert!(render(&targets).contains("| 1.00 (0.500 to 2.00) | missed |  |  |  |  |"));
    }
}
