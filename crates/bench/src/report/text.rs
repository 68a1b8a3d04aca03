//! Rows and summaries for a terminal.

use std::fmt::Write;

use super::comparison::{Comparison, SIGNS};
use super::summary::{Ratio, SideSummary, WorkSummary};
use super::targets::{TargetRow, measured};
use crate::measure::{Row, Spread};

/// The names of [`line`]'s columns.
pub(crate) const HEADING: &str = "work                              durability  side        round    \
                           records/s  value MB/s     p50 ms     p99 ms   p99.9 ms  CPU s/value GB  \
                           CPU us/req  CPU us/rec   RSS MB\n";

/// One run.
pub(crate) fn line(row: &Row) -> String {
    let optional = |figure: Option<f64>| figure.map_or("-".to_owned(), short);
    let rate = |figure: f64| row.has_rate().then_some(figure);
    let mut notes = String::new();
    if row.is_generator_bound() {
        let percent = row.generator_busy() * 100.0;
        let bound = if row.parameters.is_open_loop() { "no slower than" } else { "at least" };
        write!(notes, "  the generator was busy {percent:.0} %: {bound} this")
            .expect("a string takes everything");
    }
    if row.unanswered > 0 {
        write!(notes, "  {} unanswered", row.unanswered).expect("a string takes everything");
    }
    format!(
        "{:<32}  {:<10}  {:<10}  {:>5}  {:>11}  {:>10}  {:>9}  {:>9}  {:>9}  {:>14}  {:>10}  {:>10}  {:>7}{notes}\n",
        row.work,
        row.parameters.durability.map_or("-", |durability| durability.name()),
        row.side,
        row.round,
        rate(row.records_per_second()).map_or("-".to_owned(), |rate| format!("{rate:.0}")),
        optional(rate(row.megabytes_per_second())),
        optional(row.latency_ms(0.5)),
        optional(row.latency_ms(0.99)),
        optional(row.latency_ms(0.999)),
        optional(row.broker_cpu_seconds_per_gigabyte()),
        optional(row.broker_cpu_seconds_per_million_requests()),
        optional(row.broker_cpu_seconds_per_million_records()),
        optional(row.resident_megabytes()),
    )
}

/// Medians of each work, and ratios with their spread.
pub(super) fn summary(works: &[WorkSummary]) -> String {
    let mut text = String::new();
    for work in works.iter().filter(|work| work.sides.len() > 1) {
        writeln!(text, "\n{}: {}", work.experiment, title(work))
            .expect("a string takes everything");
        for side in &work.sides {
            text.push_str(&side_line(side));
        }
        for ratio in &work.ratios {
            text.push_str(&ratio_line(ratio));
        }
    }
    let ratios = works.iter().flat_map(|work| &work.ratios);
    if ratios.flat_map(Ratio::figures).flatten().any(Comparison::is_marked) {
        writeln!(text, "\n{SIGNS}").expect("a string takes everything");
    }
    text
}

/// What was to be reached, what was, and what this machine allows.
pub(super) fn target_table(targets: &[TargetRow]) -> String {
    let mut text = String::new();
    if !targets.is_empty() {
        writeln!(
            text,
            "\n{:<74} {:<44} {:<22} {:<30} {:<12} {:<30} {:<30} ours over bare",
            "ours", "over", "aim", "ratio", "", "null", "bare"
        )
        .expect("a string takes everything");
    }
    let (targets, about_others) = measured(targets);
    for target in targets {
        let TargetRow { what, over, aim, ratio, limit, .. } = target;
        writeln!(
            text,
            "{what:<74} {over:<44} {aim:<22} {:<30} {:<12} {:<30} {:<30} {}",
            of(*ratio),
            target.verdict(),
            of(limit.null),
            of(limit.bare),
            of(limit.ours_over_bare),
        )
        .expect("a string takes everything");
    }
    if let Some(sentence) = about_others {
        writeln!(text, "\n{sentence}").expect("a string takes everything");
    }
    text
}

/// The work with its durability.
pub(super) fn title(work: &WorkSummary) -> String {
    match work.parameters.durability {
        Some(durability) => format!("{}, {}", work.work, durability.name()),
        None => work.work.clone(),
    }
}

fn side_line(side: &SideSummary) -> String {
    let median = |spread: Option<Spread>| spread.map_or("-".to_owned(), |s| short(s.median));
    let bound = if side.is_generator_bound { "  (generator-bound)" } else { "" };
    let unanswered = match side.unanswered {
        0 => String::new(),
        unanswered => format!("  ({unanswered} unanswered)"),
    };
    format!(
        "  {:<10} {:>12} rec/s {:>9} value MB/s  p50 {:>8} p99 {:>8} p99.9 {:>8} ms  {:>8} CPU s/value GB \
         {:>8} us/req {:>8} us/rec  RSS {:>6} MB{bound}{unanswered}\n",
        side.side,
        side.records_per_second.map_or("-".to_owned(), |s| format!("{:.0}", s.median)),
        median(side.megabytes_per_second),
        median(side.p50_ms),
        median(side.p99_ms),
        median(side.p99_9_ms),
        median(side.cpu_seconds_per_gigabyte),
        median(side.cpu_us_per_request),
        median(side.cpu_us_per_record),
        median(side.resident_megabytes),
    )
}

fn ratio_line(ratio: &Ratio) -> String {
    let against = ratio.against.map_or(String::new(), |d| format!(" {}", d.name()));
    format!(
        "  over {}{against}: rate {}, CPU a record {}, p50 {}, p99 {}, memory {}\n",
        ratio.side,
        of(ratio.rate),
        of(ratio.cpu_per_record),
        of(ratio.p50),
        of(ratio.p99),
        of(ratio.resident),
    )
}

/// The median, with the extremes over the rounds.
pub(super) fn of(ratio: Option<Comparison>) -> String {
    ratio.map_or("-".to_owned(), |Comparison { spread, bound }| {
        let Spread { median, least, most } = spread;
        format!("{}{} ({}..{})", bound.sign(), short(median), short(least), short(most))
    })
}

/// Three significant digits.
pub(super) fn short(figure: f64) -> String {
    match figure.abs() {
        size if size >= 100.0 => format!("{figure:.0}"),
        size if size >= 10.0 => format!("{figure:.1}"),
        size if size >= 1.0 => format!("{figure:.2}"),
        0.0 => "0".to_owned(),
        size => {
            let decimals = 2 + (-size.log10()).ceil().min(9.0) as usize;
            format!("{figure:.decimals$}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::summary::{summarize, tests::rows};

    #[test]
    fn a_summary_says_who_is_how_much_better() {
        insta::assert_snapshot!("summary", summary(&summarize(&rows())));
    }

    #[test]
    fn figures_have_three_digits_however_small_they_are() {
        let shown = [0.999, 0.5, 0.1, 0.0123, 0.000_456_7].map(short);
        assert_eq!(shown, ["0.999", "0.500", "0.100", "0.0123", "0.000457"]);
    }

    #[test]
    fn the_columns_of_rows_line_up() {
        let line = line(&rows()[0]);
        assert_eq!(line.len(), HEADING.len(), "\n{HEADING}{line}");
    }
}
