//! How much a broker takes from a sender of sensor data at a fixed rate: Hesse, Matthies and
//! Uflacker, "How Fast Can We Insert? An Empirical Performance Evaluation of Apache Kafka", 2020.
//!
//! The rate is in records; it is kept in requests of full batches, each due when its last record
//! would have been there.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::defaults;
use crate::generator::{Acks, BatchShape, HeldValues, Origin};
use crate::load::ProduceLoad;
use crate::session::{Session, SessionArgs, Usual, values};

const EXPERIMENT: &str = "ingest";

/// The experiment `ingest`.
#[derive(Debug, Clone, Args)]
pub(crate) struct IngestArgs {
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
    /// Connections of each process that sends
    #[arg(long, value_parser = values::many(), default_value_t = 1)]
    pub(crate) senders: usize,
    /// Processes that send, and share the rate evenly
    #[arg(long, value_name = "N", value_parser = values::processes(), default_value_t = 1)]
    pub(crate) processes: usize,
    /// Where the sensor values come from, if not from --file
    #[arg(long, default_value_t = 2012)]
    pub(crate) seed: u64,
    /// A file whose lines are the records; it is read into memory before the run, unless --streamed
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Read or make the records, and encode them, while the run goes on instead of before it
    #[arg(long)]
    pub(crate) streamed: bool,
}

/// [`Acks`] on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AcksArg {
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
            false => Usual { rounds: 1, measured_seconds: 600.0, nodes: 1 },
        }
    }
}

pub(super) async fn run(session: &mut Session<'_>, args: &Ingest) -> anyhow::Result<()> {
    let origin = match &args.file {
        Some(path) => Origin::File(path.clone()),
        None => Origin::Sensors(args.seed),
    };
    let (values, streamed, how) = match args.streamed {
        true => (None, Some(origin), ", streamed"),
        false => (Some(HeldValues::try_from(origin)?), None, ""),
    };
    let from = match args.processes {
        1 => String::new(),
        several => format!(", {several} processes"),
    };
    for &batch_bytes in &args.batch_bytes {
        let batch = BatchShape::Bytes(batch_bytes);
        for &acks in &args.acks {
            for &rate in &args.rate {
                let mut load = ProduceLoad {
                    batch,
                    values: values.clone(),
                    streamed: streamed.clone(),
                    acks: match acks {
                        AcksArg::None => Acks::None,
                        AcksArg::Leader => Acks::Leader,
                        AcksArg::All => Acks::All,
                    },
                    connections: args.senders,
                    processes: args.processes,
                    asks_broker: true,
                    ..ProduceLoad::default()
                };
                load.rate = Some(rate / load.records_in_request()?);
                let size = size_name(batch_bytes);
                let work = format!("{rate}/s, {size}, acks {}{how}{from}", load.acks.name());
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
            ["--processes", "0"],
            ["--processes", "101"],
            ["--batch-bytes", "16384,0"],
            ["--batch-bytes", "104857601"],
        ];
        for [flag, value] in refused {
            let error = CommandLine::try_parse_from(["bench", flag, value]).err();
            let kind = error.map(|error| error.kind());
            assert_eq!(kind, Some(ErrorKind::ValueValidation), "{flag} {value}");
        }
    }
}
