//! `clusterworlds`: clusters by the hundred.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, bail};
use logway_sim::command::{deal, log, repeating};
use logway_sim::{
    CLUSTER_MUTATIONS, ClusterMutation, ClusterReport, Transactions, run_cluster, run_directed,
};
use tracing::Level;

const USAGE: &str =
    "usage: cargo clusterworlds [--seeds N] [--from N] [--jobs N] [--transactions always|never]
                           [--mutation NAME] [--log | --debug]
       cargo clusterworlds --directed [--seeds N] [--from N] [--mutation NAME] [--log | --debug]
       cargo clusterworlds --mutations

Lives the clusters of N seeds from a first one on, and stops at the first promise that is broken.

  --seeds N        how many (default 100)
  --from N         the first one (default 0)
  --jobs N         in so many processes at the same time (default 1)
  --transactions   has transactions in all worlds, or in none (default: in half of them)
  --directed       lives, instead of what the seeds plan, the worlds that are made for one rule each
  --mutation NAME  leaves something out that the nodes do
  --mutations      lists what can be left out
  --log            shows what the nodes log
  --debug          that, and what they tell when something is looked for";

/// What to do.
#[derive(Debug, Clone, Copy)]
struct Options {
    seeds: u64,
    first: u64,
    jobs: u64,
    is_directed: bool,
    transactions: Transactions,
    mutation: Option<&'static ClusterMutation>,
}

impl Options {
    /// The arguments that say what kind of worlds.
    fn kind(&self) -> Vec<&'static str> {
        let transactions: &[&str] = match self.transactions {
            Transactions::AsPlanned => &[],
            Transactions::Always => &["--transactions", "always"],
            Transactions::Never => &["--transactions", "never"],
        };
        let mutation = self.mutation.into_iter().flat_map(|it| ["--mutation", it.name]);
        transactions.iter().copied().chain(mutation).collect()
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let transactions = Transactions::AsPlanned;
    let (seeds, first, jobs, is_directed, mutation) = (100, 0, 1, false, None);
    let mut options = Options { seeds, first, jobs, is_directed, transactions, mutation };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().with_context(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--seeds" => options.seeds = value()?.parse().context("--seeds")?,
            "--from" => options.first = value()?.parse().context("--from")?,
            "--jobs" => options.jobs = value()?.parse().context("--jobs")?,
            "--directed" => options.is_directed = true,
            "--transactions" => {
                options.transactions = match value()?.as_str() {
                    "always" => Transactions::Always,
                    "never" => Transactions::Never,
                    other => bail!("--transactions: '{other}' is neither always nor never"),
                }
            }
            "--mutation" => options.mutation = Some(named_mutation(&value()?)?),
            "--mutations" => {
                CLUSTER_MUTATIONS.iter().for_each(|mutation| println!("{}", mutation.name));
                return Ok(ExitCode::SUCCESS);
            }
            "--log" => log(Level::INFO),
            "--debug" => log(Level::DEBUG),
            _ => bail!("unknown argument '{arg}'\n{USAGE}"),
        }
    }
    match options.jobs {
        0 | 1 => Ok(live(&options)),
        _ if options.is_directed => bail!("directed worlds have no --jobs\n{USAGE}"),
        jobs => deal(options.first, options.seeds, jobs, &options.kind()),
    }
}

fn named_mutation(name: &str) -> anyhow::Result<&'static ClusterMutation> {
    let found = CLUSTER_MUTATIONS.iter().find(|mutation| mutation.name == name);
    found.with_context(|| format!("no mutation is called '{name}'; --mutations lists them"))
}

/// Lives all worlds in this process.
fn live(options: &Options) -> ExitCode {
    let name = if options.is_directed { "clusterworlds --directed" } else { "clusterworlds" };
    let started = Instant::now();
    let mut total = ClusterReport::default();
    for seed in options.first..options.first.saturating_add(options.seeds) {
        let lived = match options.is_directed {
            true => run_directed(seed, options.mutation),
            false => run_cluster(seed, options.transactions, options.mutation),
        };
        match lived {
            Ok(report) => total += report,
            Err(violation) => {
                eprintln!("{violation}");
                eprintln!("hint: `{}` lives it again", repeating(name, seed, &options.kind()));
                return ExitCode::FAILURE;
            }
        }
    }
    println!("{total}, in {:.1} s", started.elapsed().as_secs_f64());
    ExitCode::SUCCESS
}
