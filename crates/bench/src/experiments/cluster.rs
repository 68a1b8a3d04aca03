//! What replication costs: the works by which a cluster of three is judged. Each record is acknowledged by the leader
//! alone, or by all replicas in sync; synced, it is on the disk of each of those.
//!
//! LinkedIn's producers and consumer are those of "Benchmarking Apache Kafka: 2 Million Writes Per Second (On Three Cheap
//! Machines)", 2014: *3x async* is acks 1 there, *3x sync* is acks all. The appenders are those of `appends`.

use anyhow::ensure;
use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::{Appends, linkedin, single_records};
use crate::generator::Acks;
use crate::load::{FetchLoad, ProduceLoad};
use crate::measure::Durability::{self, Unsynced};
use crate::session::{Session, SessionArgs};
use crate::works::{BATCHES_OF_16_KIB, CLUSTER, acknowledged_at, appenders};

/// How many nodes each side has, unless the command line says otherwise.
pub(super) const NODES: usize = 3;

/// Single records a second.
const RATE: f64 = 1000.0;

const RECORD_BYTES: usize = 200;

/// The experiment `cluster`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ClusterArgs {
    #[command(flatten)]
    pub(super) cluster: Cluster,
    #[command(flatten)]
    pub(super) session: SessionArgs,
}

/// Which works.
#[derive(Debug, Clone, Args)]
pub(super) struct Cluster {
    /// Only the works whose names contain it; may be repeated [default: all]
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    work: Vec<String>,
    /// Whether brokers sync before they acknowledge; LinkedIn's works are unsynced
    #[arg(long, value_enum, value_delimiter = ',', default_value = "unsynced,synced")]
    durability: Vec<Durability>,
}

/// One of them.
enum Work {
    Produce(ProduceLoad),
    Consume(FetchLoad),
}

impl Cluster {
    /// Whether there is all that it asks for.
    ///
    /// # Errors
    ///
    /// Which works there are.
    pub(super) fn check(&self, is_quick: bool) -> anyhow::Result<()> {
        let works = works(is_quick, &self.durability);
        for text in &self.work {
            let names: Vec<&str> = works.iter().map(|(name, _)| name.as_str()).collect();
            ensure!(
                names.iter().any(|name| name.contains(text.as_str())),
                "no work has '{text}' in its name; there is {}",
                names.join("; ")
            );
        }
        Ok(())
    }

    fn asks_for(&self, name: &str) -> bool {
        self.work.is_empty() || self.work.iter().any(|text| name.contains(text.as_str()))
    }
}

pub(super) async fn run(session: &mut Session<'_>, args: &Cluster) -> anyhow::Result<()> {
    for (name, work) in works(session.lengths.is_quick, &args.durability) {
        match work {
            _ if !args.asks_for(&name) => {}
            Work::Produce(load) => _ = session.measure(CLUSTER, &name, &load).await?,
            Work::Consume(load) => _ = session.measure(CLUSTER, &name, &load).await?,
        }
    }
    Ok(())
}

fn works(is_quick: bool, durabilities: &[Durability]) -> Vec<(String, Work)> {
    let mut works = Vec::new();
    let mut produce = |name: &str, load| works.push((name.to_owned(), Work::Produce(load)));
    if durabilities.contains(&Unsynced) {
        let asynchronous = ProduceLoad { acks: Acks::Leader, ..linkedin::producer() };
        let three = ProduceLoad { connections: 3, ..asynchronous.clone() };
        produce("one producer, acks 1", asynchronous);
        produce("one producer, acks all", linkedin::producer());
        produce("three producers, acks 1", three);
        works.push(("one consumer".to_owned(), Work::Consume(linkedin::consumer())));
    }
    let mut produce = |name: &str, load: ProduceLoad| {
        for &durability in durabilities {
            let load = ProduceLoad { durability, ..load.clone() };
            works.push((name.to_owned(), Work::Produce(load)));
        }
    };
    produce(BATCHES_OF_16_KIB, ProduceLoad::default());
    let many = Appends::usual(durabilities, is_quick);
    for &connections in &many.connections {
        produce(&appenders(many.appenders, connections), many.load(connections));
    }
    produce(&acknowledged_at(RATE), single_records(RATE, RECORD_BYTES));
    works
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::measure::Durability::Synced;
    use crate::works::{ACKNOWLEDGED_AT_1000, APPENDERS_ALONE};

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        cluster: Cluster,
    }

    fn cluster(args: &[&str]) -> Cluster {
        let line = [&["bench"], args].concat();
        CommandLine::try_parse_from(line).expect("arguments").cluster
    }

    #[test]
    fn what_there_is_an_aim_for_is_done_with_and_without_syncs() {
        for is_quick in [true, false] {
            let works = works(is_quick, &[Unsynced, Synced]);
            for name in [BATCHES_OF_16_KIB, APPENDERS_ALONE, ACKNOWLEDGED_AT_1000] {
                let promises: Vec<Durability> = works
                    .iter()
                    .filter(|(work, _)| work == name)
                    .filter_map(|(_, work)| match work {
                        Work::Produce(load) => Some(load.durability),
                        Work::Consume(_) => None,
                    })
                    .collect();
                assert_eq!(promises, [Unsynced, Synced], "{name}");
            }
        }
    }

    #[test]
    fn a_work_is_asked_for_by_a_part_of_its_name() {
        let some = cluster(&["--work", "producer", "--work", "16 KiB"]);
        some.check(true).expect("there are both");
        assert!(some.asks_for("one producer, acks 1") && some.asks_for(BATCHES_OF_16_KIB));
        assert!(!some.asks_for("one consumer") && cluster(&[]).asks_for("one consumer"));
        let error = cluster(&["--work", "nosuch"]).check(true).expect_err("no such work");
        assert!(error.to_string().contains(APPENDERS_ALONE), "{error}");
        let error = cluster(&["--work", "consumer", "--durability", "synced"]).check(true);
        assert!(error.is_err(), "it is not among the synced ones");
    }
}
