//! The experiments: which loads, in which order.

mod appends;
mod cluster;
mod fetch;
mod grpc;
mod ingest;
mod latency;
mod linkedin;
mod paper;
mod produce;
mod soak;
mod start;
mod targets;

use std::io::{self, Write};
use std::pin::pin;
use std::sync::Arc;

use anyhow::{anyhow, bail, ensure};
use clap::{Args, Command, Subcommand};
use logway_client::BrokerAddress;

use appends::Appends;
pub(crate) use appends::AppendsArgs;
pub(crate) use cluster::ClusterArgs;
pub(crate) use grpc::GrpcArgs;
use ingest::Ingest;
pub(crate) use ingest::IngestArgs;
pub(crate) use latency::LatencyArgs;
use latency::{Latency, single_records};
use produce::Produce;
pub(crate) use produce::ProduceArgs;

use crate::load::topic_prefix;
use crate::measure::{Durability, Row};
use crate::report::{self, Report};
use crate::session::{Plan, Session, SessionArgs, Usual};
use crate::side;
use crate::works;

/// An experiment with its parameters.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Experiment {
    /// Produce batches of several sizes over one or many connections
    Produce(ProduceArgs),
    /// Read what has just been written, in answers of 1 MiB and 8 MiB
    Fetch(Only),
    /// Append small records from many appenders, spread over few or many connections; and read long stretches from
    /// memory and from the disk, beside `cat` on the same files
    ///
    /// Each appender waits for the acknowledgement of its record before it sends the next. With
    /// N appenders on one connection, N requests are on their way on it.
    Appends(AppendsArgs),
    /// Append small records over the log service from many appenders, spread over few or many streams; and read long
    /// stretches from memory and from the disk
    ///
    /// What `appends` measures over Kafka's protocol, over gRPC: each appender waits for its acknowledgement, and the reader
    /// takes batches as the log has them. `all` leaves it out.
    Grpc(GrpcArgs),
    /// Send single records at fixed rates, and count from when each should have been sent
    ///
    /// The rate rises step by step until a broker no longer keeps up: that is its knee. The time until a consumer has
    /// the records is measured as well, for all at half of the lowest knee and for each at half of its own, but at no
    /// less than the first rate.
    Latency(LatencyArgs),
    /// Start a broker, leave it idle, kill it, and start it again on its data
    ///
    /// Apache Kafka, when it was killed, waits for nine seconds until the session of the one before is over. The restart is
    /// measured with that and without.
    Start(Only),
    /// Repeat the measurements of the paper that introduced Kafka (Kreps et al., 2011)
    Paper(Only),
    /// Repeat what LinkedIn measured in 2014: producers, consumers, both, sizes of records, and stored data
    /// that grows past memory
    ///
    /// Until 1.25 times the machine's memory are stored, but no more than three quarters of what the
    /// disk has left; with --quick 2 GB.
    Linkedin(Only),
    /// Send sensor data at fixed rates (Hesse et al., 2020)
    ///
    /// A run takes ten minutes, as there, and is not repeated: with its three rates, three kinds of
    /// acknowledgements and two sizes of batches three hours for each broker. With --quick minutes.
    Ingest(IngestArgs),
    /// Send numbered records for a long time, and verify that each arrives once, in order and whole
    ///
    /// Three idempotent producers, one without compression, one with LZ4 and one with Zstandard, send records of 8 to
    /// 4,103 bytes, and a consumer reads them. A run that ends has verified all of them; the first that is missing, there
    /// twice, out of order or changed ends it with an error. The broker's memory at the beginning and at the end of each
    /// run is reported. With --seconds 14400 --rounds 1 it takes four hours for each broker.
    Soak(Only),
    /// Measure clusters of three nodes: what replicas cost
    ///
    /// LinkedIn's producers with acks 1 and all, and its consumer; batches of 16 KiB; 128 appenders on few and many
    /// connections; single records at 1,000 a second. The latter three are done with and without syncs: synced, an
    /// acknowledged record is on the disk of every replica in sync. CPU and memory are those of all processes together.
    Cluster(ClusterArgs),
    /// Measure what Logway is to reach beside Kafka, and say how far it is
    ///
    /// With --against kafka --against null: some aims are over a broker that does nothing. The same
    /// table is made by `all`, and by any experiment that measures some of it.
    Targets(Only),
    /// All experiments but `cluster`, whose brokers have other nodes
    ///
    /// Without --quick, `ingest` alone takes three hours for each broker; say --seconds to have it shorter.
    All(WithDurability),
}

/// An experiment without parameters of its own.
#[derive(Debug, Clone, Args)]
pub(crate) struct Only {
    #[command(flatten)]
    pub(crate) session: SessionArgs,
}

/// An experiment that is made with and without syncs.
#[derive(Debug, Clone, Args)]
pub(crate) struct WithDurability {
    /// Whether brokers sync before they acknowledge
    #[arg(long, value_enum, value_delimiter = ',', default_value = "unsynced,synced")]
    pub(crate) durability: Vec<Durability>,
    #[command(flatten)]
    pub(crate) session: SessionArgs,
}

/// What an experiment takes from a command line without arguments.
fn defaults<A: Args>() -> A {
    let command = A::augment_args(Command::new("defaults"));
    let matches = command.try_get_matches_from(["defaults"]);
    let args = matches.and_then(|matches| A::from_arg_matches(&matches));
    args.expect("every argument has a default")
}

/// Makes an experiment and writes its report. `brokers` is measured unless the arguments ask for
/// brokers to be started; `on_row` gets each result as soon as it is there.
///
/// It ends early when `interrupted` completes, with a word about it, and when a broker cannot be started, fetched or
/// reached, or refuses what it is asked. What was measured before that is reported all the same.
pub(crate) async fn run(
    experiment: &Experiment,
    brokers: &[BrokerAddress],
    on_row: &mut dyn FnMut(&Row),
    interrupted: impl Future<Output = &'static str>,
) -> Outcome {
    let (mut report, mut ended_early) = (None, None);
    match run_to_report(experiment, brokers, on_row, interrupted, &mut report).await {
        Ok(()) => {}
        Err(error) => ended_early = Some(error),
    }
    Outcome { report, ended_early }
}

/// What became of an experiment.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// What was written, if anything was measured.
    pub report: Option<Report>,
    /// Why that is not all that was asked for.
    pub ended_early: Option<anyhow::Error>,
}

async fn run_to_report(
    experiment: &Experiment,
    brokers: &[BrokerAddress],
    on_row: &mut dyn FnMut(&Row),
    interrupted: impl Future<Output = &'static str>,
    written: &mut Option<Report>,
) -> anyhow::Result<()> {
    let mut interrupted = pin!(interrupted);
    let (name, args) = (experiment.name(), experiment.session());
    ensure!(
        args.starts_own() || !experiment.kills(),
        "only brokers that were started here are killed: use --own"
    );
    experiment.check()?;
    let mut session = tokio::select! {
        opened = Session::open(name, (args, experiment.usual()), brokers, on_row) => opened?,
        how = &mut interrupted => bail!("{how}"),
    };
    if !args.starts_own() {
        session.begin_planning();
        experiment.warm_and_measure(&mut session).await?;
        let plan = session.end_planning(experiment.usual());
        announce(name, &plan, brokers);
        ensure!(args.yes, NOT_ALLOWED);
    }
    let outcome = tokio::select! {
        outcome = experiment.warm_and_measure(&mut session) => outcome,
        how = &mut interrupted => Err(anyhow!("{how}")),
    };
    let outcome = match outcome {
        Ok(()) => Ok(()),
        Err(error) => match session.clear_up().await {
            Ok(()) => Err(error),
            Err(left) => Err(error.context(left)),
        },
    };
    let output = Arc::clone(session.output());
    let report = Report {
        name,
        ended_early: outcome.as_ref().err().map(|error| format!("{error:#}")),
        statement: session.statement(),
        rows: std::mem::take(&mut session.rows),
        omissions: std::mem::take(&mut session.omissions),
        output: output.path().to_owned(),
    };
    drop(session);
    if !report.rows.is_empty() {
        report::write(&report)?;
        *written = Some(report);
    }
    outcome
}

/// Why nothing is done to a broker that the benchmark has not started.
const NOT_ALLOWED: &str = "nothing was written yet
hint: say --yes to begin, or --own to measure a broker of the benchmark's own; --rounds, --seconds, --run-megabytes and \
    --preload-megabytes make it more or less";

/// Says what is going to be done to a broker that runs.
fn announce(name: &str, plan: &Plan, brokers: &[BrokerAddress]) {
    let address = brokers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    // A terminal that is gone is no reason to end otherwise.
    let _ = writeln!(
        io::stderr(),
        "{name} on {address}: {plan}, to topics {}N that are deleted behind their runs",
        topic_prefix()
    );
}

impl Experiment {
    /// All of it, after what every broker is given before.
    async fn warm_and_measure(&self, session: &mut Session<'_>) -> anyhow::Result<()> {
        session.warm().await?;
        self.measure(session).await
    }

    fn name(&self) -> &'static str {
        match self {
            Experiment::Produce(_) => "produce",
            Experiment::Fetch(_) => "fetch",
            Experiment::Appends(_) => "appends",
            Experiment::Grpc(_) => "grpc",
            Experiment::Latency(_) => "latency",
            Experiment::Start(_) => "start",
            Experiment::Paper(_) => "paper",
            Experiment::Linkedin(_) => "linkedin",
            Experiment::Ingest(_) => "ingest",
            Experiment::Soak(_) => "soak",
            Experiment::Cluster(_) => works::CLUSTER,
            Experiment::Targets(_) => "targets",
            Experiment::All(_) => "all",
        }
    }

    fn session(&self) -> &SessionArgs {
        match self {
            Experiment::All(args) => &args.session,
            Experiment::Produce(args) => &args.session,
            Experiment::Fetch(args)
            | Experiment::Start(args)
            | Experiment::Paper(args)
            | Experiment::Linkedin(args)
            | Experiment::Soak(args)
            | Experiment::Targets(args) => &args.session,
            Experiment::Ingest(args) => &args.session,
            Experiment::Cluster(args) => &args.session,
            Experiment::Appends(args) => &args.session,
            Experiment::Grpc(args) => &args.session,
            Experiment::Latency(args) => &args.session,
        }
    }

    /// How often and how long its runs are measured.
    fn usual(&self) -> Usual {
        let is_quick = self.session().is_quick();
        match self {
            Experiment::Ingest(_) => Ingest::usual_lengths(is_quick),
            Experiment::Cluster(_) => Usual { nodes: cluster::NODES, ..Usual::of(is_quick) },
            _ => Usual::of(is_quick),
        }
    }

    /// Whether it can be done, as far as that can be told before anything is started.
    fn check(&self) -> anyhow::Result<()> {
        match self {
            Experiment::Produce(args) => args.produce.check(),
            Experiment::Appends(args) => args.appends.check(),
            Experiment::Grpc(args) => args.grpc.check(),
            Experiment::Cluster(args) => {
                let session = &args.session;
                ensure!(
                    session.starts_own(),
                    "only clusters that are started here are measured: use --own"
                );
                args.cluster.check(session.is_quick())
            }
            _ => Ok(()),
        }
    }

    /// Whether it is about brokers that are killed. `all` leaves those works out where it may not.
    fn kills(&self) -> bool {
        matches!(self, Experiment::Start(_) | Experiment::Targets(_))
    }

    async fn measure(&self, session: &mut Session<'_>) -> anyhow::Result<()> {
        match self {
            Experiment::Produce(args) => produce::run(session, &args.produce).await,
            Experiment::Fetch(_) => fetch::run(session).await,
            Experiment::Appends(args) => appends::run(session, &args.appends).await,
            Experiment::Grpc(args) => grpc::run(session, &args.grpc).await,
            Experiment::Latency(args) => latency::run(session, &args.latency).await,
            Experiment::Start(_) => start::run(session).await,
            Experiment::Paper(_) => paper::run(session).await,
            Experiment::Linkedin(_) => linkedin::run(session).await,
            Experiment::Ingest(args) => ingest::run(session, &args.ingest).await,
            Experiment::Soak(_) => soak::run(session).await,
            Experiment::Cluster(args) => cluster::run(session, &args.cluster).await,
            Experiment::Targets(_) => targets::run(session).await,
            Experiment::All(args) => {
                let is_quick = session.lengths.is_quick;
                produce::run(session, &Produce::usual(&args.durability)).await?;
                fetch::run(session).await?;
                appends::run(session, &Appends::usual(&args.durability, is_quick)).await?;
                latency::run(session, &Latency::usual(&args.durability)).await?;
                for limit in [side::NULL, side::BARE] {
                    session.dismiss(limit, &["paper", "linkedin", "ingest", "soak", "start"]);
                }
                paper::run(session).await?;
                linkedin::run(session).await?;
                session.measure_as_usual_for("ingest", Ingest::usual_lengths(is_quick));
                ingest::run(session, &Ingest::usual(is_quick)).await?;
                session.measure_as_others();
                soak::run(session).await?;
                start::run(session).await
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::generator::BatchShape;
    use crate::load::{Load, RestartLoad, StartLoad};
    use crate::side::Side;

    #[derive(Parser)]
    struct CommandLine {
        #[command(subcommand)]
        experiment: Experiment,
    }

    #[tokio::test]
    async fn a_broker_that_runs_is_not_measured_by_killing_it() {
        // Nobody listens there, and nobody is asked.
        let nobody = BrokerAddress::new("127.0.0.1", 1);
        for name in ["start", "targets", "cluster"] {
            let directory = tempfile::tempdir().expect("a directory");
            let output = directory.path().join("report");
            let output = output.to_string_lossy();
            let line = ["bench", name, "--output", output.as_ref()];
            let experiment = CommandLine::parse_from(line).experiment;
            let never = std::future::pending();
            let outcome = run(&experiment, std::slice::from_ref(&nobody), &mut |_| (), never).await;
            let error = outcome.ended_early.expect("it is refused");
            assert!(error.to_string().contains("--own") && outcome.report.is_none(), "{name}");
            assert!(!directory.path().join("report").exists(), "{name}");
        }
        let side = Side::given("broker", nobody, None);
        let restart =
            RestartLoad { is_at_once: false, batch: BatchShape::Records(1), record_bytes: 1 };
        assert!(StartLoad.refusal(&side).is_some() && restart.refusal(&side).is_some());
    }

    #[test]
    fn every_experiment_has_defaults() {
        let durability = [Durability::Unsynced];
        assert_eq!(Appends::usual(&durability, false).connections, [1, 4, 16, 64, 128]);
        assert!(Produce::usual(&durability).asks_for("1 MiB batches"));
        assert_eq!(Latency::usual(&durability).durability, durability);
        assert_eq!(Ingest::usual(true).rate, [100_000.0, 250_000.0, 1_000_000.0]);
    }

    #[test]
    fn a_full_run_of_ingest_takes_ten_minutes() {
        let usual = |line: &[&str]| {
            let Usual { rounds, measured_seconds, .. } =
                CommandLine::parse_from(line).experiment.usual();
            (rounds, measured_seconds)
        };
        assert_eq!(usual(&["bench", "ingest", "--own"]), (1, 600.0));
        assert_eq!(usual(&["bench", "ingest", "--quick"]), (3, 1.0));
        assert_eq!(usual(&["bench", "all", "--own"]), (5, 10.0));
        let cluster = CommandLine::parse_from(["bench", "cluster", "--own"]).experiment.usual();
        assert_eq!((cluster.nodes, cluster.rounds), (3, 5));
    }
}
