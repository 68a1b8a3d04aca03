//! A finished report as one page of Markdown: what of it is published.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use serde::Deserialize;

use super::growth::Growth;
use super::targets::TargetRow;
use super::text::short;
use super::{Omission, Statement, markdown, omission};
use crate::measure::{Durability, Spread};

/// Print a finished report as one Markdown page of figures, for publication beside its `results.csv`
///
/// It has the machine, the brokers with their settings, the medians of each work, and the table of aims.
#[derive(Debug, Clone, Args)]
pub(crate) struct PageArgs {
    /// The report's directory, or its `results.json`
    #[arg(value_name = "REPORT")]
    pub results: PathBuf,
    /// What stands on top of the page [default: the experiment's name]
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
}

/// What is read of a report.
#[derive(Debug, Deserialize)]
struct Results {
    name: String,
    ended_early: Option<String>,
    statement: Statement,
    rows: Vec<Run>,
    omissions: Vec<Omission>,
    targets: Vec<TargetRow>,
    growth: Vec<Growth>,
}

/// A row as a report shows it.
#[derive(Debug, Deserialize)]
struct Run {
    experiment: String,
    work: String,
    side: String,
    parameters: Promise,
    records: u64,
    records_per_second: Option<f64>,
    value_megabytes_per_second: Option<f64>,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    p99_9_ms: Option<f64>,
    broker_cpu_seconds_per_value_gigabyte: Option<f64>,
    broker_cpu_seconds_per_million_requests: Option<f64>,
    broker_cpu_seconds_per_million_records: Option<f64>,
    is_generator_bound: bool,
    unanswered: u64,
    usage: Used,
}

/// Of a row's parameters.
#[derive(Debug, Deserialize)]
struct Promise {
    durability: Option<Durability>,
}

/// Of what a row used.
#[derive(Debug, Deserialize)]
struct Used {
    memory: Option<Memory>,
}

/// Of a process's memory.
#[derive(Debug, Deserialize)]
struct Memory {
    resident_bytes: u64,
}

/// The page of the report.
///
/// # Errors
///
/// It cannot be read, or is no report.
pub(crate) fn page(args: &PageArgs) -> anyhow::Result<String> {
    let results: Results = markdown::read(&args.results)?;
    let title = args.title.clone().unwrap_or_else(|| format!("logway-bench {}", results.name));
    Ok(render(&results, &title))
}

fn render(results: &Results, title: &str) -> String {
    let mut page = format!("# {title}\n\n");
    if let Some(reason) = &results.ended_early {
        push(&mut page, format_args!("This is not all that was asked for: {reason}\n\n"));
    }
    page.push_str(&stated(&results.statement));
    if results.targets.iter().any(|target| target.ratio.is_some()) {
        page.push_str("\n## What is to be reached\n\n");
        page.push_str(&markdown::render(&results.targets));
    }
    page.push_str("\n## Figures\n\n");
    page.push_str(FIGURES);
    page.push_str(&figures(&results.rows));
    for growth in &results.growth {
        let Growth { work, side, stored_megabytes, first_tenth, last_tenth } = growth;
        push(
            &mut page,
            format_args!(
                "\n{work}, {side}: {first_tenth:.0} records a second in the first tenth of \
                 {stored_megabytes:.0} MB, {last_tenth:.0} in the last.\n"
            ),
        );
    }
    let sentences = omission::sentences(&results.omissions);
    if !sentences.is_empty() {
        page.push_str("\n## What was not measured\n\n");
        sentences.iter().for_each(|sentence| push(&mut page, format_args!("- {sentence}\n")));
    }
    page
}

/// What the columns of the figures are.
const FIGURES: &str = "Medians of the rounds; in parentheses the least and the most. `≥`: the generator was busy, and \
    the broker can do at least this. CPU and memory are those of the broker's processes.\n\n\
    | work | | broker | records/s | MB/s | p50 ms | p99 ms | p99.9 ms | CPU s a GB | CPU us a request | CPU us a record | RSS MB |\n\
    |---|---|---|---|---|---|---|---|---|---|---|---|\n";

fn stated(statement: &Statement) -> String {
    let (machine, sides) = (&statement.machine, &statement.sides);
    let mut text = format!(
        "{} cores of {}, {} GB of memory, {}, {}, TCP with {}, data on {}. {} rounds of {} s after {} s of warm-up",
        machine.cores,
        machine.processor,
        short(machine.memory_bytes as f64 / 1e9),
        machine.system,
        machine.kernel,
        machine.congestion_control,
        machine.data_file_system,
        statement.rounds,
        statement.measured_seconds,
        statement.warm_up_seconds,
    );
    statement.other_lengths.iter().for_each(|other| push(&mut text, format_args!(", {other}")));
    push(
        &mut text,
        format_args!(
            ". {} MB are written before a run that reads or restarts. The load is made by {}.\n\n\
             | broker | version | started as | settings |\n|---|---|---|---|\n",
            statement.preloaded_megabytes, statement.generator,
        ),
    );
    for side in sides {
        let code = |text: &str| match text.is_empty() {
            true => String::new(),
            false => format!("`{}`", text.replace('|', "\\|")),
        };
        let commands: Vec<String> = side.commands().into_iter().map(code).collect();
        let command = commands.join("<br>");
        let settings: Vec<String> = side.settings.iter().map(|line| code(line)).collect();
        let (name, version, settings) = (&side.name, &side.version, settings.join("<br>"));
        push(&mut text, format_args!("| {name} | {version} | {command} | {settings} |\n"));
    }
    text
}

/// A line for each work, durability and side, in the order of the runs.
fn figures(rows: &[Run]) -> String {
    let mut groups: Vec<Vec<&Run>> = Vec::new();
    for row in rows {
        match groups.iter_mut().find(|group| group[0].key() == row.key()) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups.iter().map(|group| line(group)).collect()
}

fn line(runs: &[&Run]) -> String {
    let first = runs[0];
    let spread =
        |figure: fn(&Run) -> Option<f64>| Spread::of(runs.iter().copied().filter_map(figure));
    let whole = |figure: fn(&Run) -> Option<f64>| {
        spread(figure).map_or(String::new(), |Spread { median, least, most }| {
            let bound = if runs.iter().any(|run| run.is_generator_bound) { "≥ " } else { "" };
            format!("{bound}{median:.0} ({least:.0} to {most:.0})")
        })
    };
    let median = |figure: fn(&Run) -> Option<f64>| {
        spread(figure).map_or(String::new(), |spread| short(spread.median))
    };
    let unanswered: u64 = runs.iter().map(|run| run.unanswered).sum();
    let unanswered = match unanswered {
        0 => String::new(),
        count => format!(", {count} unanswered"),
    };
    format!(
        "| {}: {}{unanswered} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
        first.experiment,
        first.work,
        first.parameters.durability.map_or("", Durability::name),
        first.side,
        whole(|run| run.records_per_second.filter(|_| run.records > 0)),
        median(|run| run.value_megabytes_per_second.filter(|&rate| rate > 0.0)),
        median(|run| run.p50_ms),
        median(|run| run.p99_ms),
        median(|run| run.p99_9_ms),
        median(|run| run.broker_cpu_seconds_per_value_gigabyte),
        median(|run| run.broker_cpu_seconds_per_million_requests),
        median(|run| run.broker_cpu_seconds_per_million_records),
        median(|run| Some(run.usage.memory.as_ref()?.resident_bytes as f64 / 1e6)),
    )
}

impl Run {
    /// What is the same in all rounds.
    fn key(&self) -> (&str, &str, Option<Durability>, &str) {
        (&self.experiment, &self.work, self.parameters.durability, &self.side)
    }
}

/// Writing to a string cannot fail.
fn push(text: &mut String, more: std::fmt::Arguments<'_>) {
    let _ = text.write_fmt(more);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::html::tests::report;
    use crate::report::write;

    #[test]
    fn a_page_has_the_figures_of_a_report() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut report = report();
        report.output = directory.path().to_owned();
        write(&report).expect("it is written");
        let args = PageArgs { results: report.output.clone(), title: Some("a title".to_owned()) };
        insta::assert_snapshot!("page", page(&args).expect("a page"));
        let error = page(&PageArgs { results: report.output.join("nothing"), title: None });
        assert!(error.expect_err("there is none").to_string().contains("nothing"));
    }
}
