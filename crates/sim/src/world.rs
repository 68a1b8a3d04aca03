//! The lives of a world.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use logway_coordinator::{CommitToken, ElapsedMs, Moment, Reply, RequestToken};
use logway_log::fs::SimFs;
use logway_log::fs::sim::{Failure, Fault, Rng, SimOperation, Turns};
use logway_log::{AppendFuture, Clock, InlineRound, LogError};
use logway_model::{LeaderEpoch, TimestampMs, TopicId, TopicName, TopicPartition, Uuid};
use logway_record::Batch;

use crate::broker::Broker;
use crate::clock::WorldClock;
use crate::model::{CommitKey, Kind, Model, Partition};
use crate::mutation::Mutation;
use crate::plan::Plan;
use crate::report::Report;
use crate::violation::Violation;

/// The topic that keeps the offsets of groups.
pub(crate) const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// A broker's storage on a simulated disk, what it has promised, and chance.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) random: Rng,
    pub(crate) turns: Arc<Turns>,
    pub(crate) fs: SimFs,
    pub(crate) clock: WorldClock,
    mutation: Option<&'static Mutation>,
    pub(crate) model: Model,
    /// `None` between two lives.
    pub(crate) broker: Option<Broker>,
    /// The number of the life, from 1 on, which is the leader epoch, too.
    life: i32,
    /// Nothing more happens in this life: a disk operation has failed.
    pub(crate) is_over: bool,
    /// The log directories were closed in good order.
    pub(crate) was_closed: bool,
    /// Appends without an answer.
    pub(crate) started: VecDeque<Started>,
    /// They may be done in rounds of the driver's.
    pub(crate) is_inline: bool,
    /// Such a round that has begun.
    pub(crate) round: Option<InlineRound>,
    /// Commits without an answer.
    pub(crate) asked: BTreeMap<RequestToken, (CommitKey, i64)>,
    /// Answers of the shard that nobody has looked at.
    pub(crate) replies: Vec<(RequestToken, Reply)>,
    /// The next number of anything that needs one.
    next_number: u64,
    pub(crate) report: Report,
}

/// An append on its way.
pub(crate) struct Started {
    pub(crate) partition: TopicPartition,
    pub(crate) batch: Batch,
    pub(crate) append: AppendFuture,
    /// For the shard, if it is one of its records.
    pub(crate) token: Option<CommitToken>,
}

/// How a life ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Close,
    Kill,
    PowerCut,
}

impl World {
    /// The world of a seed; the mutation is in force in all its lives.
    pub(crate) fn new(seed: u64, mutation: Option<&'static Mutation>) -> World {
        let mut random = Rng::new(seed);
        // By a chance of its own: a world is the same with another journal, or none.
        let plan = Plan::new(&mut random, &mut Rng::new(!seed));
        let turns = Turns::begin(random.next_u64());
        let mut world = World {
            fs: SimFs::in_turns(random.next_u64(), &turns),
            plan,
            random,
            turns,
            clock: WorldClock::new(),
            mutation,
            model: Model::default(),
            broker: None,
            life: 0,
            is_over: false,
            was_closed: false,
            started: VecDeque::new(),
            is_inline: false,
            round: None,
            asked: BTreeMap::new(),
            replies: Vec::new(),
            next_number: 0,
            report: Report { seeds: 1, ..Report::default() },
        };
        world.mutate();
        world.add_topic(OFFSETS_TOPIC, world.plan.dirs.len(), Kind::Offsets);
        for (number, partition) in world.model.partitions.values_mut().enumerate() {
            // One in each directory, for whose writer there is always somebody to ask.
            partition.dir = number;
        }
        for topic in 0..2 {
            world.add_random_topic(topic);
        }
        world
    }

    /// Lives all lives, and looks at what is left.
    pub(crate) fn run(mut self) -> Result<Report, Violation> {
        for _ in 0..self.plan.lives {
            let outcome = self.start().and_then(|()| self.live());
            outcome.map_err(|violation| self.located(&violation))?;
        }
        let outcome = self.start();
        outcome.map_err(|violation| self.located(&violation))?;
        self.turns.rest();
        if let Some(broker) = self.broker.take() {
            self.report.journalled += broker.metrics.journal_rounds.get();
        }
        self.report.changes += self.fs.changes();
        Ok(self.report)
    }

    fn located(&self, violation: &Violation) -> Violation {
        let (life, lives) = (self.life, self.plan.lives);
        let disk = if self.plan.is_disk_failing { " on a failing disk" } else { "" };
        Violation::new(format!("after life {life} of {lives}{disk}: {violation}"))
    }

    /// One life, from the start on until the disk stops, or in good order.
    fn live(&mut self) -> Result<(), Violation> {
        self.life += 1;
        tracing::debug!(life = self.life, "a life");
        self.is_over = false;
        let last_change = 1 + self.random.below(self.plan.changes_max);
        self.fs.crash_at_change(last_change as u64);
        if self.plan.is_disk_failing && self.random.coin() {
            self.report.faulty_lives += 1;
            match self.random.below(4) {
                0 => self.fs.stop_at_change(1 + self.random.below(last_change) as u64),
                _ => self.let_disk_fail(),
            }
        }
        self.retry()?;
        let steps = self.random.below(self.plan.steps_max);
        for _ in 0..steps {
            if self.is_life_over() {
                break;
            }
            self.step()?;
        }
        self.end()
    }

    /// Whether nothing can happen any more.
    pub(crate) fn is_life_over(&self) -> bool {
        self.is_over || self.fs.has_crashed()
    }

    /// What the next error of the engine means: the end of the life if the disk has failed, else a
    /// promise is broken.
    pub(crate) fn forgive(&mut self, what: &str, error: &LogError) -> Result<(), Violation> {
        if self.fs.has_crashed() || self.plan.is_disk_failing {
            self.is_over = true;
            // An append that finds no space brings retention forward.
            self.model.partitions.values_mut().for_each(Partition::ask_for_retention);
            return Ok(());
        }
        Err(Violation::new(format!("{what}, on a disk that works: {error}")))
    }

    fn end(&mut self) -> Result<(), Violation> {
        self.turns.pause();
        let end = match self.random.below(10) {
            0..3 if !self.is_life_over() => End::Close,
            // A process that is killed between a failed sync and the note of it leaves pages that
            // the next one takes for written: nobody can know.
            0..5 if !self.plan.is_disk_failing => End::Kill,
            _ => End::PowerCut,
        };
        if end == End::Close && self.close()? {
            return Ok(());
        }
        // Also a machine at rest is stopped at the next change, which may be one of the threads that
        // have nothing to do with the workload.
        if !self.fs.has_crashed() {
            self.fs.crash_at_change(1);
        }
        self.stop(end);
        Ok(())
    }

    /// Closes all log directories; says whether that went well.
    fn close(&mut self) -> Result<bool, Violation> {
        let broker = self.broker.take().expect("the world lives");
        if let Err(error) = broker.dirs.iter().try_for_each(|dir| dir.close()) {
            self.broker = Some(broker);
            self.forgive("a directory cannot be closed", &error)?;
            return Ok(false);
        }
        if self.fs.has_stopped() {
            // The last sync of a directory may have claimed a success.
            self.broker = Some(broker);
            return Ok(false);
        }
        self.report.journalled += broker.metrics.journal_rounds.get();
        drop(broker);
        for partition in self.model.partitions.values_mut() {
            partition.note_closed();
        }
        self.was_closed = true;
        self.report.closes += 1;
        self.fs.crash_never();
        self.fs.heal();
        self.mutate();
        if self.random.coin() {
            self.next_disk(End::PowerCut);
        }
        Ok(true)
    }

    /// The machine or the process stops; the next disk is as it is found then.
    fn stop(&mut self, end: End) {
        if let Some(broker) = self.broker.take() {
            for (name, log) in &broker.logs {
                let partition = self.model.partition(name);
                partition.note_flushed(log.flushed_offset());
                partition.note_killed();
            }
            self.started.clear();
            drop(self.round.take());
            self.report.journalled += broker.metrics.journal_rounds.get();
            // The engine's threads find that nothing works any more.
            drop(broker);
        }
        self.asked.clear();
        self.replies.clear();
        self.was_closed = false;
        self.next_disk(end);
    }

    /// The disk has stopped in the middle of a start.
    pub(crate) fn stop_in_start(&mut self, broker: Option<Broker>) {
        // Nobody could look at the logs yet.
        drop(broker);
        let end = if self.random.below(4) == 0 { End::Kill } else { End::PowerCut };
        self.report.in_starts += 1;
        self.stop(end);
    }

    fn next_disk(&mut self, end: End) {
        self.report.changes += self.fs.changes();
        if end == End::Kill {
            self.report.kills += 1;
            tracing::debug!("the process is killed");
            self.fs = self.fs.kill();
        } else {
            self.report.power_cuts += 1;
            tracing::debug!("the power is cut");
            self.model.partitions.values_mut().for_each(Partition::note_power_cut);
            self.fs = self.fs.crash();
        }
        self.mutate();
    }

    fn mutate(&mut self) {
        let faults = self.mutation.map(|mutation| mutation.faults(&self.plan.dirs));
        faults.into_iter().flatten().for_each(|fault| self.fs.inject(fault));
    }

    /// Has some operation fail, once or for some time.
    fn let_disk_fail(&mut self) {
        let (operation, failure) = [
            (SimOperation::Sync, Failure::Io),
            (SimOperation::SyncDir, Failure::Io),
            (SimOperation::Write, Failure::Io),
            (SimOperation::Write, Failure::NoSpace),
            (SimOperation::Read, Failure::ShortRead),
        ][self.random.below(5)];
        let part = ["", ".log", "index", "-checkpoint", "snapshot", "/t"][self.random.below(6)];
        let fault = Fault::new(operation, failure).in_path(part);
        let passes = self.random.below(20) as u64;
        self.fs.inject(fault.after(passes).times(1 + self.random.below(3) as u64));
    }

    /// The leader epoch in which this life appends.
    pub(crate) fn epoch(&self) -> LeaderEpoch {
        LeaderEpoch(self.life)
    }

    /// The time, for records.
    pub(crate) fn now(&self) -> TimestampMs {
        self.clock.now()
    }

    /// The time, for the shard.
    pub(crate) fn moment(&self) -> Moment {
        Moment { elapsed: ElapsedMs(self.clock.elapsed_ms()), wall: self.now() }
    }

    /// Lets time go on, and the writers do what is due.
    pub(crate) fn advance_ms(&mut self, elapsed_ms: u64) {
        self.clock.advance_ms(elapsed_ms);
        for log in self.broker.iter().flat_map(|broker| broker.logs.values()) {
            // A question wakes the writer; the answer does not matter.
            drop(log.producers().wait());
            self.turns.pause();
        }
    }

    /// A number that was not given before.
    pub(crate) fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// The id of a new topic.
    pub(crate) fn new_topic_id(&mut self) -> TopicId {
        let mut bytes = [0; 16];
        bytes[8..].copy_from_slice(&self.number().to_be_bytes());
        TopicId(Uuid(bytes))
    }

    /// The name of one of the few topics.
    pub(crate) fn topic_name(number: usize) -> TopicName {
        TopicName::new(&format!("t{number}")).expect("a good name")
    }
}
