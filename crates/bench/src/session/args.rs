//! What every experiment takes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::{Args, value_parser};

use super::values;
use crate::side::{OURS, Opponent};

/// Whom to measure, for how long, and where the results go.
#[derive(Debug, Clone, Args)]
pub(crate) struct SessionArgs {
    /// Start a Logway on a fresh directory and this broker beside it, and measure them in turn:
    /// kafka, rabbitmq, activemq, nats, null (which does nothing), bare (which only stores), or the
    /// path of another logway; may be repeated
    #[arg(long, value_name = "BROKER")]
    pub against: Vec<Opponent>,
    /// Start a Logway on a fresh directory instead of measuring the one of --brokers; --against
    /// does so too
    #[arg(long)]
    pub own: bool,
    /// Nodes of each broker that is started, 1, 3 or 5: of several, each partition has a replica on each, and two must have a
    /// record before acks all acknowledges it [default: 1, of cluster 3]
    #[arg(long, value_name = "N", value_parser = nodes)]
    pub nodes: Option<usize>,
    /// The broker's executable [default: `logway` in the directory of this program]
    #[arg(long, value_name = "FILE")]
    pub logway: Option<PathBuf>,
    /// Runs of seconds, to see whether all works; the figures of full runs are better. It is always so where no broker is
    /// started, but for what --rounds, --seconds and the like say
    #[arg(long)]
    pub quick: bool,
    /// How often each run is repeated, each time on every side [default: 5, of ingest 1, quick 3]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// Measured seconds of each run [default: 10, of ingest 600, quick 1]
    #[arg(long, value_name = "SECONDS", value_parser = values::measured_seconds)]
    pub seconds: Option<f64>,
    /// Seconds of each run before measuring [default: 2, quick 0.3]
    #[arg(long, value_name = "SECONDS", value_parser = values::seconds)]
    pub warm_up_seconds: Option<f64>,
    /// Seconds of load on each broker before the first run [default: 20 beside a peer, quick 4;
    /// else 0]
    #[arg(long, value_name = "SECONDS", value_parser = values::seconds)]
    pub warm_broker_seconds: Option<f64>,
    /// Megabytes written before a run that reads or restarts [default: 3400, quick 256]
    #[arg(long, value_name = "MB", value_parser = value_parser!(u64).range(1..=100_000_000))]
    pub preload_megabytes: Option<u64>,
    /// The directory for report, tables and histograms [default: logway-bench-EXPERIMENT-TIME]
    #[arg(long, value_name = "DIRECTORY")]
    pub output: Option<PathBuf>,
    /// The directory for the data of the brokers that are started [default: in the output
    /// directory]
    #[arg(long, value_name = "DIRECTORY")]
    pub work_dir: Option<PathBuf>,
    /// Write to the broker of --brokers; what is written at most and for how long is said before
    #[arg(long, conflicts_with_all = ["own", "against"])]
    pub yes: bool,
    /// The most that a run writes to the broker of --brokers as fast as it takes it, in megabytes [default: 500]
    #[arg(
        long,
        value_name = "MB",
        value_parser = value_parser!(u64).range(1..=100_000_000),
        conflicts_with_all = ["own", "against"]
    )]
    pub run_megabytes: Option<u64>,
    /// The process of the broker of --brokers, if it runs here, to measure what it uses
    #[arg(long, value_name = "PID", value_parser = process, conflicts_with_all = ["own", "against"])]
    pub broker_pid: Option<u32>,
}

/// The default of --run-megabytes.
const RUN_MEGABYTES: u64 = 500;

/// How often and how long something is measured of which the command line does not say it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Usual {
    pub(crate) rounds: u32,
    pub(crate) measured_seconds: f64,
    /// Of each side.
    pub(crate) nodes: usize,
}

impl Usual {
    /// Of most experiments.
    pub(crate) fn of(is_quick: bool) -> Usual {
        match is_quick {
            true => Usual { rounds: 3, measured_seconds: 1.0, nodes: 1 },
            false => Usual { rounds: 5, measured_seconds: 10.0, nodes: 1 },
        }
    }
}

/// How long and how much.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lengths {
    pub(crate) is_quick: bool,
    pub(crate) rounds: u32,
    pub(crate) measured: Duration,
    pub(crate) warm_up: Duration,
    pub(crate) warm_side: Duration,
    pub(crate) preloaded_bytes: u64,
    /// Of a broker that is restarted.
    pub(crate) empty_partitions: i32,
    /// In a closed loop; of a broker that is not ours.
    pub(crate) sent_bytes_max: Option<u64>,
}

impl SessionArgs {
    /// Whether brokers are started for the session.
    pub(crate) fn starts_own(&self) -> bool {
        self.own || !self.against.is_empty()
    }

    /// Whether it is to take seconds and not minutes: a broker that runs is somebody's, and so is its disk.
    pub(crate) fn is_quick(&self) -> bool {
        self.quick || !self.starts_own()
    }

    /// The brokers to start: ours, and those that it is measured against; none if one is given.
    ///
    /// # Errors
    ///
    /// Two would have one name, or one directory; or one cannot have so many nodes.
    pub(super) fn opponents(&self, nodes: usize) -> anyhow::Result<Vec<Opponent>> {
        if !self.starts_own() {
            ensure!(self.nodes.is_none(), "--nodes is of brokers that are started: use --own");
            return Ok(Vec::new());
        }
        let mut opponents = vec![Opponent::Logway];
        for opponent in &self.against {
            let directory = opponent.directory_name();
            if opponents.iter().any(|known| known.directory_name() == directory) {
                bail!("--against {opponent}: the report could not tell it from another side");
            }
            ensure!(
                nodes == 1 || opponent.makes_clusters(),
                "--against {opponent}: it is started as one node, and not as {nodes}"
            );
            opponents.push(opponent.clone());
        }
        Ok(opponents)
    }

    /// The executable of our own side.
    ///
    /// # Errors
    ///
    /// There is none.
    pub(super) fn executable(&self) -> anyhow::Result<PathBuf> {
        if let Some(given) = &self.logway {
            ensure!(given.is_file(), "--logway {}: there is no such file", given.display());
            // Without a directory it would be looked for where programs are installed.
            return Ok(std::path::absolute(given)?);
        }
        let this = std::env::current_exe().context("cannot find this executable")?;
        let beside = this.with_file_name(OURS);
        ensure!(
            beside.is_file(),
            "there is no {}: build it beside this program, or say --logway FILE",
            beside.display()
        );
        Ok(beside)
    }

    pub(crate) fn lengths(&self, usual: Usual) -> Lengths {
        let is_quick = self.is_quick();
        let choose = |given: Option<f64>, full: f64, quick: f64| {
            let seconds = given.unwrap_or(if is_quick { quick } else { full });
            Duration::from_secs_f64(seconds)
        };
        let has_peer = !self.against.is_empty();
        let warm_side = choose(self.warm_broker_seconds, 20.0, 4.0);
        let is_warmed = has_peer || self.warm_broker_seconds.is_some();
        let megabytes = self.preload_megabytes.unwrap_or(if is_quick { 256 } else { 3400 });
        Lengths {
            is_quick,
            rounds: self.rounds.unwrap_or(usual.rounds),
            measured: Duration::from_secs_f64(self.seconds.unwrap_or(usual.measured_seconds)),
            warm_up: choose(self.warm_up_seconds, 2.0, 0.3),
            warm_side: if is_warmed { warm_side } else { Duration::ZERO },
            preloaded_bytes: megabytes * 1_000_000,
            empty_partitions: if is_quick { 200 } else { 2000 },
            sent_bytes_max: (!self.starts_own())
                .then(|| self.run_megabytes.unwrap_or(RUN_MEGABYTES) * 1_000_000),
        }
    }
}

/// As many as a quorum has that loses nothing by one more.
fn nodes(text: &str) -> Result<usize, String> {
    match text {
        "1" => Ok(1),
        "3" => Ok(3),
        "5" => Ok(5),
        _ => Err("a broker has 1, 3 or 5 nodes".to_owned()),
    }
}

/// A process of this machine.
fn process(text: &str) -> Result<u32, String> {
    let pid: u32 = text.parse().map_err(|error| format!("{error}"))?;
    match Path::new(&format!("/proc/{pid}")).exists() {
        true => Ok(pid),
        false => Err("there is no such process here".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        session: SessionArgs,
    }

    fn opponents(args: &[&str]) -> anyhow::Result<Vec<Opponent>> {
        let line = [&["bench"], args].concat();
        let session = CommandLine::try_parse_from(line).expect("arguments").session;
        session.opponents(session.nodes.unwrap_or(1))
    }

    #[test]
    fn what_means_nothing_is_refused() {
        let refused: [&[&str]; 16] = [
            &["--own", "--nodes", "0"],
            &["--own", "--nodes", "2"],
            &["--rounds", "0"],
            &["--rounds", "1001"],
            &["--seconds", "nan"],
            &["--seconds", "0"],
            &["--warm-up-seconds", "inf"],
            &["--warm-broker-seconds", "1e300"],
            &["--preload-megabytes", "0"],
            &["--preload-megabytes", "999999999999999999"],
            &["--run-megabytes", "0"],
            &["--run-megabytes", "5", "--own"],
            &["--yes", "--against", "null"],
            &["--broker-pid", "4294967295"],
            &["--broker-pid", "1", "--own"],
            &["--broker-pid", "1", "--against", "null"],
        ];
        for args in refused {
            assert!(CommandLine::try_parse_from([&["bench"], args].concat()).is_err(), "{args:?}");
        }
        let error = CommandLine::try_parse_from(["bench", "--against", "kafak"]);
        let error = error.err().expect("nobody has that name").to_string();
        assert!(error.contains("kafka") && error.contains("path"), "{error}");
    }

    #[test]
    fn the_longest_and_most_are_taken_as_they_are() {
        let month = "2592000";
        let line = ["bench", "--own", "--seconds", month, "--warm-up-seconds", month];
        let line = [&line[..], &["--warm-broker-seconds", month]].concat();
        let line = [&line[..], &["--preload-megabytes", "100000000", "--rounds", "1000"]].concat();
        let session = CommandLine::try_parse_from(line).expect("arguments").session;
        let lengths = session.lengths(Usual { rounds: 1, measured_seconds: 600.0, nodes: 1 });
        let month = Duration::from_secs(2_592_000);
        assert_eq!([lengths.measured, lengths.warm_up, lengths.warm_side], [month; 3]);
        assert_eq!((lengths.preloaded_bytes, lengths.rounds), (100_000_000_000_000, 1000));
    }

    #[test]
    fn what_is_usual_holds_where_nothing_is_said() {
        let lengths = |args: &[&str]| {
            let line = [&["bench"], args].concat();
            let session = CommandLine::try_parse_from(line).expect("arguments").session;
            let lengths = session.lengths(Usual { rounds: 1, measured_seconds: 600.0, nodes: 1 });
            (lengths.rounds, lengths.measured.as_secs())
        };
        assert_eq!(lengths(&[]), (1, 600));
        assert_eq!(lengths(&["--seconds", "60"]), (1, 60));
        assert_eq!(lengths(&["--rounds", "3"]), (3, 600));
    }

    #[test]
    fn a_broker_that_runs_is_measured_for_seconds() {
        let lengths = |args: &[&str]| {
            let line = [&["bench"], args].concat();
            let session = CommandLine::try_parse_from(line).expect("arguments").session;
            let lengths = session.lengths(Usual::of(session.is_quick()));
            (lengths.rounds, lengths.measured.as_secs(), lengths.sent_bytes_max)
        };
        assert_eq!(lengths(&["--own"]), (5, 10, None));
        assert_eq!(lengths(&[]), (3, 1, Some(500_000_000)));
        let longer = ["--rounds", "5", "--seconds", "10", "--run-megabytes", "7"];
        assert_eq!(lengths(&longer), (5, 10, Some(7_000_000)));
    }

    #[test]
    fn clusters_are_of_those_that_can_be_started_as_one() {
        let kafka = opponents(&["--against", "kafka", "--nodes", "3"]).expect("it makes clusters");
        assert_eq!(kafka, [Opponent::Logway, Opponent::Kafka]);
        for alone in ["null", "bare", "nats", "rabbitmq", "activemq"] {
            let error = opponents(&["--against", alone, "--nodes", "3"]).expect_err(alone);
            assert!(error.to_string().contains(alone), "{error}");
        }
        let error = opponents(&["--nodes", "3"]).expect_err("nothing is started");
        assert!(error.to_string().contains("--own"), "{error}");
    }

    #[test]
    fn each_side_has_a_name_of_its_own() {
        let ours = Opponent::Logway;
        let several = opponents(&["--against", "kafka", "--against", "../old/logway"]);
        let old = Opponent::OtherLogway(PathBuf::from("../old/logway"));
        assert_eq!(several.expect("three names"), [ours.clone(), Opponent::Kafka, old]);
        assert_eq!(opponents(&["--own"]).expect("one name"), [ours]);
        assert_eq!(opponents(&[]).expect("no name"), []);
        for repeated in [["logway", "null"], ["kafka", "kafka"], ["a/b-c", "a-b/c"]] {
            let error = opponents(&["--against", repeated[0], "--against", repeated[1]]);
            assert!(error.expect_err("one name twice").to_string().contains("--against"));
        }
    }
}
