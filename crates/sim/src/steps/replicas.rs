//! Replicas that follow: the world is their leader.

use std::sync::Arc;

use logway_log::{FollowerBatches, Log, Truncation};
use logway_model::{LeaderEpoch, Offset, ProducerId, TopicPartition};
use logway_record::Batch;

use crate::batch::led;
use crate::model::{Kind, Truncated};
use crate::violation::{Violation, ensure};
use crate::world::World;

/// So many answers of the leader are handed over before the first is waited for.
const ANSWERS_MAX: usize = 3;

impl World {
    /// Some of the partitions of one log directory that follow.
    fn some_followers(&mut self) -> Vec<TopicPartition> {
        let followers = self.model.partitions.values().filter(|it| it.kind == Kind::Followed);
        let followers: Vec<_> = followers.map(|it| (it.name.clone(), it.dir)).collect();
        if followers.is_empty() {
            return Vec::new();
        }
        let (first, dir) = followers[self.random.below(followers.len())].clone();
        let others = followers.into_iter().filter(|(name, of)| *of == dir && *name != first);
        let others: Vec<_> = others.filter(|_| self.random.coin()).map(|(name, _)| name).collect();
        [first].into_iter().chain(others).collect()
    }

    /// Has logs follow their leader: each answer has batches of several partitions.
    pub(super) fn follow(&mut self) -> Result<(), Violation> {
        self.advance_ms(10);
        let followed = self.epoch();
        let mut answers = Vec::new();
        for _ in 0..1 + self.random.below(ANSWERS_MAX) {
            let names = self.some_followers();
            let Some(dir) = names.first().map(|name| self.model.partition(name).dir) else { break };
            let mut appends = Vec::new();
            for name in &names {
                let batches = self.some_led(name);
                let bytes: Vec<u8> =
                    batches.iter().flat_map(|batch| batch.bytes().to_vec()).collect();
                let from = self.model.partition(name).sent_end();
                let parsed = FollowerBatches::parse(name, followed, from, bytes.into());
                appends.push((self.replica(name), parsed.expect("what was made is good")));
                self.model.partition(name).send_led(&batches);
            }
            let broker = self.broker.as_ref().expect("the world lives");
            let answered = broker.dirs[dir].append_followed(appends);
            answers.extend(names.into_iter().zip(answered));
            self.turns.pause();
        }
        for (name, answer) in answers {
            match answer.wait() {
                Ok(end) => {
                    self.turns.pause();
                    self.report.followed += 1;
                    self.model.partition(&name).acknowledge_led(&end)?;
                }
                Err(error) => self.forgive(&format!("{name} cannot follow"), &error)?,
            }
        }
        Ok(())
    }

    /// The next batches of the leader of a partition, with a gap now and then.
    fn some_led(&mut self, name: &TopicPartition) -> Vec<Batch> {
        let partition = self.model.partition(name);
        let (mut offset, mut epoch) = (partition.sent_end(), partition.led_epoch);
        let mut batches = Vec::new();
        for _ in 0..1 + self.random.below(3) {
            if self.random.below(6) == 0 {
                epoch = self.epoch();
            }
            if self.random.below(6) == 0 {
                offset = offset + 1 + self.random.below(40) as i64;
            }
            let producer =
                (self.random.below(3) > 0).then(|| ProducerId(1 + self.random.below(3) as i64));
            let batch = self.some_batch(name, producer);
            let batch = led(&batch, offset, epoch);
            offset = batch.header().next_offset();
            batches.push(batch);
        }
        batches
    }

    /// Cuts ends of logs off, or has logs start anew.
    pub(super) fn truncate(&mut self) -> Result<(), Violation> {
        let names = self.some_followers();
        let Some(dir) = names.first().map(|name| self.model.partition(name).dir) else {
            return Ok(());
        };
        let followed = self.epoch();
        let asked: Vec<_> =
            names.into_iter().map(|name| self.some_truncation(name, followed)).collect();
        let truncations: Vec<_> =
            asked.iter().map(|(_, truncation, _)| truncation.clone()).collect();
        let broker = self.broker.as_ref().expect("the world lives");
        let results = broker.dirs[dir].truncate(&truncations);
        for ((name, _, truncated), result) in asked.into_iter().zip(results) {
            match (result, truncated) {
                // What rests on names alone may be confirmed and lost then.
                (Ok(_), _) if self.fs.has_stopped() => self.is_over = true,
                (Ok(end), Some(_)) => {
                    self.turns.pause();
                    self.report.truncations += 1;
                    self.model.partition(&name).acknowledge_truncation(end)?;
                    self.look_at_replica(&name)?;
                }
                (Ok(end), None) => ensure(end == self.model.partition(&name).end(), || {
                    format!("{name}: nothing was to be cut off, and it ends at {end}")
                })?,
                (Err(error), _) => self.forgive(&format!("{name} is not cut off"), &error)?,
            }
        }
        Ok(())
    }

    fn some_truncation(
        &mut self,
        name: TopicPartition,
        followed: LeaderEpoch,
    ) -> (TopicPartition, Truncation, Option<Truncated>) {
        let log = self.replica(&name);
        let partition = self.model.partition(&name);
        let (start, end) = (partition.start(), partition.end());
        let records = usize::try_from(end - start).expect("a log starts before its end");
        let (truncation, truncated) = match self.random.below(8) {
            0 => {
                let at = [end + 100, start, Offset(0), end][self.random.below(4)];
                let is_as_it_is = at == start && at == end;
                let truncated = Truncated { start: at, end: at };
                (Truncation::restart_at(&log, at, followed), (!is_as_it_is).then_some(truncated))
            }
            1 => {
                let to = Offset((start.0 - 3).max(0)) + self.random.below(records + 6) as i64;
                let truncated = self.model.partition(&name).truncated_to(to);
                (Truncation::to_end_at(&log, to, followed), truncated)
            }
            // Most ends that are cut off are short.
            _ => {
                let to = Offset(end.0 - self.random.below(records.min(12) + 1) as i64);
                let truncated = self.model.partition(&name).truncated_to(to);
                (Truncation::to_end_at(&log, to, followed), truncated)
            }
        };
        if let Some(truncated) = truncated {
            self.model.partition(&name).ask_for_truncation(truncated);
        }
        (name, truncation, truncated)
    }

    /// Compares a log with what was promised, in the middle of a life.
    fn look_at_replica(&mut self, name: &TopicPartition) -> Result<(), Violation> {
        let (log, now) = (self.replica(name), self.now());
        let found = match crate::check::find(&log) {
            // Nothing can be read any more.
            Err(_) if self.fs.has_crashed() || self.plan.is_disk_failing => {
                self.is_over = true;
                return Ok(());
            }
            found => found?,
        };
        let partition = self.model.partition(name);
        partition.observe(&found, now)?;
        crate::check::check_epochs(partition, &log)?;
        crate::check::check_producers(partition, &log)
    }

    /// Says how far a log is committed.
    pub(super) fn say_high_watermark(&mut self) {
        let Some(name) = self.some_followers().into_iter().next() else { return };
        let partition = self.model.partition(&name);
        let (start, end) = (partition.start(), partition.end());
        let records = usize::try_from(end - start).expect("a log starts before its end");
        let high_watermark = match self.random.coin() {
            true => end,
            false => start + self.random.below(records + 1) as i64,
        };
        self.model.partition(&name).say_high_watermark(high_watermark);
        self.replica(&name).set_high_watermark(high_watermark);
    }

    fn replica(&self, name: &TopicPartition) -> Arc<Log> {
        self.broker.as_ref().expect("the world lives").log(name)
    }
}
