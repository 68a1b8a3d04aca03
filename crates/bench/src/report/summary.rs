//! Medians over the rounds, and ratios of the sides.

use super::comparison::Comparison;
use super::figure::Figure;
use crate::measure::{Durability, Parameters, Row, Spread, WorkKey};
use crate::side::OURS;

/// The rounds of one work.
#[derive(Debug, Clone)]
pub(crate) struct WorkSummary {
    pub(crate) experiment: &'static str,
    pub(crate) work: String,
    pub(crate) parameters: Parameters,
    pub(crate) is_without_broker: bool,
    pub(crate) sides: Vec<SideSummary>,
    /// How the first side compares with each of the others.
    pub(crate) ratios: Vec<Ratio>,
}

/// The rounds of one work on one side.
#[derive(Debug, Clone)]
pub(crate) struct SideSummary {
    pub(crate) side: String,
    pub(crate) records_per_second: Option<Spread>,
    pub(crate) megabytes_per_second: Option<Spread>,
    pub(crate) p50_ms: Option<Spread>,
    pub(crate) p99_ms: Option<Spread>,
    pub(crate) p99_9_ms: Option<Spread>,
    pub(crate) cpu_seconds_per_gigabyte: Option<Spread>,
    pub(crate) cpu_us_per_request: Option<Spread>,
    pub(crate) cpu_us_per_record: Option<Spread>,
    pub(crate) resident_megabytes: Option<Spread>,
    pub(crate) generator_busy: Option<Spread>,
    pub(crate) is_generator_bound: bool,
    pub(crate) unanswered: u64,
}

/// Our figures over those of another side.
#[derive(Debug, Clone)]
pub(crate) struct Ratio {
    pub(crate) side: String,
    /// What the other side promises, where it is less than we do.
    pub(crate) against: Option<Durability>,
    /// None where both kept the rate that was asked for, too: that it is 1 says nothing.
    pub(super) rate: Option<Comparison>,
    pub(super) p50: Option<Comparison>,
    pub(super) p99: Option<Comparison>,
    pub(super) cpu_per_record: Option<Comparison>,
    pub(super) resident: Option<Comparison>,
}

impl Ratio {
    /// All of them.
    pub(super) fn figures(&self) -> [Option<Comparison>; 5] {
        [self.rate, self.cpu_per_record, self.p50, self.p99, self.resident]
    }
}

/// One entry for each work at each durability, in the order of the runs.
pub(crate) fn summarize(rows: &[Row]) -> Vec<WorkSummary> {
    let mut works: Vec<Vec<&Row>> = Vec::new();
    for row in rows {
        match works.iter_mut().find(|work| work[0].key() == row.key()) {
            Some(work) => work.push(row),
            None => works.push(vec![row]),
        }
    }
    works.iter().map(|work| summarize_work(work, rows)).collect()
}

impl WorkSummary {
    /// Whether its requests are sent by a timetable, so that their latency is a result.
    pub(crate) fn is_open_loop(&self) -> bool {
        self.parameters.is_open_loop()
    }

    /// Which work it is.
    pub(crate) fn key(&self) -> WorkKey<'_> {
        WorkKey {
            experiment: self.experiment,
            work: &self.work,
            durability: self.parameters.durability,
        }
    }
}

/// Each name once, in the order in which they come.
pub(crate) fn distinct<'a>(names: impl Iterator<Item = &'a String>) -> Vec<&'a str> {
    let mut distinct: Vec<&str> = Vec::new();
    for name in names {
        if !distinct.contains(&name.as_str()) {
            distinct.push(name);
        }
    }
    distinct
}

fn summarize_work(work: &[&Row], all: &[Row]) -> WorkSummary {
    let first = work[0];
    let mut names = distinct(all.iter().map(|row| &row.side));
    // The side of the first row may be any, as the order changes.
    names.sort_by_key(|&name| name != OURS);
    let of =
        |side: &str| -> Vec<&Row> { work.iter().copied().filter(|row| row.side == side).collect() };
    let sides: Vec<SideSummary> = names
        .iter()
        .map(|side| of(side))
        .filter(|rows| !rows.is_empty())
        .map(|rows| summarize_side(&rows))
        .collect();
    let mut ratios = Vec::new();
    let compared = names.split_first().filter(|_| !first.is_without_broker());
    if let Some((&ours, others)) = compared {
        let ours = of(ours);
        for &side in others {
            ratios.extend(ratio(&ours, &of(side), side, None));
            // What we do durably, against what the other does without.
            if first.parameters.durability == Some(Durability::Synced) {
                let unsynced = WorkKey { durability: Some(Durability::Unsynced), ..first.key() };
                let theirs = all.iter().filter(|row| row.side == side && row.key() == unsynced);
                let theirs: Vec<&Row> = theirs.collect();
                ratios.extend(ratio(&ours, &theirs, side, Some(Durability::Unsynced)));
            }
        }
    }
    WorkSummary {
        experiment: first.experiment,
        work: first.work.clone(),
        parameters: first.parameters.clone(),
        is_without_broker: first.is_without_broker(),
        sides,
        ratios,
    }
}

fn summarize_side(rows: &[&Row]) -> SideSummary {
    let spread = |figure: &dyn Fn(&Row) -> Option<f64>| {
        Spread::of(rows.iter().filter_map(|row| figure(row)))
    };
    let latency = |quantile: f64| spread(&|row| row.latency_ms(quantile));
    let has = |row: &Row, figure: f64| row.has_rate().then_some(figure);
    SideSummary {
        side: rows[0].side.clone(),
        records_per_second: spread(&|row| has(row, row.records_per_second())),
        megabytes_per_second: spread(&|row| has(row, row.megabytes_per_second())),
        p50_ms: latency(0.5),
        p99_ms: latency(0.99),
        p99_9_ms: latency(0.999),
        cpu_seconds_per_gigabyte: spread(&Row::broker_cpu_seconds_per_gigabyte),
        cpu_us_per_request: spread(&Row::broker_cpu_seconds_per_million_requests),
        cpu_us_per_record: spread(&Row::broker_cpu_seconds_per_million_records),
        resident_megabytes: spread(&Row::resident_megabytes),
        generator_busy: spread(&|row| Some(row.generator_busy())),
        is_generator_bound: rows.iter().any(|row| row.is_generator_bound()),
        unanswered: rows.iter().map(|row| row.unanswered).sum(),
    }
}

fn ratio(ours: &[&Row], theirs: &[&Row], side: &str, against: Option<Durability>) -> Option<Ratio> {
    let compared = |figure| Comparison::of(ours, theirs, figure);
    let both_kept_the_rate = ours.iter().chain(theirs).all(|row| row.keeps_its_rate());
    let ratio = Ratio {
        side: side.to_owned(),
        against,
        rate: compared(Figure::Rate).filter(|_| !both_kept_the_rate),
        p50: compared(Figure::P50),
        p99: compared(Figure::P99),
        cpu_per_record: compared(Figure::CpuPerRecord),
        resident: compared(Figure::Resident),
    };
    ratio.figures().iter().any(Option::is_some).then_some(ratio)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::measure::{ProcessMemory, Usage};

    /// A row with figures that are easy to follow.
    pub(crate) fn row(
        work: &str,
        durability: Durability,
        side: &str,
        round: u32,
        records: u64,
    ) -> Row {
        let mut latency_ns = hdrhistogram::Histogram::new(3).expect("three digits are possible");
        for step in 1..=100 {
            latency_ns.record(step * 10_000_000_000 / records).expect("it grows");
        }
        let memory = ProcessMemory { resident_bytes: 20_000_000, peak_bytes: 30_000_000 };
        let parameters = Parameters {
            durability: Some(durability),
            acks: Some("all"),
            batch_records: 10,
            batch_bytes: 1000,
            record_bytes: 90,
            partitions: 1,
            producers: 1,
            in_flight: 5,
            ..Parameters::default()
        };
        Row {
            experiment: "produce",
            work: work.to_owned(),
            side: side.to_owned(),
            round,
            parameters,
            seconds: 2.0,
            requests: records / 10,
            records,
            value_bytes: records * 100,
            timeline: vec![records / 2, records / 2],
            lateness_ns: latency_ns.clone(),
            latency_ns,
            unanswered: 0,
            usage: Usage {
                memory_before: None,
                broker_cpu_seconds: Some(1.0),
                generator_cpu_seconds: 0.5,
                generator_busy_seconds: 0.5,
                generator_queued_seconds: 0.1,
                others_cpu_seconds: Some(0.1),
                machine_busy: Some(0.75),
                load_average: Some(1.5),
                memory: Some(memory),
            },
            broker_rates: None,
        }
    }

    /// Three rounds of one work with both durabilities on two sides.
    pub(crate) fn rows() -> Vec<Row> {
        let mut rows = Vec::new();
        for round in 1..=3 {
            for (side, factor) in [("kafka", 1), ("logway", 10)] {
                let records = 100_000 * u64::from(round) * factor;
                rows.push(row("16 KiB batches", Durability::Unsynced, side, round, records));
                rows.push(row("16 KiB batches", Durability::Synced, side, round, records / 2));
            }
        }
        rows
    }

    #[test]
    fn rates_that_were_kept_are_not_compared() {
        let mut rows = rows();
        for row in &mut rows {
            row.parameters.rate = Some(row.requests_per_second() * 1.01);
        }
        let ratio = |rows: &[Row]| summarize(rows)[0].ratios[0].clone();
        assert!(ratio(&rows).rate.is_none() && ratio(&rows).p99.is_some());
        for row in rows.iter_mut().filter(|row| row.side == "kafka") {
            row.parameters.rate = Some(row.requests_per_second() * 2.0);
        }
        assert!(ratio(&rows).rate.is_some());
    }

    #[test]
    fn files_without_a_broker_are_not_compared() {
        let mut rows = rows();
        for row in &mut rows {
            row.parameters.producers = 0;
        }
        assert!(summarize(&rows).iter().all(|work| work.ratios.is_empty()));
        // A start has no traffic either, but it is the broker's.
        rows.iter_mut().for_each(|row| row.value_bytes = 0);
        assert!(summarize(&rows).iter().all(|work| !work.ratios.is_empty()));
    }

    #[test]
    fn rounds_become_medians_and_sides_become_ratios() {
        let summaries = summarize(&rows());
        assert_eq!(summaries.len(), 2);
        let synced = &summaries[1];
        assert_eq!(synced.parameters.durability, Some(Durability::Synced));
        assert_eq!(synced.sides[0].side, "logway");
        let rate = synced.sides[0].records_per_second.expect("there is a rate");
        assert_eq!((rate.median, rate.least, rate.most), (500_000.0, 250_000.0, 750_000.0));
        let rates: Vec<(Option<Durability>, f64)> = synced
            .ratios
            .iter()
            .map(|ratio| (ratio.against, ratio.rate.expect("is compared").spread.median))
            .collect();
        assert_eq!(rates, [(None, 10.0), (Some(Durability::Unsynced), 5.0)]);
    }
}
