//! Which plots a session's rows make.

use super::chart::{BarGroup, bars};
use super::curves::{Curve, Frame, Scale, curves};
use super::growth::is_growth;
use super::palette::Palette;
use super::scene::{Pen, Scene};
use super::summary::{SideSummary, WorkSummary, distinct};
use super::sweeps::{against_sent, sweep};
use super::text::title;
use crate::measure::{Row, Spread};

/// A plot and the name of its file.
pub(crate) struct Plot {
    pub(crate) name: String,
    pub(crate) scene: Scene,
}

type Figure = fn(&WorkSummary, &SideSummary) -> Option<Spread>;

/// What there are bars of: the name of the plot, what it shows, and the figure.
const BARS: [(&str, &str, Figure); 6] = [
    ("rate", "records a second", |work, side| {
        side.records_per_second.filter(|_| !is_long_read(work))
    }),
    ("read", "megabytes of values a second, long reads", |work, side| {
        side.megabytes_per_second.filter(|_| is_long_read(work))
    }),
    ("cpu", "broker CPU seconds for a gigabyte of values", |_, side| side.cpu_seconds_per_gigabyte),
    // In a closed loop it is only the requests on their way divided by the rate.
    ("p99", "99th percentile of the latency, ms", |work, side| {
        side.p99_ms.filter(|_| work.is_open_loop())
    }),
    ("time", "time until it answers, ms", |work, side| {
        side.p50_ms.filter(|_| work.experiment == "start")
    }),
    ("memory", "resident memory, MB", |work, side| {
        side.resident_megabytes.filter(|_| !work.is_without_broker)
    }),
];

/// Those of `appends`, whose records are so many more that nothing else would be seen beside them.
fn is_long_read(work: &WorkSummary) -> bool {
    work.experiment == "appends" && work.parameters.producers == 0
}

/// For each experiment the rates, what they cost, and the latencies of its works.
pub(crate) fn plots(works: &[WorkSummary], rows: &[Row]) -> Vec<Plot> {
    let mut experiments: Vec<&'static str> = works.iter().map(|work| work.experiment).collect();
    experiments.dedup();
    let sides = distinct(works.iter().flat_map(|work| &work.sides).map(|side| &side.side));
    let palette = Palette::of(&sides);
    let mut plots = Vec::new();
    for experiment in experiments {
        let works: Vec<&WorkSummary> =
            works.iter().filter(|work| work.experiment == experiment).collect();
        for (name, what, figure) in BARS {
            let scene = bars_of(&format!("{experiment}: {what}"), &works, &palette, figure);
            plots.extend(scene.map(|scene| Plot { name: format!("{experiment}-{name}"), scene }));
        }
        let scene = sweep(experiment, &works, &palette);
        plots.extend(scene.map(|scene| Plot { name: format!("{experiment}-sweep"), scene }));
        let is_drawn = |work: &&&WorkSummary| experiment == "paper" || is_growth(&work.work);
        for (number, work) in works.iter().filter(is_drawn).enumerate() {
            let name = format!("{experiment}-sent-{}", number + 1);
            plots.push(Plot { name, scene: against_sent(work, rows, &palette) });
        }
        let scenes = works.iter().filter_map(|work| latency_curves(work, rows, &palette));
        for (number, scene) in scenes.enumerate() {
            plots.push(Plot { name: format!("{experiment}-latency-{}", number + 1), scene });
        }
    }
    plots
}

fn bars_of(
    title_text: &str,
    works: &[&WorkSummary],
    palette: &Palette<'_>,
    figure: Figure,
) -> Option<Scene> {
    let of = |work: &WorkSummary, name: &str| {
        let side = work.sides.iter().find(|side| side.side == name)?;
        figure(work, side)
    };
    let names = distinct(works.iter().flat_map(|work| &work.sides).map(|side| &side.side));
    // Who was not asked for any of it would only take room.
    let is_shown = |name: &&str| works.iter().any(|work| of(work, name).is_some());
    let names: Vec<&str> = names.into_iter().filter(is_shown).collect();
    let group = |work: &&WorkSummary| BarGroup {
        label: title(work),
        bars: names.iter().map(|name| of(work, name)).collect(),
    };
    let groups = works.iter().map(group).filter(|group| group.bars.iter().any(Option::is_some));
    let groups: Vec<BarGroup> = groups.collect();
    (!groups.is_empty()).then(|| bars(title_text, &names, palette, &groups))
}

/// The whole distribution of a work on each side that has one, all rounds together. Only of an open loop: that of a
/// closed one is no result.
fn latency_curves(work: &WorkSummary, rows: &[Row], palette: &Palette<'_>) -> Option<Scene> {
    // A few values are no distribution.
    const VALUES_MIN: u64 = 100;
    if !work.is_open_loop() {
        return None;
    }
    let distribution = |name: &str| {
        let of_side = rows.iter().filter(|row| row.key() == work.key() && row.side == name);
        let mut merged = hdrhistogram::Histogram::<u64>::new(3).ok()?;
        for row in of_side {
            merged.add(&row.latency_ns).ok()?;
        }
        (merged.len() >= VALUES_MIN).then_some(merged)
    };
    let drawn = work.sides.iter().filter_map(|side| {
        let histogram = distribution(&side.side)?;
        let quantiles = histogram.iter_quantiles(5).map(|step| {
            (1.0 / (1.0 - step.quantile_iterated_to()), step.value_iterated_to() as f64 / 1e6)
        });
        // The maximum lies at infinitely many nines.
        let points = quantiles.filter(|point| point.0.is_finite()).collect();
        let pen = Pen::solid(palette.color(&side.side));
        Some(Curve { name: Some(side.side.clone()), pen, points })
    });
    let drawn: Vec<Curve> = drawn.collect();
    let title = format!("{}: {}", work.experiment, title(work));
    let frame = Frame {
        title: &title,
        note: None,
        across: (Scale::Nines, "quantile"),
        upwards: (Scale::Powers, "latency, ms"),
    };
    (!drawn.is_empty()).then(|| curves(frame, &drawn))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Durability;
    use crate::report::scene::Mark;
    use crate::report::summary::{summarize, tests::row, tests::rows};

    fn names(rows: &[Row]) -> Vec<String> {
        plots(&summarize(rows), rows).into_iter().map(|plot| plot.name).collect()
    }

    #[test]
    fn only_open_loops_have_plots_of_their_latencies() {
        let mut rows = rows();
        assert_eq!(names(&rows), ["produce-rate", "produce-cpu", "produce-memory"]);
        for row in &mut rows {
            row.experiment = "latency";
            row.parameters.in_flight = 0;
        }
        let plots = plots(&summarize(&rows), &rows);
        let latencies: Vec<&Plot> =
            plots.iter().filter(|plot| plot.name.starts_with("latency-latency-")).collect();
        let title = |plot: &Plot| match &plot.scene.marks[0] {
            Mark::Text { text, .. } => text.clone(),
            other => panic!("{other:?} comes before the title"),
        };
        let titles: Vec<String> = latencies.iter().map(|plot| title(plot)).collect();
        let expected = ["unsynced", "synced"]
            .map(|durability| format!("latency: 16 KiB batches, {durability}: latency, ms"));
        assert_eq!(titles, expected);
        assert!(plots.iter().any(|plot| plot.name == "latency-p99"));
    }

    #[test]
    fn a_start_has_a_time() {
        let mut row = row("start", Durability::Unsynced, "logway", 1, 1000);
        row.experiment = "start";
        let names = names(&[row]);
        assert!(names.contains(&"start-time".to_owned()), "{names:?}");
        assert!(!names.contains(&"start-p99".to_owned()), "{names:?}");
    }
}
