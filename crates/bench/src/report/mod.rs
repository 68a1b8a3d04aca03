//! What is left of a session: tables, histograms, plots, and a page with all of it.

mod chart;
mod comparison;
mod csv;
mod curves;
mod figure;
mod growth;
mod html;
mod ingest;
mod markdown;
mod omission;
mod page;
mod palette;
mod plots;
mod png;
mod scene;
mod summary;
mod svg;
mod sweeps;
mod targets;
mod text;

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use serde::{Deserialize, Serialize};

use crate::files::{create_directory, write_file};
use crate::measure::{Machine, Row};
use crate::side::StatedSide;
pub(crate) use markdown::{TableArgs, table};
pub(crate) use omission::Omission;
pub(crate) use page::{PageArgs, page};
pub(crate) use text::{HEADING, line};

/// What holds for all rows of a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Statement {
    /// Where.
    pub machine: Machine,
    /// Who was measured, ours first.
    pub sides: Vec<StatedSide>,
    /// How often each run was repeated.
    pub rounds: u32,
    /// Seconds of each run before anything counted.
    pub warm_up_seconds: f64,
    /// Seconds of each run that counted.
    pub measured_seconds: f64,
    /// Which experiments had other rounds and seconds.
    pub other_lengths: Vec<String>,
    /// Megabytes written before a run that reads or restarts.
    pub preloaded_megabytes: u64,
    /// Partitions, besides the one with data, of a broker that is restarted.
    pub empty_partitions: i32,
    /// What made the load.
    pub generator: String,
}

/// A session's results.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    /// The experiment that was asked for.
    pub name: &'static str,
    /// Why it is not all of that, if it is not.
    pub ended_early: Option<String>,
    /// What holds for all rows.
    pub statement: Statement,
    /// Each run.
    pub rows: Vec<Row>,
    /// What some sides were not asked to do.
    pub omissions: Vec<Omission>,
    /// Where it was written.
    #[serde(skip)]
    pub output: PathBuf,
}

impl Report {
    /// Medians over the rounds, how the sides compare, and what was not measured.
    pub(crate) fn summary(&self) -> String {
        let mut summary = text::summary(&summary::summarize(&self.rows));
        summary.push_str(&text::target_table(&targets::targets(&self.rows)));
        summary.push_str(&growth::text(&growth::growths(&self.rows)));
        if let Some(reason) = &self.ended_early {
            summary.push_str(&format!("\nended early: {reason}\n"));
        }
        for sentence in omission::sentences(&self.omissions) {
            summary.push_str(&format!("\n{sentence}\n"));
        }
        summary
    }
}

/// Writes `results.json`, `results.csv`, `latency.hlog`, `report.html` and `plots/*.png`.
pub(crate) fn write(report: &Report) -> anyhow::Result<()> {
    let output = &report.output;
    let targets = targets::targets(&report.rows);
    let mut json = serde_json::to_value(report)?;
    json["targets"] = serde_json::to_value(&targets)?;
    json["growth"] = serde_json::to_value(growth::growths(&report.rows))?;
    let json = serde_json::to_string_pretty(&json)?;
    write_file(&output.join("results.json"), json)?;
    write_file(&output.join("results.csv"), csv::render(&report.rows))?;
    write_histograms(&report.rows, &output.join("latency.hlog"))?;
    let summaries = summary::summarize(&report.rows);
    let plots = plots::plots(&summaries, &report.rows);
    let page = html::render(report, &summaries, &targets, &plots);
    write_file(&output.join("report.html"), page)?;
    let directory = output.join("plots");
    // Those of an earlier report are not this one's.
    let _ = std::fs::remove_dir_all(&directory);
    create_directory(&directory)?;
    for plot in &plots {
        let path = directory.join(format!("{}.png", plot.name));
        write_file(&path, png::render(&plot.scene)?)?;
    }
    Ok(())
}

/// An interval log with one histogram for each row, its tag `EXPERIMENT/WORK/DURABILITY/SIDE/ROUND`;
/// latencies in nanoseconds, maxima of the log's own columns in milliseconds.
fn write_histograms(rows: &[Row], path: &Path) -> anyhow::Result<()> {
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    let (mut file, mut serializer) = (BufWriter::new(file), V2DeflateSerializer::new());
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("tags: experiment/work/durability/side/round; values in nanoseconds")
        .with_start_time(SystemTime::now())
        .with_max_value_divisor(1e6)
        .begin_log_with(&mut file, &mut serializer)?;
    let mut start = Duration::ZERO;
    for row in rows {
        let durability = row.parameters.durability.map_or("-", |durability| durability.name());
        let (experiment, work, side, round) = (row.experiment, &row.work, &row.side, row.round);
        let plain = |name: &str| name.replace([' ', ',', '/'], "_");
        let (work, side) = (plain(work), plain(side));
        let tag = format!("{experiment}/{work}/{durability}/{side}/{round}");
        let length = Duration::from_secs_f64(row.seconds);
        log.write_histogram(&row.latency_ns, start, length, Tag::new(&tag))
            .map_err(|error| anyhow::anyhow!("cannot write {}: {error:?}", path.display()))?;
        start += length;
    }
    Ok(())
}
