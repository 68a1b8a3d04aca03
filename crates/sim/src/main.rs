//! `powercut`: worlds by the thousand.

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use logway_sim::command::{deal, log, repeating};
use logway_sim::{MUTATIONS, Mutation, Report, run};
use tracing::Level;

const USAGE: &str =
    "usage: cargo powercut [--seeds N] [--from N] [--jobs N] [--mutation NAME] [--log | --changes]
       cargo powercut --mutations

Lives the worlds of N seeds from a first one on, and stops at the first promise that is broken.

  --seeds N        how many (default 1000)
  --from N         the first one (default 0)
  --jobs N         in so many processes at the same time (default 1)
  --mutation NAME  leaves something out that the engine does
  --mutations      lists what can be left out
  --log            shows what the engine logs
  --changes        that, and each change of the disk";

/// What to do.
#[derive(Debug, Clone, Copy)]
struct Options {
    seeds: u64,
    first: u64,
    jobs: u64,
    mutation: Option<&'static Mutation>,
}

impl Options {
    /// The arguments that say what kind of worlds.
    fn kind(&self) -> Vec<&'static str> {
        self.mutation.into_iter().flat_map(|mutation| ["--mutation", mutation.name]).collect()
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let mut options = Options { seeds: 1_000, first: 0, jobs: 1, mutation: None };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().with_context(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--seeds" => options.seeds = value()?.parse().context("--seeds")?,
            "--from" => options.first = value()?.parse().context("--from")?,
            "--jobs" => options.jobs = value()?.parse().context("--jobs")?,
            "--mutation" => options.mutation = Some(mutation(&value()?)?),
            "--mutations" => {
                MUTATIONS.iter().for_each(|mutation| println!("{}", mutation.name));
                return Ok(ExitCode::SUCCESS);
            }
            "--log" => log(Level::DEBUG),
            "--changes" => log(Level::TRACE),
            _ => bail!("unknown argument '{arg}'\n{USAGE}"),
        }
    }
    match options.jobs {
        0 | 1 => Ok(live(&options)),
        jobs => deal(options.first, options.seeds, jobs, &options.kind()),
    }
}

fn mutation(name: &str) -> anyhow::Result<&'static Mutation> {
    let found = MUTATIONS.iter().find(|mutation| mutation.name == name);
    found.with_context(|| format!("no mutation is called '{name}'; --mutations lists them"))
}

/// Lives all worlds in this process.
fn live(options: &Options) -> ExitCode {
    let started = Instant::now();
    let mut total = Report::default();
    let mut told = Instant::now();
    for seed in options.first..options.first.saturating_add(options.seeds) {
        match run(seed, options.mutation) {
            Ok(report) => total += report,
            Err(violation) => {
                eprintln!("{violation}");
                eprintln!("hint: `{}` repeats it", repeating("powercut", seed, &options.kind()));
                return ExitCode::FAILURE;
            }
        }
        if io::stderr().is_terminal() && told.elapsed() > Duration::from_secs(2) {
            told = Instant::now();
            eprint!("\r{} of {} seeds", total.seeds, options.seeds);
        }
    }
    if io::stderr().is_terminal() {
        eprint!("\r");
    }
    println!("{total}, in {:.1} s", started.elapsed().as_secs_f64());
    ExitCode::SUCCESS
}
