//! Many appenders of small records over few or many connections, and long sequential reads beside `cat` on the same
//! files: what eBay's Beam team measured, when durable appends collapsed as 128 writers spread from 1 connection to
//! 128 ("Using Apache Kafka in Beam", 2018).

use anyhow::ensure;
use clap::Args;

use super::defaults;
use crate::generator::BatchShape;
use crate::load::{CatLoad, FetchLoad, ProduceLoad, Reading};
use crate::measure::Durability;
use crate::session::{Session, SessionArgs, values};
use crate::works;

const EXPERIMENT: &str = "appends";

/// The experiment `appends`.
#[derive(Debug, Clone, Args)]
pub(crate) struct AppendsArgs {
    #[command(flatten)]
    pub(super) appends: Appends,
    #[command(flatten)]
    pub(super) session: SessionArgs,
}

/// How many appenders share how many connections.
#[derive(Debug, Clone, Args)]
pub(super) struct Appends {
    /// How many connections the appenders share, one run for each number
    #[arg(long, value_delimiter = ',', value_parser = values::many(), default_value = "1,4,16,64,128")]
    pub(crate) connections: Vec<usize>,
    /// Appenders
    #[arg(long, value_parser = values::many(), default_value_t = 128)]
    pub(crate) appenders: usize,
    /// Bytes of each record's value
    #[arg(long, value_parser = values::size(), default_value_t = 2048)]
    pub(crate) record_bytes: usize,
    /// Partitions of the topic; connections take them in turn
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..=10_000), default_value_t = 1)]
    pub(crate) partitions: i32,
    /// Whether brokers sync before they acknowledge
    #[arg(long, value_enum, value_delimiter = ',', default_value = "synced")]
    pub(crate) durability: Vec<Durability>,
    /// Leave out the reads of what --preload-megabytes says, from memory and from the disk
    #[arg(long)]
    pub(crate) no_reads: bool,
}

impl Appends {
    /// Whether appenders can be dealt out to connections.
    ///
    /// # Errors
    ///
    /// Some would have more than others.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        for &connections in &self.connections {
            ensure!(
                self.appenders.is_multiple_of(connections),
                "{} appenders cannot share {connections} connections evenly",
                self.appenders,
            );
        }
        Ok(())
    }

    /// What they do over so many connections.
    pub(super) fn load(&self, connections: usize) -> ProduceLoad {
        ProduceLoad {
            batch: BatchShape::Records(1),
            record_bytes: self.record_bytes,
            partitions: self.partitions,
            connections,
            in_flight: self.appenders / connections,
            ..ProduceLoad::default()
        }
    }

    /// The defaults with other promises; fewer runs if it is to be quick.
    pub(super) fn usual(durability: &[Durability], is_quick: bool) -> Appends {
        let durability = durability.to_vec();
        match is_quick {
            true => Appends { durability, connections: vec![1, 4, 128], ..defaults() },
            false => Appends { durability, ..defaults() },
        }
    }
}

pub(super) async fn run(session: &mut Session<'_>, args: &Appends) -> anyhow::Result<()> {
    run_appenders(session, args).await?;
    match args.no_reads {
        true => Ok(()),
        false => run_reads(session).await,
    }
}

/// The appends alone.
pub(super) async fn run_appenders(session: &mut Session<'_>, args: &Appends) -> anyhow::Result<()> {
    for &connections in &args.connections {
        for &durability in &args.durability {
            let load = ProduceLoad { durability, ..args.load(connections) };
            let work = works::appenders(args.appenders, connections);
            session.measure(EXPERIMENT, &work, &load).await?;
        }
    }
    Ok(())
}

/// Reads what is stored from start to end, through the broker and without it.
async fn run_reads(session: &mut Session<'_>) -> anyhow::Result<()> {
    for (reading, state) in [(Reading::Cached, "cached"), (Reading::Uncached, "uncached")] {
        let load = FetchLoad { reading, ..FetchLoad::default() };
        let (read, cat) = (format!("long read, {state}"), format!("cat, {state}"));
        if reading == Reading::Cached || session.is_own() {
            session.measure_brokers(EXPERIMENT, &read, &load).await?;
        } else {
            omit(session, &read);
        }
        if session.is_own() {
            session.measure_brokers(EXPERIMENT, &cat, &CatLoad { like: load }).await?;
        } else {
            omit(session, &cat);
        }
    }
    Ok(())
}

/// Leaves a work out that needs the brokers' files.
fn omit(session: &mut Session<'_>, work: &str) {
    for side in session.side_names() {
        let reason = "was running before, and its files are not touched";
        session.omit((EXPERIMENT, work), &side, reason);
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
        appends: Appends,
    }

    #[test]
    fn what_means_nothing_is_refused() {
        let refused = [
            ["--connections", "1,0"],
            ["--connections", "10001"],
            ["--appenders", "0"],
            ["--appenders", "10001"],
            ["--record-bytes", "0"],
            ["--record-bytes", "104857601"],
            ["--partitions", "0"],
            ["--partitions", "10001"],
        ];
        for [flag, value] in refused {
            let error = CommandLine::try_parse_from(["bench", flag, value]).err();
            let kind = error.map(|error| error.kind());
            assert_eq!(kind, Some(ErrorKind::ValueValidation), "{flag} {value}");
        }
    }

    #[test]
    fn appenders_are_dealt_out_evenly() {
        let check = |connections| {
            let line = ["bench", "--appenders", "12", "--connections", connections];
            CommandLine::try_parse_from(line).expect("arguments").appends.check()
        };
        check("1,3,12").expect("12, 4 and 1 on each");
        for uneven in ["1,5", "24"] {
            let error = check(uneven).expect_err(uneven);
            assert!(error.to_string().contains("12 appenders"), "{error}");
        }
    }
}
