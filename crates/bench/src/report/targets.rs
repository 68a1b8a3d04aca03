//! What Logway is to reach, and what a session says of it.

use serde::{Deserialize, Serialize};

use super::comparison::{Bound, Comparison};
use super::figure::Figure;
use super::text::short;
use crate::measure::Durability::{self, Synced, Unsynced};
use crate::measure::Row;
use crate::side::{BARE, KAFKA, NULL, OURS};
use crate::works;

/// One aim with what was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct TargetRow {
    pub(super) what: String,
    pub(super) over: String,
    pub(super) aim: String,
    /// Our figure over the other; none if a session has not measured both.
    pub(super) ratio: Option<Comparison>,
    /// Judged by the median; none where that is only a bound, and on the wrong side.
    pub(super) is_met: Option<bool>,
    #[serde(default)]
    pub(super) limit: Limit,
}

/// What this machine allows in the same run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Limit {
    /// The figure of a broker that does nothing, over the same as ours.
    pub(super) null: Option<Comparison>,
    /// That of a broker that only stores.
    pub(super) bare: Option<Comparison>,
    /// Our figure over that of a broker that only stores.
    pub(super) ours_over_bare: Option<Comparison>,
}

/// The rows of a work.
#[derive(Debug, Clone, Copy)]
struct Of {
    side: &'static str,
    experiment: &'static str,
    work: &'static str,
    durability: Option<Durability>,
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

/// What our figure is set over.
#[derive(Debug, Clone, Copy)]
enum Over {
    /// The same figure of other rows.
    Rows(Of),
    /// One of its unit: the aim is a figure by itself.
    Unit(&'static str),
}

struct Target {
    ours: Of,
    over: Over,
    figure: Figure,
    aim: Aim,
}

impl TargetRow {
    /// One word.
    pub(super) fn verdict(&self) -> &'static str {
        match (self.ratio, self.is_met) {
            (None, _) => "not measured",
            (Some(_), Some(true)) => "met",
            (Some(_), Some(false)) => "missed",
            (Some(_), None) => "undecided",
        }
    }

    /// Whether one of its ratios has a sign that is to be explained.
    pub(super) fn is_marked(&self) -> bool {
        let Limit { null, bare, ours_over_bare } = self.limit;
        [self.ratio, null, bare, ours_over_bare].into_iter().flatten().any(Comparison::is_marked)
    }
}

/// Those that were measured, and a sentence about the others, if there are any.
pub(super) fn measured(targets: &[TargetRow]) -> (Vec<&TargetRow>, Option<String>) {
    let measured: Vec<&TargetRow> =
        targets.iter().filter(|target| target.ratio.is_some()).collect();
    let sentence = match targets.len() - measured.len() {
        0 => None,
        1 => Some("1 other aim was not measured.".to_owned()),
        others => Some(format!("{others} other aims were not measured.")),
    };
    (measured, sentence)
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
    let over = |ours, theirs, figure, aim| Target { ours, over: Over::Rows(theirs), figure, aim };
    let over_kafka = |ours: Of, figure, aim| over(ours, ours.on(KAFKA), figure, aim);
    let alone = |ours, unit, figure, aim| Target { ours, over: Over::Unit(unit), figure, aim };
    let cluster = |work| Of::ours(works::CLUSTER, work, Some(Synced));
    let replicated = cluster(works::BATCHES_OF_16_KIB);
    let replicated_spread = cluster(works::APPENDERS_ALONE);
    let replicated_paced = cluster(works::ACKNOWLEDGED_AT_1000);
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
        over_kafka(latency(works::END_TO_END_AT_LOWEST, Unsynced), P99_9, OneIn(3.0)),
        over_kafka(latency(works::END_TO_END_AT_OWN, Unsynced), P99_9, OneIn(3.0)),
        over_kafka(start, P50, OneIn(50.0)),
        over_kafka(start, Resident, OneIn(15.0)),
        over_kafka(batches, Resident, OneIn(20.0)),
        over_kafka(Of::ours("start", works::RESTART, Some(Unsynced)), P50, OneIn(100.0)),
        over_kafka(Of::ours("start", works::RESTART_AT_ONCE, Some(Unsynced)), P50, OneIn(100.0)),
        over(replicated, unsynced(replicated), Rate, Floor(2.0)),
        over(replicated, unsynced(replicated), CpuPerRecord, OneIn(3.0)),
        over_kafka(replicated_spread, Rate, Floor(40.0)),
        over(replicated_spread, unsynced(replicated_spread), Rate, Floor(1.0)),
        alone(replicated_paced, "1 ms", P50, Ceiling(3.0)),
        alone(replicated, "1 MB", Resident, Ceiling(100.0)),
        alone(replicated_spread, "1 MB", Resident, Ceiling(100.0)),
    ]
}

impl Of {
    fn ours(experiment: &'static str, work: &'static str, durability: Option<Durability>) -> Of {
        Of { side: OURS, experiment, work, durability }
    }

    fn on(self, side: &'static str) -> Of {
        Of { side, ..self }
    }

    /// What it promises, behind its name.
    fn promise(self) -> String {
        self.durability.map_or(String::new(), |durability| format!(", {}", durability.name()))
    }

    /// Its rows: those of a cluster are compared only where that is what is measured.
    fn rows(self, rows: &[Row]) -> Vec<&Row> {
        rows.iter()
            .filter(|row| (row.parameters.replicas > 1) == (self.experiment == works::CLUSTER))
            .filter(|row| (row.side.as_str(), row.experiment) == (self.side, self.experiment))
            .filter(|row| row.work == self.work && row.parameters.durability == self.durability)
            .collect()
    }
}

fn name(figure: Figure, experiment: &str) -> &'static str {
    match figure {
        Figure::Rate | Figure::Megabytes => "rate",
        Figure::CpuPerRecord => "broker CPU a record",
        Figure::CpuPerGigabyte => "broker CPU a GB",
        Figure::P50 if experiment == "start" => "time",
        Figure::P50 => "p50",
        Figure::P99 => "p99",
        Figure::P99_9 => "p99.9",
        Figure::Resident => "resident memory",
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

    /// The same of a ratio that may be but a bound, if it can be told.
    fn judge(self, ratio: Comparison) -> Option<bool> {
        let is_met = self.is_met(ratio.spread.median);
        let wants_more = matches!(self, Aim::Floor(_));
        let can_be_told = match ratio.bound {
            Bound::Exact => true,
            Bound::AtLeast => is_met == wants_more,
            Bound::AtMost => is_met != wants_more,
            Bound::Unclear => false,
        };
        can_be_told.then_some(is_met)
    }

    fn text(self) -> String {
        match self {
            Aim::Floor(least) => format!("at least {}", short(least)),
            Aim::Ceiling(most) => format!("at most {}", short(most)),
            Aim::OneIn(parts) => format!("at most 1/{parts} ({})", short(1.0 / parts)),
        }
    }
}

impl Over {
    fn text(self, ours: Of) -> String {
        let theirs = match self {
            Over::Unit(unit) => return unit.to_owned(),
            Over::Rows(theirs) => theirs,
        };
        let is_same_work = (ours.work, ours.durability) == (theirs.work, theirs.durability);
        match (theirs.side, is_same_work) {
            (side, true) => side.to_owned(),
            (OURS, false) => format!("{}{}", theirs.work, theirs.promise()),
            (side, false) => format!("{side}{}", theirs.promise()),
        }
    }
}

impl Target {
    fn judge(&self, rows: &[Row]) -> TargetRow {
        let Target { ours, over, figure, aim } = *self;
        let ratio = match over {
            Over::Rows(theirs) => Comparison::of(&ours.rows(rows), &theirs.rows(rows), figure),
            Over::Unit(_) => Comparison::alone(&ours.rows(rows), figure),
        };
        let (experiment, work, promise) = (ours.experiment, ours.work, ours.promise());
        TargetRow {
            what: format!("{experiment}: {work}{promise}: {}", name(figure, experiment)),
            over: over.text(ours),
            aim: aim.text(),
            ratio,
            is_met: ratio.and_then(|ratio| aim.judge(ratio)),
            limit: self.limit(rows),
        }
    }

    /// None where the aim is over a limit itself, or a figure alone.
    fn limit(&self, rows: &[Row]) -> Limit {
        let Target { ours, over, figure, .. } = *self;
        let theirs = match over {
            Over::Rows(theirs) if theirs.side != NULL => theirs,
            _ => return Limit::default(),
        };
        let compared = |of: Of, over: Of| Comparison::of(&of.rows(rows), &over.rows(rows), figure);
        let over = |side| {
            // Of two works that all sides do, each side has its own ratio.
            let theirs = match theirs.side == OURS && !theirs.on(side).rows(rows).is_empty() {
                true => theirs.on(side),
                false => theirs,
            };
            compared(ours.on(side), theirs)
        };
        Limit { null: over(NULL), bare: over(BARE), ours_over_bare: compared(ours, ours.on(BARE)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Spread;
    use crate::report::summary::tests::{row, rows};

    #[test]
    fn an_aim_is_judged_by_the_median_over_the_rounds() {
        let table = targets(&rows());
        let rate = &table[0];
        assert_eq!(rate.what, "produce: 16 KiB batches, unsynced: rate");
        assert_eq!(
            (rate.ratio.map(|ratio| ratio.spread.median), rate.is_met),
            (Some(10.0), Some(false))
        );
        let cpu = &table[1];
        assert_eq!(
            (cpu.ratio.map(|ratio| ratio.spread.median), cpu.is_met),
            (Some(0.1), Some(false))
        );
        let synced = &table[2];
        assert_eq!(synced.over, "kafka, unsynced");
        assert_eq!(synced.is_met, Some(true));
        assert_eq!((table[3].ratio, table[3].is_met), (None, None));
    }

    #[test]
    fn beside_an_aim_stands_what_the_machine_allows() {
        let mut rows = rows();
        for round in 1..=3 {
            let records = 300_000 * u64::from(round) * 4;
            rows.push(row("16 KiB batches", Unsynced, BARE, round, records));
            rows.push(row("16 KiB batches", Unsynced, NULL, round, records * 2));
        }
        let median = |ratio: Option<Comparison>| ratio.map(|ratio| ratio.spread.median);
        let limit = targets(&rows)[0].limit;
        assert_eq!((median(limit.null), median(limit.bare)), (Some(24.0), Some(12.0)));
        assert_eq!(median(limit.ours_over_bare), Some(10.0 / 12.0));
        // Nobody measured the synced work on them.
        assert_eq!(targets(&rows)[2].limit, Limit::default());
    }

    #[test]
    fn the_limit_of_two_works_of_ours_is_that_of_the_same_two() {
        let work = |work: &str, side: &str, records| Row {
            experiment: "appends",
            ..row(work, Synced, side, 1, records)
        };
        let rows = [
            work(works::APPENDERS_ALONE, OURS, 60),
            work(works::APPENDERS_TOGETHER, OURS, 100),
            work(works::APPENDERS_ALONE, BARE, 160),
            work(works::APPENDERS_TOGETHER, BARE, 200),
        ];
        let table = targets(&rows);
        let row = table.iter().find(|row| row.over.starts_with(works::APPENDERS_TOGETHER));
        let row = row.expect("it is among the aims");
        let median = |ratio: Option<Comparison>| ratio.map(|ratio| ratio.spread.median);
        assert_eq!((median(row.ratio), median(row.limit.bare)), (Some(0.6), Some(0.8)));
        assert_eq!(median(row.limit.ours_over_bare), Some(0.375));
    }

    #[test]
    fn clusters_have_aims_of_their_own() {
        let of = |experiment, replicas| {
            let mut rows = rows();
            for row in &mut rows {
                row.experiment = experiment;
                row.parameters.replicas = replicas;
            }
            targets(&rows)
        };
        assert_eq!(of("produce", 3), [], "those of single nodes say nothing of a cluster");
        assert_eq!(of(works::CLUSTER, 1), []);
        let table = of(works::CLUSTER, 3);
        let measured: Vec<&TargetRow> = table.iter().filter(|row| row.ratio.is_some()).collect();
        let aims: Vec<(&str, &str)> =
            measured.iter().map(|row| (row.over.as_str(), row.aim.as_str())).collect();
        let expected = [
            ("kafka, unsynced", "at least 2.00"),
            ("kafka, unsynced", "at most 1/3 (0.333)"),
            ("1 MB", "at most 100"),
        ];
        assert_eq!(aims, expected);
        let memory = measured[2].ratio.expect("it is measured");
        assert_eq!((memory.spread.median, measured[2].is_met), (20.0, Some(true)));
    }

    #[test]
    fn a_bound_decides_only_what_lies_beyond_it() {
        let verdicts = |median, bound| {
            let spread = Spread { median, least: median, most: median };
            let judge = |aim: Aim| aim.judge(Comparison { spread, bound });
            (judge(Aim::Floor(2.0)), judge(Aim::Ceiling(2.0)))
        };
        assert_eq!(verdicts(1.0, Bound::AtLeast), (None, None));
        assert_eq!(verdicts(3.0, Bound::AtLeast), (Some(true), Some(false)));
        assert_eq!(verdicts(1.0, Bound::AtMost), (Some(false), Some(true)));
        assert_eq!(verdicts(3.0, Bound::AtMost), (None, None));
        assert_eq!(verdicts(3.0, Bound::Unclear), (None, None));
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
