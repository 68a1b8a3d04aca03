//! Curves of the experiments that change one thing step by step.

use super::curves::{Across, Curve, curves};
use super::growth::is_growth;
use super::scene::Scene;
use super::summary::{SideSummary, WorkSummary};
use crate::measure::Row;

/// What changes along an experiment, if something does, and what that does to a side.
pub(super) fn sweep(experiment: &str, works: &[&WorkSummary]) -> Option<Scene> {
    type Along = fn(&WorkSummary) -> Option<f64>;
    type Figure = fn(&SideSummary) -> Option<f64>;
    let (along, figure, names): (Along, Figure, _) = match experiment {
        "appends" => (
            |work| Some(work.parameters.producers as f64),
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
    let mut drawn: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for work in works {
        for side in &work.sides {
            let (Some(x), Some(y)) = (along(work), figure(side)) else { continue };
            let durability = work.parameters.durability.map_or("", |durability| durability.name());
            let name = format!("{} {durability}", side.side);
            match drawn.iter_mut().find(|(known, _)| *known == name) {
                Some((_, points)) => points.push((x, y)),
                None => drawn.push((name, vec![(x, y)])),
            }
        }
    }
    let is_curve = drawn.iter().any(|(_, points)| points.len() > 1);
    let drawn: Vec<Curve<'_>> =
        drawn.iter().map(|(name, points)| Curve { name, points: points.clone() }).collect();
    is_curve.then(|| curves(experiment, Across::Powers, names, &drawn))
}

/// The rate against what was sent until then, as figures 4 and 5 of the paper have it: the first round of
/// one work on each side. A point is a tenth of a second or, in long runs, several, so that what is to be
/// seen is not how a disk breathes.
pub(super) fn against_sent(work: &WorkSummary, rows: &[Row]) -> Scene {
    const TENTHS_IN_SECOND: f64 = 10.0;
    const POINTS_MAX: usize = 200;
    let of_work = rows.iter().filter(|row| row.key() == work.key() && row.round == 1);
    let drawn: Vec<Curve<'_>> = of_work
        .map(|row| {
            let megabytes_in_record = row.bytes as f64 / 1e6 / row.records.max(1) as f64;
            let mut sent_megabytes = 0.0;
            // What ends when enough was sent ends within a tenth.
            let whole = row.timeline.len().saturating_sub(usize::from(is_growth(&row.work)));
            let timeline = &row.timeline[..whole];
            let tenths_in_point = timeline.len().div_ceil(POINTS_MAX).max(1);
            let points = timeline.chunks(tenths_in_point).map(|tenths| {
                let records = tenths.iter().sum::<u64>() as f64;
                sent_megabytes += records * megabytes_in_record;
                (sent_megabytes, records * TENTHS_IN_SECOND / tenths.len() as f64)
            });
            Curve { name: &row.side, points: points.collect() }
        })
        .collect();
    let title = format!("{}: {}", work.experiment, work.work);
    curves(&title, Across::Amounts, ("MB so far", "records a second"), &drawn)
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
        let works = summarize(&rows);
        let works: Vec<&WorkSummary> = works.iter().collect();
        assert!(sweep("appends", &works).is_some());
        assert!(sweep("appends", &works[..1]).is_none(), "one point is no curve");
        assert!(sweep("produce", &works).is_none());
    }

    #[test]
    fn rates_are_drawn_against_what_was_sent() {
        let rows = [row("a", Durability::Unsynced, "logway", 1, 1000)];
        let scene = against_sent(&summarize(&rows)[0], &rows);
        assert!(crate::report::svg::render(&scene).contains("polyline"));
    }
}
