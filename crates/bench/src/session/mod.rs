//! One sitting: the sides, and the runs on them in turn.

mod args;
mod plan;
mod progress;
pub(crate) mod values;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::bail;
use logway_client::BrokerAddress;

use args::Lengths;
pub(crate) use args::SessionArgs;
pub(crate) use args::Usual;
pub(crate) use plan::Plan;
use progress::Progress;

use crate::files::OwnedDirectory;
use crate::generator::{Acks, BatchShape, Observed};
use crate::load::{FetchLoad, Load, ProduceLoad, Reading, Run, Stop};
use crate::measure::{Durability, Machine, Parameters, Row, free_bytes, settle};
use crate::report::{Omission, Statement};
use crate::side::{Opponent, Side, StatedSide, checksum, is_limit};

/// How long a broker that goes on is asked to delete what an experiment has left.
const DELETION_PATIENCE: Duration = Duration::from_secs(10);

/// How long a run waits for the disk to finish with the one before.
const SETTLE_PATIENCE: Duration = Duration::from_secs(3);

/// Until all replicas of a new partition copy, even if they are not to be counted before: a follower of Kafka that asks a
/// leader which does not know of it yet asks again after a second (`replica.fetch.backoff.ms`).
const NEW_REPLICAS: Duration = Duration::from_secs(2);

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
    args: SessionArgs,
    run: Run,
    pub(crate) lengths: Lengths,
    pub(crate) rows: Vec<Row>,
    pub(crate) omissions: Vec<Omission>,
    /// Of the experiments whose runs are not as the others'.
    other_lengths: Vec<String>,
    works: usize,
    /// What would be done, while nothing is done but that is asked.
    plan: Option<Plan>,
    machine: Machine,
    /// What makes the load.
    generator: String,
    /// Where the brokers that were started have their data.
    data_dir: Arc<OwnedDirectory>,
    output: Arc<OwnedDirectory>,
    progress: Progress,
    on_row: &'a mut dyn FnMut(&Row),
    stop: Option<Stop>,
}

impl<'a> Session<'a> {
    /// Starts the brokers, or takes the one that runs. Runs are as `usual`, unless the arguments say otherwise.
    pub(crate) async fn open(
        name: &str,
        (args, usual): (&SessionArgs, Usual),
        brokers: &[BrokerAddress],
        on_row: &'a mut dyn FnMut(&Row),
    ) -> anyhow::Result<Session<'a>> {
        let nodes = args.nodes.unwrap_or(usual.nodes);
        let (lengths, opponents) = (args.lengths(usual), args.opponents(nodes)?);
        let executable = match opponents.is_empty() {
            true => None,
            false => Some(args.executable()?),
        };
        let output = match &args.output {
            Some(path) => OwnedDirectory::for_results(path.clone(), None)?,
            None => OwnedDirectory::with_new_name(default_names(name))?,
        };
        let brokers_dir = args.work_dir.clone().unwrap_or_else(|| output.path().join("brokers"));
        let work_dir = OwnedDirectory::for_results(brokers_dir, Some(Arc::clone(&output)))?;
        let machine = Machine::look(work_dir.path());
        let stop = Stop::default();
        let progress = Progress::start();
        let sides = match &executable {
            None => vec![given_side(brokers, args.broker_pid)?],
            Some(executable) => {
                start_sides((&opponents, nodes), executable, &work_dir, &progress).await?
            }
        };
        let run = Run {
            warm_up: if nodes > 1 { lengths.warm_up.max(NEW_REPLICAS) } else { lengths.warm_up },
            measured: lengths.measured,
            preloaded_bytes: lengths.preloaded_bytes,
            empty_partitions: lengths.empty_partitions,
            sent_bytes_max: lengths.sent_bytes_max,
            stop: Arc::clone(&stop.0),
        };
        Ok(Session {
            stated: sides.iter().map(Side::stated).collect(),
            sides,
            args: args.clone(),
            run,
            lengths,
            rows: Vec::new(),
            omissions: Vec::new(),
            other_lengths: Vec::new(),
            works: 0,
            plan: None,
            machine,
            generator: this_generator()?,
            data_dir: work_dir,
            output,
            progress,
            on_row,
            stop: Some(stop),
        })
    }

    /// Has the runs that are asked for from now on planned, and not made.
    pub(crate) fn begin_planning(&mut self) {
        self.plan = Some(Plan::default());
    }

    /// Whether runs are planned and not made: then no work has rows.
    pub(crate) fn is_planning(&self) -> bool {
        self.plan.is_some()
    }

    /// What was planned. From now on runs are made again.
    pub(crate) fn end_planning(&mut self, usual: Usual) -> Plan {
        self.omissions.clear();
        self.other_lengths.clear();
        self.works = 0;
        self.take_lengths(usual);
        self.plan.take().unwrap_or_default()
    }

    /// Ends the generator's threads, and deletes what an experiment that ended early has left on a broker that goes on.
    ///
    /// # Errors
    ///
    /// Topics stay.
    pub(crate) async fn clear_up(&mut self) -> anyhow::Result<()> {
        self.stop = None;
        for side in self.sides.iter().filter(|side| !side.is_own()) {
            self.progress.say(&format!("deleting topics on {}", side.address));
            side.made.delete_all(&side.address, DELETION_PATIENCE).await?;
        }
        Ok(())
    }

    /// Gives every side the same work before anything counts: a JVM compiles what it has run for
    /// a while, and it would be unfair to measure it before.
    pub(crate) async fn warm(&mut self) -> anyhow::Result<()> {
        if self.lengths.warm_side.is_zero() {
            return Ok(());
        }
        let batches = ProduceLoad::default();
        let singles =
            ProduceLoad { batch: BatchShape::Records(1), in_flight: 50, ..batches.clone() };
        let unanswered = ProduceLoad { acks: Acks::None, ..singles.clone() };
        let synced = ProduceLoad { durability: Durability::Synced, ..singles.clone() };
        let ours = [batches, singles.clone(), synced.clone()];
        let others = [unanswered, singles, synced];
        for side in &mut self.sides {
            self.progress.say(&format!("warming {}", side.name));
            let loads = if side.peer.is_some() { others.as_slice() } else { &ours };
            let loads: Vec<&ProduceLoad> =
                loads.iter().filter(|load| load.refusal(side).is_none()).collect();
            let each = self.lengths.warm_side / loads.len().max(1) as u32;
            let run = self.run.lasting(Duration::ZERO, each);
            for load in loads {
                match &mut self.plan {
                    Some(plan) => plan.add(1, &run, load.written_bytes_max(side, &run)?),
                    None => _ = run_on(side, load, &run, None).await?,
                }
            }
            let messages = FetchLoad {
                batch: BatchShape::Records(1),
                record_bytes: 200,
                fetch_bytes: 0,
                partitions: 1,
                reading: Reading::Repeated,
                batches_max: (WARMING_MESSAGES_IN_SECOND * each.as_secs_f64()) as u64,
            };
            let batches = FetchLoad {
                batch: BatchShape::Bytes(16 << 10),
                fetch_bytes: 1 << 20,
                batches_max: WARM_BYTES / (16 << 10),
                ..messages.clone()
            };
            let consumer = if side.peer.is_some() { messages } else { batches };
            if consumer.refusal(side).is_none() {
                let run = Run { preloaded_bytes: u64::MAX, ..run };
                match &mut self.plan {
                    Some(plan) => plan.add(1, &run, consumer.written_bytes_max(side, &run)?),
                    None => _ = run_on(side, &consumer, &run, None).await?,
                }
            }
        }
        Ok(())
    }

    /// Measures the runs of one experiment as it is usual for that, unless the command line says otherwise,
    /// until [`Session::measure_as_others`].
    pub(crate) fn measure_as_usual_for(&mut self, experiment: &str, usual: Usual) {
        let before = (self.lengths.rounds, self.lengths.measured);
        self.take_lengths(usual);
        let Lengths { rounds, measured, .. } = self.lengths;
        if (rounds, measured) != before {
            let seconds = measured.as_secs_f64();
            self.other_lengths.push(format!("{experiment} in {rounds} rounds of {seconds} s"));
        }
    }

    /// Measures again as most experiments do.
    pub(crate) fn measure_as_others(&mut self) {
        self.take_lengths(Usual::of(self.lengths.is_quick));
    }

    fn take_lengths(&mut self, usual: Usual) {
        self.lengths = self.args.lengths(usual);
        self.run.measured = self.lengths.measured;
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
        let rounds = self.lengths.rounds;
        self.measure_rounds((experiment, work), load, is_asked, rounds).await
    }

    /// The same in so many rounds.
    async fn measure_rounds(
        &mut self,
        (experiment, work): (&'static str, &str),
        load: &impl Load,
        is_asked: impl Fn(&str) -> bool,
        rounds: u32,
    ) -> anyhow::Result<&[Row]> {
        let first = self.rows.len();
        self.works += 1;
        let replicas = self.sides.first().map_or(1, Side::nodes);
        let parameters = Parameters { replicas, ..load.parameters()? };
        for side in self.sides.iter().filter(|side| is_asked(&side.name)) {
            let omission = load.refusal(side).map(|reason| Omission {
                experiment: experiment.to_owned(),
                work: work.to_owned(),
                durability: parameters.durability,
                side: side.name.clone(),
                reason: reason.to_owned(),
            });
            self.omissions.extend(omission);
        }
        if let Some(plan) = &mut self.plan {
            let acks =
                if parameters.acks == Some(Acks::None.name()) { Acks::None } else { Acks::All };
            let run = self.run.of_new_topic(parameters.partitions, acks);
            let sides = self.sides.iter().filter(|side| is_asked(&side.name));
            for side in sides.filter(|side| load.refusal(side).is_none()) {
                plan.add(rounds, &run, load.written_bytes_max(side, &self.run)?);
            }
            return Ok(&[]);
        }
        if load.is_warmed_up() {
            self.warm_up(work, load, &is_asked).await?;
        }
        for round in 1..=rounds {
            for side in order(self.sides.len(), self.works + round as usize) {
                let side = &mut self.sides[side];
                if !is_asked(&side.name) || load.refusal(side).is_some() {
                    continue;
                }
                let name = side.name.clone();
                self.progress
                    .say(&format!("{experiment}: {work}, round {round} of {rounds}, {name}"));
                settle(self.run.measured.min(SETTLE_PATIENCE)).await;
                let observed =
                    run_on(side, load, &self.run, Some(&format!("{experiment}: {work}"))).await?;
                let parameters = parameters.clone();
                let row = Row::of((experiment, work), (&name, round), parameters, observed);
                self.progress.suspend(|| (self.on_row)(&row));
                self.rows.push(row);
            }
        }
        Ok(&self.rows[first..])
    }

    /// The same on the sides that are brokers, and not only limits of the machine.
    pub(crate) async fn measure_brokers(
        &mut self,
        experiment: &'static str,
        work: &str,
        load: &impl Load,
    ) -> anyhow::Result<&[Row]> {
        self.omit_limits((experiment, work));
        self.measure_on(experiment, work, load, |side| !is_limit(side)).await
    }

    /// The same once: what takes long, and shows within one run how steady it is.
    pub(crate) async fn measure_brokers_once(
        &mut self,
        experiment: &'static str,
        work: &str,
        load: &impl Load,
    ) -> anyhow::Result<&[Row]> {
        self.omit_limits((experiment, work));
        self.measure_rounds((experiment, work), load, |side| !is_limit(side), 1).await
    }

    /// Says of the limits that they are not measured.
    fn omit_limits(&mut self, work: (&'static str, &str)) {
        let limits = self.side_names().into_iter().filter(|side| is_limit(side));
        for side in limits.collect::<Vec<_>>() {
            self.omit(work, &side, "is no broker");
        }
    }

    /// Says why a side is not measured.
    pub(crate) fn omit(
        &mut self,
        (experiment, work): (&'static str, &str),
        side: &str,
        reason: &'static str,
    ) {
        self.omissions.push(Omission {
            experiment: experiment.to_owned(),
            work: work.to_owned(),
            durability: None,
            side: side.to_owned(),
            reason: reason.to_owned(),
        });
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
            let run = self.run.lasting(Duration::ZERO, first);
            let observed = run_on(side, load, &run, None).await?;
            if !load.writes() || observed.value_bytes < WARM_BYTES {
                // At one go: what new partitions take at first is not what has to get faster.
                let run = self.run.lasting(Duration::ZERO, self.lengths.warm_side);
                run_on(side, load, &run, None).await?;
            }
        }
        Ok(())
    }

    /// The names of the sides, ours first.
    pub(crate) fn side_names(&self) -> Vec<String> {
        self.sides.iter().map(|side| side.name.clone()).collect()
    }

    /// Ends a side that has nothing more to say in what is still to come.
    pub(crate) fn dismiss(&mut self, name: &str, to_come: &[&str]) {
        if self.sides.iter().any(|side| side.name == name) {
            self.omit(("all", &to_come.join(", ")), name, "has shown what this machine allows");
        }
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
            other_lengths: self.other_lengths.clone(),
            preloaded_megabytes: self.lengths.preloaded_bytes / 1_000_000,
            empty_partitions: self.lengths.empty_partitions,
            generator: self.generator.clone(),
        }
    }

    /// The machine's memory, and what its disk has left for the brokers' data, in bytes.
    pub(crate) fn memory_and_disk(&self) -> anyhow::Result<(u64, u64)> {
        Ok((self.machine.memory_bytes, free_bytes(self.data_dir.path())?))
    }

    /// Where the report goes.
    pub(crate) fn output(&self) -> &Arc<OwnedDirectory> {
        &self.output
    }
}

async fn start_sides(
    (opponents, nodes): (&[Opponent], usize),
    executable: &Path,
    work_dir: &Arc<OwnedDirectory>,
    progress: &Progress,
) -> anyhow::Result<Vec<Side>> {
    let mut sides = Vec::new();
    for opponent in opponents {
        progress.say(&format!("starting {opponent}"));
        sides.push(Side::start(opponent, executable, work_dir, nodes).await?);
    }
    Ok(sides)
}

/// This program, which may have been replaced by another build since it was started.
fn this_generator() -> anyhow::Result<String> {
    let build = checksum(Path::new("/proc/self/exe"))?;
    Ok(format!("logway-bench {}, executable {build}", env!("CARGO_PKG_VERSION")))
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

/// Puts a load on a side for `work`, or to warm it. Of a broker that fails, the error says what is known.
async fn run_on(
    side: &mut Side,
    load: &impl Load,
    run: &Run,
    work: Option<&str>,
) -> anyhow::Result<Observed> {
    let error = match load.run(side, run).await {
        Ok(observed) => return Ok(observed),
        Err(error) => error,
    };
    let error = match side.last_words().await {
        Some(words) => error.context(words),
        None => error,
    };
    Err(error.context(match work {
        Some(work) => format!("{work} on {}", side.name),
        None => format!("warming {}", side.name),
    }))
}

/// Names for results: of the experiment and the time, and if somebody else began in the same second, numbered.
fn default_names(name: &str) -> impl Iterator<Item = String> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let first = format!("logway-bench-{name}-{}", since.as_secs());
    let further = (2..1000).map({
        let first = first.clone();
        move |number| format!("{first}-{number}")
    });
    std::iter::once(first).chain(further)
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
