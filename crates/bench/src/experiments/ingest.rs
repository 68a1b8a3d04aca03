//! How much a broker takes from a sender of sensor data at a fixed rate: Hesse, Matthies and
//! Uflacker, "How Fast Can We Insert? An Empirical Performance Evaluation of Apache Kafka", 2020.
//!
//! The rate is in records; it is kept in requests of full batches, each due when its last record
//! would have been there.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};

use super::defaults;
use crate::generator::{Acks, BatchShape};
use crate::load::ProduceLoad;
use crate::session::{Session, SessionArgs, Usual, values};

const EXPERIMENT: &str = "ingest";

/// Columns of a record, as in the data set of the DEBS grand challenge of 2012.
const COLUMNS: usize = 66;

/// Different records; then they come again.
const RECORDS: usize = 20_000;

/// The experiment `ingest`.
#[derive(Debug, Clone, Args)]
pub struct IngestArgs {
    #[command(flatten)]
    pub(super) ingest: Ingest,
    #[command(flatten)]
    pub(super) session: SessionArgs,
}

/// Which rates, batches and acknowledgements.
#[derive(Debug, Clone, Args)]
pub(super) struct Ingest {
    /// Records a second, one run for each
    #[arg(long, value_delimiter = ',', value_parser = values::rate, default_value = "100000,250000,1000000")]
    pub(crate) rate: Vec<f64>,
    /// What the sender waits for
    #[arg(long, value_enum, value_delimiter = ',', default_value = "0,1,all")]
    pub(crate) acks: Vec<AcksArg>,
    /// Bytes of a batch
    #[arg(long, value_delimiter = ',', value_parser = values::size(), default_value = "16384,65536")]
    pub(crate) batch_bytes: Vec<usize>,
    /// Connections that send
    #[arg(long, value_parser = values::many(), default_value_t = 1)]
    pub(crate) senders: usize,
    /// Where the sensor values come from, if not from --file
    #[arg(long, default_value_t = 2012)]
    pub(crate) seed: u64,
    /// A file whose lines are the records; it is read into memory
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

/// [`Acks`] on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AcksArg {
    /// Nothing
    #[value(name = "0")]
    None,
    /// The leader
    #[value(name = "1")]
    Leader,
    /// The leader and all replicas in sync
    All,
}

impl Ingest {
    /// The defaults; fewer runs if it is to be quick.
    pub(super) fn usual(is_quick: bool) -> Ingest {
        match is_quick {
            true => Ingest { batch_bytes: vec![16 << 10], ..defaults() },
            false => defaults(),
        }
    }

    /// The paper's runs take ten minutes. Each is long enough to say itself how steady its rate is, and
    /// there are many, so none is repeated.
    pub(super) fn usual_lengths(is_quick: bool) -> Usual {
        match is_quick {
            true => Usual::of(true),
            false => Usual { rounds: 1, measured_seconds: 600.0 },
        }
    }
}

pub(super) async fn run(session: &mut Session<'_>, args: &Ingest) -> anyhow::Result<()> {
    let values = Arc::new(match &args.file {
        Some(path) => {
            let text = std::fs::read(path).with_context(|| format!("{}", path.display()))?;
            text.split(|&byte| byte == b'\n')
                .filter(|line| !line.is_empty())
                .map(<[u8]>::to_vec)
                .collect()
        }
        None => sensor_records(args.seed, RECORDS),
    });
    ensure!(!values.is_empty(), "the file has no lines");
    for &batch_bytes in &args.batch_bytes {
        let batch = BatchShape::Bytes(batch_bytes);
        for &acks in &args.acks {
            for &rate in &args.rate {
                let mut load = ProduceLoad {
                    batch,
                    values: Some(Arc::clone(&values)),
                    acks: match acks {
                        AcksArg::None => Acks::None,
                        AcksArg::Leader => Acks::Leader,
                        AcksArg::All => Acks::All,
                    },
                    connections: args.senders,
                    ..ProduceLoad::default()
                };
                load.rate = Some(rate / load.records_in_request()?);
                let size = size_name(batch_bytes);
                let work = format!("{rate}/s, {size}, acks {}", load.acks.name());
                session.measure(EXPERIMENT, &work, &load).await?;
            }
        }
    }
    Ok(())
}

fn size_name(bytes: usize) -> String {
    match bytes.is_multiple_of(1 << 10) {
        true => format!("{} KiB", bytes >> 10),
        false => format!("{bytes} B"),
    }
}

/// Lines of a time stamp, a number, and readings that wander, separated by tabs.
fn sensor_records(seed: u64, count: usize) -> Vec<Vec<u8>> {
    let mut state = seed;
    let mut random = move || {
        // splitmix64
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let mut readings = [0_i64; COLUMNS - 2];
    let record = |number| {
        let mut line =
            format!("2012-02-22T16:46:{:02}.{:03}\t{number}", number / 1000 % 60, number % 1000);
        for (column, reading) in readings.iter_mut().enumerate() {
            // Some sensors measure, most switch.
            let change = if column < 8 { (random() % 21) as i64 - 10 } else { 0 };
            *reading = if column < 8 { (*reading + change).abs() } else { (random() % 2) as i64 };
            line.push('\t');
            line.push_str(&reading.to_string());
        }
        line.into_bytes()
    };
    (0..count).map(record).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use clap::error::ErrorKind;

    use super::*;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        ingest: Ingest,
    }

    #[test]
    fn what_means_nothing_is_refused() {
        let refused = [
            ["--rate", "1000,0"],
            ["--rate", "nan"],
            ["--rate", "1e10"],
            ["--senders", "0"],
            ["--senders", "10001"],
            ["--batch-bytes", "16384,0"],
            ["--batch-bytes", "104857601"],
        ];
        for [flag, value] in refused {
            let error = CommandLine::try_parse_from(["bench", flag, value]).err();
            let kind = error.map(|error| error.kind());
            assert_eq!(kind, Some(ErrorKind::ValueValidation), "{flag} {value}");
        }
    }

    #[test]
    fn records_have_their_columns_and_follow_from_the_seed() {
        let records = sensor_records(7, 100);
        for record in &records {
            assert_eq!(record.split(|&byte| byte == b'\t').count(), COLUMNS);
        }
        assert_eq!(records, sensor_records(7, 100));
        assert_ne!(records, sensor_records(8, 100));
    }
}
