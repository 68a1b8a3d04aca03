//! One sitting: the sides, and the runs on them in turn.

mod args;
mod progress;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use logway_client::BrokerAddress;

use args::Lengths;
pub use args::SessionArgs;
use progress::Progress;

use crate::files::create_directory;
use crate::generator::{Acks, BatchShape};
use crate::load::{FetchLoad, Load, ProduceLoad, Run, Stop};
use crate::measure::{Durability, Machine, Row, settle};
use crate::report::{Omission, Statement};
use crate::side::{Opponent, Side, StatedSide};

/// How long a run waits for the disk to finish with the one before.
const SETTLE_PATIENCE: Duration = Duration::from_secs(3);

/// Who writes so much in a second is warm, and would take the page cache from those that are measured.
const WARM_BYTES: u64 = 256 << 20;

/// So that filling the queue takes no longer than what is warmed.
const WARMING_MESSAGES_IN_SECOND: f64 = 10_000.0;

/// The sides, how long each run is, and the rows so far.
///
/// It owns the brokers that were started for it: when it goes, they end.
pub(crate) struct Session<'a> {
    sides: Vec<Side>,
    /// All that took part, those that were dismissed as well.
    stated: Vec<StatedSide>,
    run: Run,
    pub(crate) lengths: Lengths,
    pub(crate) rows: Vec<Row>,
    pub(crate) omissions: Vec<Omission>,
    works: usize,
    machine: Machine,
    output: PathBuf,
    progress: Progress,
    on_row: &'a mut dyn FnMut(&Row),
    _stop: Stop,
}

impl<'a> Session<'a> {
    /// Starts the brokers, or takes the one that runs, and warms each.
    pub(crate) async fn open(
        name: &str,
        args: &SessionArgs,
        brokers: &[BrokerAddress],
        on_row: &'a mut dyn FnMut(&Row),
    ) -> anyhow::Result<Session<'a>> {
        let (lengths, opponents) = (args.lengths(), args.opponents()?);
        let output = args.output.clone().unwrap_or_else(|| default_output(name));
        create_directory(&output)?;
        let work_dir = args.work_dir.clone().unwrap_or_else(|| output.join("brokers"));
        create_directory(&work_dir)?;
        let machine = Machine::look(&work_dir);
        let stop = Stop::default();
        let progress = Progress::start();
        let sides = match opponents.as_slice() {
            [] => vec![given_side(brokers, args.broker_pid)?],
            opponents => start_sides(opponents, &work_dir, &progress).await?,
        };
        let run = Run {
            warm_up: lengths.warm_up,
            measured: lengths.measured,
            preloaded_bytes: lengths.preloaded_bytes,
            empty_partitions: lengths.empty_partitions,
            stop: Arc::clone(&stop.0),
        };
        let mut session = Session {
            stated: sides.iter().map(Side::stated).collect(),
            sides,
            run,
            lengths,
            rows: Vec::new(),
            omissions: Vec::new(),
            works: 0,
            machine,
            output,
            progress,
            on_row,
            _stop: stop,
        };
        session.warm().await?;
        Ok(session)
    }

    /// Gives every side the same work before anything counts: a JVM compiles what it has run for
    /// a while, and it would be unfair to measure it before.
    async fn warm(&mut self) -> anyhow::Result<()> {
        if self.lengths.warm_side.is_zero() {
            return Ok(());
        }
        let batches = ProduceLoad::default();
        let singles =
            ProduceLoad { batch: BatchShape::Records(1), in_flight: 50, ..batches.clone() };
        let unanswered = ProduceLoad { acks: Acks::None, ..singles.clone() };
        let synced = ProduceLoad { durability: Durability::Synced, ..singles.clone() };
        let (ours, others) = ([batches, singles.clone()], [unanswered, singles, synced]);
        for side in &mut self.sides {
            self.progress.say(&format!("warming {}", side.name));
            let loads = if side.peer.is_some() { others.as_slice() } else { &ours };
            let loads: Vec<&ProduceLoad> =
                loads.iter().filter(|load| load.refusal(side).is_none()).collect();
            let each = self.lengths.warm_side / loads.len().max(1) as u32;
            let run = self.run.lasting(Duration::ZERO, each);
            for load in loads {
                load.run(side, &run).await.with_context(|| format!("warming {}", side.name))?;
            }
            // A fetch is little work for a broker with batches; peers handle each message.
            if side.peer.is_some() {
                let consumer = FetchLoad {
                    batch: BatchShape::Records(1),
                    record_bytes: 200,
                    fetch_bytes: 0,
                    partitions: 1,
                    is_cached: true,
                    batches_max: (WARMING_MESSAGES_IN_SECOND * each.as_secs_f64()) as u64,
                };
                let run = Run { preloaded_bytes: u64::MAX, ..run };
                consumer.run(side, &run).await.with_context(|| format!("warming {}", side.name))?;
            }
        }
        Ok(())
    }

    /// Puts a load on each side in turn, as many rounds as there are to be; in every other round
    /// the order is reversed, so that nobody always comes second. Returns the new rows.
    pub(crate) async fn measure(
        &mut self,
        experiment: &'static str,
        work: &str,
        load: &impl Load,
    ) -> anyhow::Result<&[Row]> {
        self.measure_on(experiment, work, load, |_| true).await
    }

    /// The same on some of the sides.
    pub(crate) async fn measure_on(
        &mut self,
        experiment: &'static str,
        work: &str,
        load: &impl Load,
        is_asked: impl Fn(&str) -> bool,
    ) -> anyhow::Result<&[Row]> {
        let first = self.rows.len();
        self.works += 1;
        let parameters = load.parameters()?;
        for side in self.sides.iter().filter(|side| is_asked(&side.name)) {
            let omission = load.refusal(side).map(|reason| Omission {
                experiment,
                work: work.to_owned(),
                durability: parameters.durability,
                side: side.name.clone(),
                reason,
            });
            self.omissions.extend(omission);
        }
        if load.is_warmed_up() {
            self.warm_up(work, load, &is_asked).await?;
        }
        for round in 1..=self.lengths.rounds {
            for side in order(self.sides.len(), self.works + round as usize) {
                let side = &mut self.sides[side];
                if !is_asked(&side.name) || load.refusal(side).is_some() {
                    continue;
                }
                let (name, rounds) = (side.name.clone(), self.lengths.rounds);
                self.progress
                    .say(&format!("{experiment}: {work}, round {round} of {rounds}, {name}"));
                settle(self.run.measured.min(SETTLE_PATIENCE)).await;
                let observed = load
                    .run(side, &self.run)
                    .await
                    .with_context(|| format!("{experiment}: {work} on {name}"))?;
                let parameters = parameters.clone();
                let row = Row::of((experiment, work), (&name, round), parameters, observed);
                self.progress.suspend(|| (self.on_row)(&row));
                self.rows.push(row);
            }
        }
        Ok(&self.rows[first..])
    }

    /// Has those sides do a work whose code is compiled as they run. What all were given before the first work is not
    /// enough: each has code of its own.
    async fn warm_up(
        &mut self,
        work: &str,
        load: &impl Load,
        is_asked: &impl Fn(&str) -> bool,
    ) -> anyhow::Result<()> {
        let first = self.lengths.warm_side.min(Duration::from_secs(1));
        for side in &mut self.sides {
            let is_warmed = side.is_compiled_as_it_runs() && is_asked(&side.name);
            if !is_warmed || first.is_zero() || load.refusal(side).is_some() {
                continue;
            }
            self.progress.say(&format!("warming {} for {work}", side.name));
            let warming = format!("warming {}", side.name);
            let run = self.run.lasting(Duration::ZERO, first);
            let observed = load.run(side, &run).await.context(warming.clone())?;
            if observed.bytes < WARM_BYTES {
                // At one go: what new partitions take at first is not what has to get faster.
                let run = self.run.lasting(Duration::ZERO, self.lengths.warm_side);
                load.run(side, &run).await.context(warming)?;
            }
        }
        Ok(())
    }

    /// The names of the sides, ours first.
    pub(crate) fn side_names(&self) -> Vec<String> {
        self.sides.iter().map(|side| side.name.clone()).collect()
    }

    /// Ends a side that has nothing more to say.
    pub(crate) fn dismiss(&mut self, name: &str) {
        self.sides.retain(|side| side.name != name);
    }

    /// Whether a side can be given a load.
    pub(crate) fn takes(&self, side: &str, load: &impl Load) -> bool {
        self.sides.iter().any(|known| known.name == side && load.refusal(known).is_none())
    }

    /// Whether all sides can be killed and started again.
    pub(crate) fn is_own(&self) -> bool {
        self.sides.iter().all(Side::is_own)
    }

    /// What the report says besides the rows.
    pub(crate) fn statement(&self) -> Statement {
        Statement {
            machine: self.machine.clone(),
            sides: self.stated.clone(),
            rounds: self.lengths.rounds,
            warm_up_seconds: self.run.warm_up.as_secs_f64(),
            measured_seconds: self.run.measured.as_secs_f64(),
            preloaded_megabytes: self.lengths.preloaded_bytes / 1_000_000,
            empty_partitions: self.lengths.empty_partitions,
            generator: format!("logway {}", env!("CARGO_PKG_VERSION")),
        }
    }

    /// Where the report goes.
    pub(crate) fn output(&self) -> &Path {
        &self.output
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.sides.clear();
        // Only if it is empty.
        let _ = std::fs::remove_dir(self.output.join("brokers"));
    }
}

async fn start_sides(
    opponents: &[Opponent],
    work_dir: &Path,
    progress: &Progress,
) -> anyhow::Result<Vec<Side>> {
    let mut sides = Vec::new();
    for opponent in opponents {
        progress.say(&format!("starting {opponent}"));
        sides.push(Side::start(opponent, work_dir).await?);
    }
    Ok(sides)
}

/// The side that a running broker is.
fn given_side(brokers: &[BrokerAddress], pid: Option<u32>) -> anyhow::Result<Side> {
    let [address] = brokers else { bail!("an experiment needs one broker") };
    Ok(Side::given("broker", address.clone(), pid))
}

/// The order of the sides: as they are, or reversed in every other run.
fn order(sides: usize, number: usize) -> Vec<usize> {
    match number.is_multiple_of(2) {
        true => (0..sides).collect(),
        false => (0..sides).rev().collect(),
    }
}

fn default_output(name: &str) -> PathBuf {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    PathBuf::from(format!("logway-bench-{name}-{}", since.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_always_comes_second() {
        assert_eq!(order(3, 1), [2, 1, 0]);
        assert_eq!(order(3, 2), [0, 1, 2]);
    }
}
