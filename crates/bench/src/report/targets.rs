//! What Logway is to reach, and what a session says of it.

use serde::Serialize;

use super::text::short;
use crate::measure::Durability::{self, Synced, Unsynced};
use crate::measure::{Row, Spread, compare};
use crate::side::{KAFKA, NULL, OURS};
use crate::works;

/// One aim with what was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct TargetRow {
    pub(super) what: String,
    pub(super) over: String,
    pub(super) aim: String,
    /// Our figure over the other; none if a session has not measured both.
    pub(super) ratio: Option<Spread>,
    /// Judged by the median.
    pub(super) is_met: Option<bool>,
}

/// The rows of a work.
#[derive(Debug, Clone, Copy)]
struct Of {
    side: &'static str,
    experiment: &'static str,
    /// What its name begins with.
    work: &'static str,
    durability: Option<Durability>,
}

/// What is compared.
#[derive(Debug, Clone, Copy)]
enum Figure {
    Rate,
    Megabytes,
    CpuPerRecord,
    CpuPerGigabyte,
    P50,
    P99,
    P99_9,
    Resident,
}

/// A bound for a ratio.
#[derive(Debug, Clone, Copy)]
enum Aim {
    /// At least so much.
    Floor(f64),
    /// At most so much.
    Ceiling(f64),
    /// At most one part in so many.
    OneIn(f64),
}

struct Target {
    ours: Of,
    theirs: Of,
    figure: Figure,
    aim: Aim,
}

/// The table, as far as the rows have anything of it.
pub(super) fn targets(rows: &[Row]) -> Vec<TargetRow> {
    let table: Vec<TargetRow> = all().iter().map(|target| target.judge(rows)).collect();
    if table.iter().any(|row| row.ratio.is_some()) { table } else { Vec::new() }
}

fn all() -> Vec<Target> {
    use Aim::{Ceiling, Floor, OneIn};
    use Figure::{CpuPerGigabyte, CpuPerRecord, Megabytes, P50, P99, P99_9, Rate, Resident};
    let produce = |work, durability| Of::ours("produce", work, Some(durability));
    let appends = |work, durability| Of::ours("appends", work, Some(durability));
    let latency = |work, durability| Of::ours("latency", work, Some(durability));
    let fetched = Of::ours("fetch", works::FETCH_1_MIB, None);
    let fetched_more = Of::ours("fetch", works::FETCH_8_MIB, None);
    let batches = produce(works::BATCHES_OF_16_KIB, Unsynced);
    let synced = produce(works::BATCHES_OF_16_KIB, Synced);
    let large = produce(works::BATCHES_OF_1_MIB, Unsynced);
    let spread = appends(works::APPENDERS_ALONE, Synced);
    let paced = latency(works::ACKNOWLEDGED_AT_1000, Synced);
    let start = Of::ours("start", works::START, None);
    let unsynced = |of: Of| Of { durability: Some(Unsynced), ..of.on(KAFKA) };
    let over_kafka = |ours: Of, figure, aim| Target { ours, theirs: ours.on(KAFKA), figure, aim };
    let over = |ours, theirs, figure, aim| Target { ours, theirs, figure, aim };
    vec![
        over_kafka(batches, Rate, Floor(12.0)),
        over_kafka(batches, CpuPerRecord, OneIn(15.0)),
        over(synced, unsynced(synced), Rate, Floor(2.5)),
        over_kafka(large, Rate, Floor(6.0)),
        over(large, produce(works::FILES_ALONE, Unsynced), Megabytes, Floor(0.8)),
        over_kafka(produce(works::BATCH_OF_1, Unsynced), Rate, Floor(25.0)),
        over_kafka(spread, Rate, Floor(30.0)),
        over(spread, unsynced(spread), Rate, Floor(3.0)),
        over(spread, appends(works::APPENDERS_TOGETHER, Synced), Rate, Floor(0.6)),
        over_kafka(fetched, Rate, Floor(2.5)),
        over_kafka(fetched_more, Rate, Floor(2.5)),
        over(fetched, fetched.on(NULL), CpuPerGigabyte, Ceiling(1.3)),
        over(fetched_more, fetched_more.on(NULL), CpuPerGigabyte, Ceiling(1.3)),
        over_kafka(produce(works::HUNDRED_PARTITIONS, Synced), Rate, Floor(15.0)),
        over(paced, unsynced(paced), P50, OneIn(2.0)),
        over(paced, unsynced(paced), P99, OneIn(3.0)),
        over_kafka(latency(works::END_TO_END_AT, Unsynced), P99_9, OneIn(3.0)),
        over_kafka(start, P50, OneIn(50.0)),
        over_kafka(start, Resident, OneIn(15.0)),
        over_kafka(batches, Resident, OneIn(20.0)),
        over_kafka(Of::ours("start", works::RESTART, Some(Unsynced)), P50, OneIn(100.0)),
    ]
}

impl Of {
    fn ours(experiment: &'static str, work: &'static str, durability: Option<Durability>) -> Of {
        Of { side: OURS, experiment, work, durability }
    }

    fn on(self, side: &'static str) -> Of {
        Of { side, ..self }
    }

    /// A figure of each round. A name that goes on, as with more partitions, is another work's.
    fn by_round(self, rows: &[Row], figure: Figure) -> Vec<(u32, f64)> {
        let is_named = |work: &str| match self.work.ends_with(' ') {
            true => work.starts_with(self.work),
            false => work == self.work,
        };
        rows.iter()
            .filter(|row| (row.side.as_str(), row.experiment) == (self.side, self.experiment))
            .filter(|row| is_named(&row.work) && row.parameters.durability == self.durability)
            .filter_map(|row| Some((row.round, figure.of(row)?)))
            .collect()
    }
}

impl Figure {
    fn of(self, row: &Row) -> Option<f64> {
        match self {
            Figure::Rate => Some(row.records_per_second()),
            Figure::Megabytes => Some(row.megabytes_per_second()),
            Figure::CpuPerRecord => row.broker_cpu_seconds_per_million_records(),
            Figure::CpuPerGigabyte => row.broker_cpu_seconds_per_gigabyte(),
            Figure::P50 => Some(row.latency_ms(0.5)),
            Figure::P99 => Some(row.latency_ms(0.99)),
            Figure::P99_9 => Some(row.latency_ms(0.999)),
            Figure::Resident => row.resident_megabytes(),
        }
    }

    fn name(self, of: Of) -> &'static str {
        match self {
            Figure::Rate | Figure::Megabytes => "rate",
            Figure::CpuPerRecord => "broker CPU a record",
            Figure::CpuPerGigabyte => "broker CPU a GB",
            Figure::P50 if of.experiment == "start" => "time",
            Figure::P50 => "p50",
            Figure::P99 => "p99",
            Figure::P99_9 => "p99.9",
            Figure::Resident => "resident memory",
        }
    }
}

impl Aim {
    fn is_met(self, ratio: f64) -> bool {
        match self {
            Aim::Floor(least) => ratio >= least,
            Aim::Ceiling(most) => ratio <= most,
            Aim::OneIn(parts) => ratio * parts <= 1.0,
        }
    }

    fn text(self) -> String {
        match self {
            Aim::Floor(least) => format!("at least {}", short(least)),
            Aim::Ceiling(most) => format!("at most {}", short(most)),
            Aim::OneIn(parts) => format!("at most 1/{parts} ({})", short(1.0 / parts)),
        }
    }
}

impl Target {
    fn judge(&self, rows: &[Row]) -> TargetRow {
        let Target { ours, theirs, figure, aim } = *self;
        let figures = |of: Of| of.by_round(rows, figure);
        let ratio = compare(&figures(ours), &figures(theirs));
        let durability =
            |of: Of| of.durability.map_or(String::new(), |is| format!(", {}", is.name()));
        let is_same_work = (ours.work, ours.durability) == (theirs.work, theirs.durability);
        let over = match (theirs.side, is_same_work) {
            (side, true) => side.to_owned(),
            (OURS, false) => format!("{}{}", theirs.work, durability(theirs)),
            (side, false) => format!("{side}{}", durability(theirs)),
        };
        TargetRow {
            what: format!(
                "{}: {}{}: {}",
                ours.experiment,
                ours.work.trim_end(),
                durability(ours),
                figure.name(ours)
            ),
            over,
            aim: aim.text(),
            ratio,
            is_met: ratio.map(|ratio| aim.is_met(ratio.median)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::summary::tests::rows;

    #[test]
    fn an_aim_is_judged_by_the_median_over_the_rounds() {
        let table = targets(&rows());
        let rate = &table[0];
        assert_eq!(rate.what, "produce: 16 KiB batches, unsynced: rate");
        assert_eq!((rate.ratio.map(|ratio| ratio.median), rate.is_met), (Some(10.0), Some(false)));
        let cpu = &table[1];
        assert_eq!((cpu.ratio.map(|ratio| ratio.median), cpu.is_met), (Some(0.1), Some(false)));
        let synced = &table[2];
        assert_eq!(synced.over, "kafka, unsynced");
        assert_eq!(synced.is_met, Some(true));
        assert_eq!((table[3].ratio, table[3].is_met), (None, None));
    }

    #[test]
    fn without_anything_of_it_there_is_no_table() {
        assert_eq!(targets(&[]), []);
    }

    #[test]
    fn aims_are_bounds_on_one_side() {
        assert!(Aim::Floor(2.0).is_met(2.0) && !Aim::Floor(2.0).is_met(1.9));
        assert!(Aim::Ceiling(1.3).is_met(1.3) && !Aim::Ceiling(1.3).is_met(1.31));
        assert!(Aim::OneIn(50.0).is_met(0.02) && !Aim::OneIn(50.0).is_met(0.03));
    }
}
