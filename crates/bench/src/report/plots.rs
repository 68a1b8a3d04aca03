//! Which plots a session's rows make.

use super::chart::{BarGroup, bars};
use super::curves::{Across, Curve, curves};
use super::growth::is_growth;
use super::scene::Scene;
use super::summary::{SideSummary, WorkSummary, distinct};
use super::sweeps::{against_sent, sweep};
use super::text::title;
use crate::measure::{Row, Spread};

/// A plot and the name of its file.
pub(crate) struct Plot {
    pub(crate) name: String,
    pub(crate) scene: Scene,
}

/// For each experiment the rates, what they cost, and the latencies of its works.
pub(crate) fn plots(works: &[WorkSummary], rows: &[Row]) -> Vec<Plot> {
    let mut experiments: Vec<&'static str> = works.iter().map(|work| work.experiment).collect();
    experiments.dedup();
    let mut plots = Vec::new();
    for experiment in experiments {
        let works: Vec<&WorkSummary> =
            works.iter().filter(|work| work.experiment == experiment).collect();
        type Figure = fn(&SideSummary) -> Option<Spread>;
        let figures: [(&str, &str, Figure); 4] = [
            ("rate", "records a second", |side| side.records_per_second),
            ("cpu", "broker CPU seconds for a gigabyte", |side| side.cpu_seconds_per_gigabyte),
            ("p99", "99th percentile of the latency, ms", |side| side.p99_ms),
            ("memory", "resident memory, MB", |side| side.resident_megabytes),
        ];
        for (name, what, figure) in figures {
            let scene = bars_of(&format!("{experiment}: {what}"), &works, figure);
            plots.extend(scene.map(|scene| Plot { name: format!("{experiment}-{name}"), scene }));
        }
        let scene = sweep(experiment, &works);
        plots.extend(scene.map(|scene| Plot { name: format!("{experiment}-sweep"), scene }));
        let is_drawn = |work: &&&WorkSummary| experiment == "paper" || is_growth(&work.work);
        for (number, work) in works.iter().filter(is_drawn).enumerate() {
            let name = format!("{experiment}-sent-{}", number + 1);
            plots.push(Plot { name, scene: against_sent(work, rows) });
        }
        let scene = latency_curves(experiment, &works, rows);
        plots.extend(scene.map(|scene| Plot { name: format!("{experiment}-latency"), scene }));
    }
    plots
}

fn bars_of(
    title_text: &str,
    works: &[&WorkSummary],
    figure: fn(&SideSummary) -> Option<Spread>,
) -> Option<Scene> {
    let names = side_names(works);
    let groups: Vec<BarGroup> = works
        .iter()
        .map(|work| {
            let of = |name: &&str| {
                let side = work.sides.iter().find(|side| side.side == **name)?;
                figure(side)
            };
            BarGroup { label: title(work), bars: names.iter().map(of).collect() }
        })
        .filter(|group| group.bars.iter().any(Option::is_some))
        .collect();
    (!groups.is_empty()).then(|| bars(title_text, &names, &groups))
}

/// The whole distribution of the first work that has one on each side, all rounds together.
fn latency_curves(experiment: &str, works: &[&WorkSummary], rows: &[Row]) -> Option<Scene> {
    // A few values are no distribution.
    const VALUES_MIN: u64 = 100;
    let names = side_names(works);
    let distribution = |work: &WorkSummary, name: &str| {
        let of_side = rows.iter().filter(|row| row.key() == work.key() && row.side == name);
        let mut merged = hdrhistogram::Histogram::<u64>::new(3).ok()?;
        for row in of_side {
            merged.add(&row.latency_ns).ok()?;
        }
        (merged.len() >= VALUES_MIN).then_some(merged)
    };
    let work =
        works.iter().find(|work| names.iter().all(|name| distribution(work, name).is_some()))?;
    let drawn = names.iter().filter_map(|name| {
        let histogram = distribution(work, name)?;
        let quantiles = histogram.iter_quantiles(5).map(|step| {
            (1.0 / (1.0 - step.quantile_iterated_to()), step.value_iterated_to() as f64 / 1e6)
        });
        // The maximum lies at infinitely many nines.
        let points = quantiles.filter(|point| point.0.is_finite()).collect();
        Some(Curve { name, points })
    });
    let drawn: Vec<Curve<'_>> = drawn.collect();
    let title = format!("{experiment}: {}", title(work));
    Some(curves(&title, Across::Nines, ("quantile", "latency, ms"), &drawn))
}

fn side_names<'a>(works: &[&'a WorkSummary]) -> Vec<&'a str> {
    distinct(works.iter().flat_map(|work| &work.sides).map(|side| &side.side))
}
