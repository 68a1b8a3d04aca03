//! The table of aims of a finished report, for a page of documentation.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, ensure};
use clap::Args;
use serde::Deserialize;

use super::targets::TargetRow;
use super::text::{short, verdict};
use crate::measure::Spread;

/// Print the table of aims of a finished report as Markdown
///
/// The last column is left empty: what bounds a figure is for somebody to say who knows.
#[derive(Debug, Clone, Args)]
pub struct TableArgs {
    /// The report's `results.json`
    #[arg(value_name = "FILE")]
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
pub fn table(args: &TableArgs) -> anyhow::Result<String> {
    let Results { targets } = read(&args.results)?;
    ensure!(!targets.is_empty(), "{} has nothing of the aims", args.results.display());
    Ok(render(&targets))
}

fn read(path: &Path) -> anyhow::Result<Results> {
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let results = serde_json::from_slice(&text);
    results.with_context(|| format!("{} is no report's results", path.display()))
}

fn render(targets: &[TargetRow]) -> String {
    let mut text = String::from(
        "| work | over | aim | measured (least to most) | | `null` | `bare` | ours over `bare` \
         | what bounds it here |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for TargetRow { what, over, aim, ratio, is_met, limit } in targets {
        writeln!(
            text,
            "| {what} | {over} | {aim} | {} | {} | {} | {} | {} |  |",
            cell(*ratio),
            verdict(*is_met),
            cell(limit.null),
            cell(limit.bare),
            cell(limit.ours_over_bare),
        )
        .expect("a string takes everything");
    }
    text
}

fn cell(ratio: Option<Spread>) -> String {
    ratio.map_or(String::new(), |Spread { median, least, most }| {
        format!("{} ({} to {})", short(median), short(least), short(most))
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
        let table = table(&TableArgs { results: results.clone() }).expect("a table");
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 2 + targets(&rows()).len());
        let expected = "| produce: 16 KiB batches, unsynced: rate | kafka | at least 12.0 \
                        | 10.0 (10.0 to 10.0) | missed |  |  |  |  |";
        assert_eq!(lines[2], expected);
        std::fs::write(&results, r#"{"targets": []}"#).expect("is written");
        assert!(super::table(&TableArgs { results }).is_err());
    }

    #[test]
    fn results_from_before_there_were_limits_are_read() {
        let row = r#"{"targets": [{"what": "a", "over": "kafka", "aim": "at least 2.0",
            "ratio": {"median": 1.0, "least": 0.5, "most": 2.0}, "is_met": false}]}"#;
        let Results { targets } = serde_json::from_str(row).expect("the results of then");
        assert!(render(&targets).contains("| 1.00 (0.500 to 2.00) | missed |  |  |  |  |"));
    }
}
