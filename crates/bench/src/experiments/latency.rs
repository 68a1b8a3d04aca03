//! How long an acknowledgement takes at rates that a broker can bear, and where it no longer can.

use clap::Args;

use super::defaults;
use crate::generator::BatchShape;
use crate::load::{EndToEndLoad, OwnRateLoad, ProduceLoad};
use crate::measure::{Durability, Row, Spread};
use crate::session::{Session, SessionArgs, values};
use crate::side::is_limit;
use crate::works;

const EXPERIMENT: &str = "latency";

/// Beyond this the ladder ends even if a broker still keeps up.
const RATE_MAX: f64 = 1_000_000.0;

/// A broker keeps up if it acknowledges so much of what is offered while it is offered …
const ANSWERED_MIN: f64 = 0.95;

/// … and no worse than so.
const P99_MS_MAX: f64 = 100.0;

/// The experiment `latency`.
#[derive(Debug, Clone, Args)]
pub(crate) struct LatencyArgs {
    #[command(flatten)]
    pub(super) latency: Latency,
    #[command(flatten)]
    pub(super) session: SessionArgs,
}

/// Which rates.
#[derive(Debug, Clone, Args)]
pub(super) struct Latency {
    /// The first rate, in records a second
    #[arg(long, value_parser = values::rate, default_value_t = 1000.0)]
    pub(crate) rate: f64,
    /// By how much it rises from step to step [default: 2, quick 4]
    #[arg(long, value_parser = values::factor)]
    pub(crate) factor: Option<f64>,
    /// Measure at the first rate only, and look for no knee
    #[arg(long)]
    pub(crate) no_ladder: bool,
    /// Bytes of each record's value
    #[arg(long, value_parser = values::size(), default_value_t = 200)]
    pub(crate) record_bytes: usize,
    /// Whether brokers sync before they acknowledge
    #[arg(long, value_enum, value_delimiter = ',', default_value = "unsynced,synced")]
    pub(crate) durability: Vec<Durability>,
}

impl Latency {
    /// The defaults with other promises.
    pub(super) fn usual(durability: &[Durability]) -> Latency {
        Latency { durability: durability.to_vec(), ..defaults() }
    }
}

pub(super) async fn run(session: &mut Session<'_>, args: &Latency) -> anyhow::Result<()> {
    for &durability in &args.durability {
        let knees = climb(session, args, durability).await?;
        let load = |rate| EndToEndLoad { record_bytes: args.record_bytes, durability, rate };
        if args.no_ladder {
            let work = works::end_to_end_at(args.rate);
            session.measure_brokers(EXPERIMENT, &work, &load(args.rate)).await?;
            continue;
        }
        let half = |knee: f64| (knee / 2.0).max(args.rate).floor();
        let first = load(args.rate);
        let is_asked = |side: &str| !is_limit(side) && session.takes(side, &first);
        let knees: Vec<(String, f64)> =
            knees.into_iter().filter(|(side, _)| is_asked(side)).collect();
        let lowest = knees.iter().map(|&(_, rate)| rate).fold(f64::INFINITY, f64::min);
        if lowest.is_finite() {
            let load = load(half(lowest));
            session.measure_brokers(EXPERIMENT, works::END_TO_END_AT_LOWEST, &load).await?;
        }
        let own = knees.into_iter().map(|(side, knee)| (side, load(half(knee))));
        let own = OwnRateLoad { loads: own.collect(), record_bytes: args.record_bytes, durability };
        session.measure_brokers(EXPERIMENT, works::END_TO_END_AT_OWN, &own).await?;
    }
    Ok(())
}

/// Acknowledgements only.
pub(super) async fn run_acknowledged(
    session: &mut Session<'_>,
    args: &Latency,
) -> anyhow::Result<()> {
    for &durability in &args.durability {
        climb(session, args, durability).await?;
    }
    Ok(())
}

/// So many a second over one connection.
pub(super) fn single_records(rate: f64, record_bytes: usize) -> ProduceLoad {
    ProduceLoad {
        batch: BatchShape::Records(1),
        record_bytes,
        in_flight: usize::MAX,
        rate: Some(rate),
        ..ProduceLoad::default()
    }
}

/// Raises the rate until no side keeps up; returns the last rate that each side bore.
async fn climb(
    session: &mut Session<'_>,
    args: &Latency,
    durability: Durability,
) -> anyhow::Result<Vec<(String, f64)>> {
    let factor = args.factor.unwrap_or(if session.lengths.is_quick { 4.0 } else { 2.0 });
    let sides = session.side_names();
    let mut climbing = sides.clone();
    let mut knees: Vec<(String, f64)> = sides.into_iter().map(|side| (side, args.rate)).collect();
    let mut rate = args.rate;
    while !climbing.is_empty() && rate <= RATE_MAX {
        let load = ProduceLoad { durability, ..single_records(rate, args.record_bytes) };
        let work = works::acknowledged_at(rate);
        let asked = std::mem::take(&mut climbing);
        let is_asked = |side: &str| asked.iter().any(|asked| asked == side);
        let rows = session.measure_on(EXPERIMENT, &work, &load, is_asked).await?;
        let keeping_up: Vec<String> =
            asked.iter().filter(|side| keeps_up(rows, side, rate)).cloned().collect();
        // It is planned for a broker that never falls behind.
        climbing = if session.is_planning() { asked } else { keeping_up };
        for (side, knee) in &mut knees {
            if climbing.contains(side) {
                *knee = rate;
            }
        }
        if args.no_ladder {
            break;
        }
        rate *= factor;
    }
    Ok(knees)
}

/// Judged by the medians, so that one bad moment of the machine ends nothing.
fn keeps_up(rows: &[Row], side: &str, rate: f64) -> bool {
    let median = |figure: &dyn Fn(&Row) -> Option<f64>| {
        Spread::of(rows.iter().filter(|row| row.side == side).filter_map(figure))
            .map(|spread| spread.median)
    };
    median(&|row| Some(row.records_per_second()))
        .is_some_and(|answered| answered >= ANSWERED_MIN * rate)
        && median(&|row| row.latency_ms(0.99)).is_some_and(|p99_ms| p99_ms <= P99_MS_MAX)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use clap::error::ErrorKind;

    use super::*;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        latency: Latency,
    }

    #[test]
    fn what_means_nothing_is_refused() {
        let refused = [
            ["--rate", "0"],
            ["--rate", "inf"],
            ["--factor", "1"],
            ["--factor", "nan"],
            ["--record-bytes", "0"],
            ["--record-bytes", "104857601"],
        ];
        for [flag, value] in refused {
            let error = CommandLine::try_parse_from(["bench", flag, value]).err();
            let kind = error.map(|error| error.kind());
            assert_eq!(kind, Some(ErrorKind::ValueValidation), "{flag} {value}");
        }
        let line = ["bench", "--rate", "0.5", "--factor", "1.5"];
        let latency = CommandLine::try_parse_from(line).expect("arguments").latency;
        assert_eq!((latency.rate, latency.factor), (0.5, Some(1.5)));
    }
}
