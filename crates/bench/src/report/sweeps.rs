//! Curves of the experiments that change one thing step by step.

use super::chart::amount;
use super::curves::{Curve, Frame, Scale, curves};
use super::palette::Palette;
use super::scene::{Pen, Scene};
use super::summary::{SideSummary, WorkSummary};
use super::text::title;
use crate::generator::TIMELINE_STEP;
use crate::measure::{Durability, Row};

/// What changes along an experiment, if something does, and what that does to a side.
pub(super) fn sweep(
    experiment: &str,
    works: &[&WorkSummary],
    palette: &Palette<'_>,
) -> Option<Scene> {
    type Along = fn(&WorkSummary) -> Option<f64>;
    type Figure = fn(&SideSummary) -> Option<f64>;
    let (along, figure, names): (Along, Figure, _) = match experiment {
        "appends" => (
            // Reads are another thing.
            |work| Some(work.parameters.producers as f64).filter(|&connections| connections > 0.0),
            |side| side.records_per_second.map(|spread| spread.median),
            ("connections", "records a second"),
        ),
        // Works with a consumer are another thing.
        "latency" => (
            |work| work.parameters.rate.filter(|_| work.parameters.consumers == 0),
            |side| side.p99_ms.map(|spread| spread.median),
            ("records a second that are asked for", "99th percentile, ms"),
        ),
        _ => return None,
    };
    let mut drawn: Vec<Curve> = Vec::new();
    for work in works {
        for side in &work.sides {
            let (Some(x), Some(y)) = (along(work), figure(side)) else { continue };
            let durability = work.parameters.durability;
            let name = format!("{} {}", side.side, durability.map_or("", Durability::name));
            let is_dashed = durability == Some(Durability::Unsynced);
            let pen = Pen { color: palette.color(&side.side), is_dashed };
            match drawn.iter_mut().find(|known| known.name.as_ref() == Some(&name)) {
                Some(known) => known.points.push((x, y)),
                None => drawn.push(Curve { name: Some(name), pen, points: vec![(x, y)] }),
            }
        }
    }
    let (across, upwards) = ((Scale::Powers, names.0), (Scale::Powers, names.1));
    let frame = Frame { title: experiment, note: None, across, upwards };
    drawn.iter().any(|curve| curve.points.len() > 1).then(|| curves(frame, &drawn))
}

/// The rate of each tenth of a second against what was sent until then, as figures 4 and 5 of the
/// paper have it: of each side the round with the median rate. When something arrives that is not acknowledged nobody
/// knows, so what was handed over is drawn, and beside it the rate until all had arrived.
pub(super) fn against_sent(work: &WorkSummary, rows: &[Row], palette: &Palette<'_>) -> Scene {
    let (mut drawn, mut is_unanswered) = (Vec::new(), false);
    for side in &work.sides {
        let Some(row) = median_round(work, &side.side, rows) else { continue };
        let pen = Pen::solid(palette.color(&side.side));
        let points = rates_while_sent(row);
        let last = points.last().map_or(0.0, |point| point.0);
        // Of a side that is much slower than another the name may be all that can be read.
        let name = format!("{} {}/s", side.side, amount(row.records_per_second()));
        drawn.push(Curve { name: Some(name), pen, points });
        if row.is_unanswered() {
            is_unanswered = true;
            let points = [0.0, last].map(|x| (x, row.records_per_second())).to_vec();
            drawn.push(Curve { name: None, pen: pen.dashed(), points });
        }
    }
    let note = match is_unanswered {
        true => {
            "each side's median round, as handed to the socket; dashed: the rate until all had arrived"
        }
        false => "each side's median round",
    };
    let title = format!("{}: {}", work.experiment, title(work));
    let frame = Frame {
        title: &title,
        note: Some(note),
        across: (Scale::Amounts, "MB of values so far"),
        upwards: (Scale::Amounts, "records a second"),
    };
    curves(frame, &drawn)
}

/// The run in the middle of a side's, of two the slower.
fn median_round<'a>(work: &WorkSummary, side: &str, rows: &'a [Row]) -> Option<&'a Row> {
    let of_side = rows.iter().filter(|row| row.key() == work.key() && row.side == side);
    let mut of_side: Vec<&Row> = of_side.collect();
    of_side.sort_by(|a, b| a.records_per_second().total_cmp(&b.records_per_second()));
    of_side.get(of_side.len().saturating_sub(1) / 2).copied()
}

/// The rate in each step of a run's timeline, from what had been sent before it to what had after it, in MB. Where
/// nothing was done both are the same, and the curve goes down and up. In long runs it is that of several steps, so that
/// what is to be seen is not how a disk breathes.
fn rates_while_sent(row: &Row) -> Vec<(f64, f64)> {
    const POINTS_MAX: usize = 200;
    let steps = row.timeline.len().div_ceil(POINTS_MAX).max(1);
    let step_seconds = steps as f64 * TIMELINE_STEP.as_secs_f64();
    // The rate of a shorter rest would be that of a request or none.
    let rest_seconds_min = step_seconds / 2.0;
    let megabytes_in_record = row.value_bytes as f64 / 1e6 / row.records.max(1) as f64;
    let mut sent_megabytes = 0.0;
    let mut points = Vec::new();
    for (number, records) in row.timeline.chunks(steps).enumerate() {
        let records: u64 = records.iter().sum();
        let rest_seconds = row.seconds - number as f64 * step_seconds;
        let seconds = rest_seconds.min(step_seconds);
        if seconds < rest_seconds_min {
            continue;
        }
        let rate = records as f64 / seconds;
        points.push((sent_megabytes, rate));
        sent_megabytes += records as f64 * megabytes_in_record;
        points.push((sent_megabytes, rate));
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Durability;
    use crate::report::summary::{summarize, tests::row};

    #[test]
    fn appends_become_a_curve_over_connections() {
        let rows = [1, 4, 128].map(|connections| {
            let mut row = row(&format!("{connections}"), Durability::Synced, "logway", 1, 1000);
            row.parameters.producers = connections;
            row
        });
        let (works, palette) = (summarize(&rows), Palette::of(&["logway"]));
        let works: Vec<&WorkSummary> = works.iter().collect();
        assert!(sweep("appends", &works, &palette).is_some());
        assert!(sweep("appends", &works[..1], &palette).is_none(), "one point is no curve");
        assert!(sweep("produce", &works, &palette).is_none());
    }

    #[test]
    fn unsynced_is_dashed_and_every_name_is_to_be_read() {
        use crate::report::scene::Mark;

        let sides = ["logway", "kafka", "rabbitmq", "activemq", "nats", "null", "bare"];
        let mut rows = Vec::new();
        for side in sides {
            for durability in [Durability::Synced, Durability::Unsynced] {
                for producers in [1, 128] {
                    let mut row = row(&format!("{producers}"), durability, side, 1, 1000);
                    row.parameters.producers = producers;
                    rows.push(row);
                }
            }
        }
        let works = summarize(&rows);
        let works: Vec<&WorkSummary> = works.iter().collect();
        let scene = sweep("appends", &works, &Palette::of(&sides)).expect("a plot");
        assert!(scene.cut_texts().is_empty(), "{:?}", scene.cut_texts());
        let dashed = scene.marks.iter().filter(
            |mark| matches!(mark, Mark::Line { pen, points, .. } if pen.is_dashed && points.len() == 2),
        );
        // Each with its example in the legend.
        assert_eq!(dashed.count(), 2 * sides.len());
    }

    #[test]
    fn the_round_that_is_drawn_is_the_one_in_the_middle() {
        let rows: Vec<Row> = [(1, 900), (2, 100), (3, 500)]
            .map(|(round, records)| row("a", Durability::Unsynced, "logway", round, records))
            .into();
        let works = summarize(&rows);
        let round = |rows: &[Row]| median_round(&works[0], "logway", rows).map(|row| row.round);
        assert_eq!((round(&rows), round(&rows[..2]), round(&[])), (Some(3), Some(2), None));
        let scene = against_sent(&works[0], &rows, &Palette::of(&["logway"]));
        let drawn = crate::report::svg::render(&scene);
        assert!(drawn.contains("median") && drawn.contains(">logway 250/s<"), "{drawn}");
    }

    #[test]
    fn beside_what_was_only_sent_stands_the_rate_until_it_arrived() {
        let drawn = |acks| {
            let mut row = row("a", Durability::Unsynced, "logway", 1, 1000);
            row.parameters.acks = Some(acks);
            let scene = against_sent(&summarize(&[row.clone()])[0], &[row], &Palette::of(&[]));
            assert!(scene.cut_texts().is_empty(), "{:?}", scene.cut_texts());
            crate::report::svg::render(&scene)
        };
        let (sent, acknowledged) = (drawn("0"), drawn("1"));
        assert!(sent.contains("stroke-dasharray") && sent.contains("dashed: the rate"));
        assert!(!acknowledged.contains("dash"));
    }

    #[test]
    fn a_stall_is_a_point_and_the_rest_of_a_step_has_its_own_rate() {
        let mut row = row("a", Durability::Unsynced, "logway", 1, 1_000_000);
        row.value_bytes = 100_000_000;
        row.timeline = vec![600_000, 0, 400_000];
        row.seconds = 0.28;
        let rounded: Vec<(i64, i64)> = rates_while_sent(&row)
            .into_iter()
            .map(|(megabytes, rate)| (megabytes.round() as i64, rate.round() as i64))
            .collect();
        let (full, none, rest) = (6_000_000, 0, 5_000_000);
        let expected = [(0, full), (60, full), (60, none), (60, none), (60, rest), (100, rest)];
        assert_eq!(rounded, expected);
        row.seconds = 0.21;
        assert_eq!(rates_while_sent(&row).len(), 4);
        (row.timeline, row.seconds) = (vec![1; 1000], 100.0);
        assert_eq!(rates_while_sent(&row).len(), 2 * 200);
    }
}
