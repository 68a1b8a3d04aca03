//! Producers.

use std::thread;

use logway_coordinator::CommitToken;
use logway_log::{AppendBatches, LogError};
use logway_model::{ProducerId, Sequence, TopicPartition};
use logway_record::{Batch, Compression};

use crate::batch::{BatchPlan, batch};
use crate::mutation::NETWORK;
use crate::violation::{Violation, ensure};
use crate::world::{Started, World};

/// A log recognises as many of a producer's batches, so no more are under way.
const UNDER_WAY_MAX: usize = 5;

/// How many idempotent producers there are.
const PRODUCERS: usize = 3;

/// How many keys records have: few, so that most are superseded soon.
const KEYS: usize = 8;

impl World {
    /// Appends some batches at once, to any partitions.
    pub(super) fn append_some(&mut self) -> Result<(), Violation> {
        self.advance_ms(10);
        for _ in 0..1 + self.random.below(UNDER_WAY_MAX) {
            let Some(name) = self.some_led_partition() else { return Ok(()) };
            let is_durable = self.model.partition(&name).kind.is_durable();
            let producer = (is_durable && self.random.below(4) > 0)
                .then(|| ProducerId(1 + self.random.below(PRODUCERS) as i64));
            let batch = self.some_batch(&name, producer);
            self.append(&name, batch, None);
        }
        self.finish_appends()
    }

    pub(super) fn some_batch(
        &mut self,
        name: &TopicPartition,
        producer: Option<ProducerId>,
    ) -> Batch {
        let (number, timestamp) = (self.number(), self.now());
        let records: Vec<_> = (0..1 + self.random.below(3)).map(|_| self.some_record()).collect();
        let compression = [Compression::None, Compression::Lz4][self.random.below(2)];
        let partition = self.model.partition(name);
        let producer = producer.map(|id| (id, partition.next_sequence(id)));
        if let Some((id, _)) = producer {
            partition.advance(id, records.len());
        }
        batch(&BatchPlan { number, records, timestamp, producer, compression })
    }

    /// A key, and the length of the value unless there is none.
    fn some_record(&mut self) -> (usize, Option<usize>) {
        let value_bytes = match self.random.below(24) {
            0 => 1_500 + self.random.below(2_000),
            _ => self.random.below(150),
        };
        (self.random.below(KEYS), (self.random.below(4) > 0).then_some(value_bytes))
    }

    /// Hands a batch to the log, or to a round of its writer that has begun or begins with it if the writer sleeps;
    /// the answer is waited for by [`World::finish_appends`].
    pub(super) fn append(
        &mut self,
        name: &TopicPartition,
        batch: Batch,
        token: Option<CommitToken>,
    ) {
        let leader_epoch = self.epoch();
        self.model.partition(name).send(&batch, leader_epoch);
        let log = self.broker.as_ref().expect("the world lives").log(name);
        let batches = AppendBatches::new(vec![batch.clone()], leader_epoch);
        // What one sends with others under way goes the same way as they, or it could overtake them.
        if self.started.is_empty() {
            self.is_inline = self.random.below(3) > 0;
        }
        let append = match self.is_inline {
            true => log.append_inline(batches, &mut self.round),
            false => log.append(batches),
        };
        self.started.push_back(Started { partition: name.clone(), batch, append, token });
        // The writer has taken it by now, or has not, whatever the machine's scheduler says.
        self.turns.pause();
    }

    /// Has the round done that has begun, as by a thread of the network: what fails there has a name of its own.
    fn run_round(&mut self) {
        let Some(round) = self.round.take() else { return };
        self.report.inline_rounds += 1;
        let network = thread::Builder::new().name(NETWORK.to_owned()).spawn(|| round.run());
        let outcome = network.expect("there are threads").join();
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        self.turns.pause();
    }

    /// Waits for all appends, and for those that follow from them.
    pub(super) fn finish_appends(&mut self) -> Result<(), Violation> {
        loop {
            self.run_round();
            let Some(Started { partition, batch, append, token }) = self.started.pop_front() else {
                return Ok(());
            };
            match append.wait() {
                Ok(outcome) => {
                    self.turns.pause();
                    self.report.batches += 1;
                    self.model.partition(&partition).acknowledge(&batch, &outcome)?;
                    if let Some(token) = token {
                        self.finish_append_of_shard(token);
                    }
                }
                Err(error) => self.forgive(&format!("{partition}: an append fails"), &error)?,
            }
        }
    }

    /// Sends again what had no answer when the world ended.
    pub(crate) fn retry(&mut self) -> Result<(), Violation> {
        let names: Vec<TopicPartition> = self.model.partitions.keys().cloned().collect();
        for name in names {
            for batch in self.model.partition(&name).take_retries() {
                self.append(&name, batch, None);
            }
        }
        self.finish_appends()
    }

    /// Sends a batch again that was acknowledged: the last one of a producer that is there.
    pub(super) fn append_again(&mut self) -> Result<(), Violation> {
        let Some(name) = self.some_led_partition() else { return Ok(()) };
        let kept = self.model.partition(&name).kept().iter();
        let of_producers = kept.filter(|kept| kept.batch.header().producer_id.is_some());
        let Some(last) = of_producers.last() else { return Ok(()) };
        let batch = last.batch.clone();
        let batches_before = self.model.partition(&name).kept().len();
        self.append(&name, batch, None);
        self.finish_appends()?;
        let batches = self.model.partition(&name).kept().len();
        ensure(batches == batches_before, || format!("{name} has a batch twice"))
    }

    /// Sends a batch before the one that comes first. A log that knows the producer refuses it.
    pub(super) fn leave_out_a_sequence(&mut self) -> Result<(), Violation> {
        let Some(name) = self.some_led_partition() else { return Ok(()) };
        let kept = self.model.partition(&name).kept().iter();
        let known = kept.map(|kept| kept.batch.header().producer_id).rfind(|id| id.is_some());
        let Some(id) = known else { return Ok(()) };
        let Sequence(next) = self.model.partition(&name).next_sequence(id);
        let too_early = BatchPlan {
            number: self.number(),
            records: vec![(0, Some(10))],
            timestamp: self.now(),
            producer: Some((id, Sequence(next + 2))),
            compression: Compression::None,
        };
        let log = self.broker.as_ref().expect("the world lives").log(&name);
        let leader_epoch = self.epoch();
        let batches = vec![batch(&too_early)];
        match log.append(AppendBatches::new(batches, leader_epoch)).wait() {
            Err(LogError::OutOfOrderSequence { .. } | LogError::BehindRefused { .. }) => Ok(()),
            Err(error) => self.forgive(&format!("{name}: an append fails"), &error),
            Ok(outcome) => Err(Violation::new(format!("{name} took a gap: {outcome:?}"))),
        }
    }
}
