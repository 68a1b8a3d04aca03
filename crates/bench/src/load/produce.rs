//! Producing: in a closed loop, or at a fixed rate.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

use logway_model::TopicName;
use serde::{Deserialize, Serialize};

use super::peer;
use super::senders::Senders;
use super::topic::RunTopic;
use super::{Leaders, Load, Run};
use crate::generator::{
    Acks, BatchShape, EncodedBatch, HeldValues, Lane, Observed, Origin, Pace, Payload, Payloads,
    ProduceShape, ProduceTraffic, Stream, Tape,
};
use crate::measure::{Durability, Parameters};
use crate::side::{Side, is_limit};

/// Until processes and those who look at the broker have heard when to begin.
const NOTICE: Duration = Duration::from_millis(20);

/// How much of the tape one lane has, for values that are not all the same.
pub(super) const DIFFERENT_BATCHES: usize = 64;

/// So many of a stream's values say how large they are.
const SAMPLED_VALUES: usize = 1000;

/// Batches of one size over some connections, each with a partition.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ProduceLoad {
    pub(crate) batch: BatchShape,
    /// Bytes of each value, where `values` has none.
    pub(crate) record_bytes: usize,
    /// Values to take in turn.
    pub(crate) values: Option<HeldValues>,
    /// Or whence they come while the run goes on, to be encoded then.
    pub(crate) streamed: Option<Origin>,
    pub(crate) acks: Acks,
    pub(crate) durability: Durability,
    pub(crate) partitions: i32,
    /// Whether each producer writes to all partitions in turn, instead of to one of them. As a client does, it has
    /// a connection to each of their leaders, and so many requests on its way on each.
    pub(crate) spreads: bool,
    /// Producers with a connection each, or where it spreads over several leaders, one to each of those.
    pub(crate) connections: usize,
    /// Processes that have so many producers each; one is this one.
    pub(crate) processes: usize,
    pub(crate) in_flight: usize,
    /// Requests a second over all connections, for an open loop.
    pub(crate) rate: Option<f64>,
    /// Whether the broker is asked what it has counted itself.
    pub(crate) asks_broker: bool,
}

/// A connection of a producer: to the leader of some partitions, which it writes to in turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) producer: usize,
    /// At least one.
    pub(super) partitions: Vec<i32>,
}

impl Default for ProduceLoad {
    fn default() -> ProduceLoad {
        ProduceLoad {
            batch: BatchShape::Bytes(16 << 10),
            record_bytes: 100,
            values: None,
            streamed: None,
            acks: Acks::All,
            durability: Durability::Unsynced,
            partitions: 1,
            spreads: false,
            connections: 1,
            processes: 1,
            in_flight: 5,
            rate: None,
            asks_broker: false,
        }
    }
}

impl ProduceLoad {
    /// The batches that a lane sends in turn; of a stream the first ones, which tell how large they are.
    fn batches(&self) -> anyhow::Result<Vec<EncodedBatch>> {
        self.first_batches(DIFFERENT_BATCHES)
    }

    /// So many of them.
    pub(super) fn first_batches(&self, count: usize) -> anyhow::Result<Vec<EncodedBatch>> {
        if let Some(origin) = &self.streamed {
            let mut records = origin.open(0)?;
            let next = || EncodedBatch::of_records(self.batch, &mut records);
            return std::iter::repeat_with(next).take(count).collect();
        }
        let Some(values) = &self.values else {
            return Ok(vec![EncodedBatch::of_size(self.batch, self.record_bytes)?]);
        };
        let mut batches: Vec<EncodedBatch> = Vec::new();
        let mut first = 0;
        for _ in 0..count {
            let batch = EncodedBatch::of(self.batch, values.all(), first)?;
            first = (first + batch.records as usize) % values.all().len();
            batches.push(batch);
        }
        Ok(batches)
    }

    /// How many records a request brings on average.
    ///
    /// # Errors
    ///
    /// A batch cannot be encoded.
    pub(crate) fn records_in_request(&self) -> anyhow::Result<f64> {
        let batches = self.batches()?;
        let records: u64 = batches.iter().map(|batch| batch.records).sum();
        Ok(records as f64 / batches.len() as f64)
    }

    /// Bytes of a value on average.
    fn value_bytes(&self) -> anyhow::Result<usize> {
        if let Some(origin) = &self.streamed {
            let (mut records, mut bytes) = (origin.open(0)?, 0);
            for _ in 0..SAMPLED_VALUES {
                bytes += records.peek()?.len();
                records.take();
            }
            return Ok(bytes / SAMPLED_VALUES);
        }
        Ok(match &self.values {
            Some(values) => {
                let values = values.all();
                values.iter().map(Vec::len).sum::<usize>() / values.len()
            }
            None => self.record_bytes,
        })
    }

    pub(super) fn pace(&self) -> Pace {
        if self.rate.is_some() { Pace::Open } else { Pace::Closed(self.in_flight) }
    }

    /// The connections of the process with a number to a topic, ready to send; with `stored_bytes_max`, until batches of
    /// so many bytes are answered.
    pub(crate) fn lanes(
        &self,
        process: usize,
        (leaders, topic, version): (&Leaders, &TopicName, i16),
        stored_bytes_max: Option<u64>,
    ) -> anyhow::Result<Vec<Lane>> {
        let batches = self.batches()?;
        let shape =
            |partition| ProduceShape { topic: topic.clone(), partition, acks: self.acks, version };
        let value_bytes_max = stored_bytes_max.map(|bytes| value_bytes_in(bytes, &batches));
        let traffic = |payloads| {
            let traffic = ProduceTraffic::of_payloads(payloads, self.acks, version, self.pace());
            Box::new(traffic.until(value_bytes_max.unwrap_or(u64::MAX)))
        };
        let lane = |Route { producer, partitions }| {
            let (stream, pace) = (leaders.connect(partitions[0])?, self.pace());
            if let Some(origin) = &self.streamed {
                let shapes = partitions.into_iter().map(shape).collect();
                let requests = Stream::new(origin.open(producer)?, self.batch, shapes);
                let traffic = traffic(Payloads::AsEncoded(VecDeque::new()));
                return Ok(Lane::streaming(stream, pace, requests, traffic));
            }
            let (tape, payloads) = self.tape(&batches, &partitions, shape)?;
            let traffic = traffic(Payloads::InTurn { payloads, counted: 0 });
            Ok(Lane::new(stream, pace, tape, traffic))
        };
        self.routes(process, leaders).into_iter().map(lane).collect()
    }

    /// The connections of the process with a number; the producers of several processes are numbered through.
    pub(super) fn routes(&self, process: usize, leaders: &Leaders) -> Vec<Route> {
        let first = process * self.connections;
        let of_producer = |producer| {
            let groups = leaders.groups(self.partitions_of(producer)).into_iter();
            groups.map(move |partitions| Route { producer, partitions })
        };
        (first..first + self.connections).flat_map(of_producer).collect()
    }

    /// Where the producer with that number writes, in turn.
    fn partitions_of(&self, number: usize) -> Range<i32> {
        match self.spreads {
            true => 0..self.partitions,
            false => {
                let partition = number as i32 % self.partitions;
                partition..partition + 1
            }
        }
    }

    /// What a connection sends, and what is in that in turn.
    fn tape(
        &self,
        batches: &[EncodedBatch],
        partitions: &[i32],
        shape: impl Fn(i32) -> ProduceShape,
    ) -> anyhow::Result<(Tape, Vec<Payload>)> {
        let (mut frames, mut payloads) = (Vec::new(), Vec::new());
        for batch in batches {
            for &partition in partitions {
                frames.push(shape(partition).encode(batch)?);
                payloads.push(batch.payload());
            }
        }
        let tape = match frames.as_slice() {
            [only] => Tape::repeating(only, self.in_flight),
            several => Tape::of(several),
        };
        Ok((tape, payloads))
    }
}

impl Load for ProduceLoad {
    fn parameters(&self) -> anyhow::Result<Parameters> {
        let batches = self.batches()?;
        let record_bytes = self.value_bytes()?;
        Ok(Parameters {
            durability: Some(self.durability),
            acks: Some(self.acks.name()),
            partitions: self.partitions,
            producers: self.connections * self.processes,
            in_flight: if self.rate.is_some() { 0 } else { self.in_flight },
            rate: self.rate,
            ..Parameters::of_batch(EncodedBatch::average(&batches), record_bytes)
        })
    }

    fn refusal(&self, side: &Side) -> Option<&'static str> {
        side.peer.and_then(|peer| peer::produce_refusal(self, peer))
    }

    fn is_warmed_up(&self) -> bool {
        self.rate.is_none()
    }

    fn written_bytes_max(&self, _side: &Side, run: &Run) -> anyhow::Result<u64> {
        let Some(rate) = self.rate else { return Ok(run.sent_bytes_max.unwrap_or(u64::MAX)) };
        let run = run.of_new_topic(self.partitions, self.acks);
        let batch = EncodedBatch::average(&self.batches()?);
        Ok(run.bytes_at(rate, batch.bytes))
    }

    async fn run(&self, side: &mut Side, run: &Run) -> anyhow::Result<Observed> {
        if let Some(peer) = side.peer {
            return peer::produce(self, peer, side, run).await;
        }
        let topic = RunTopic::create(side, self.partitions, self.durability).await?;
        let version = topic.produce_version().await?;
        let senders = Senders::ready(self, (&topic, version), run).await?;
        let run = run.of_new_topic(self.partitions, self.acks);
        // By a timetable nothing is sent before its time, and so all can know of it.
        let notice = if self.rate.is_some() { NOTICE } else { Duration::ZERO };
        let start = Instant::now() + notice;
        let driven = senders.send(self.rate, side, &run, start);
        let observed = match self.asks_broker {
            true => side.with_own_rates(&topic.name, run.window(start), driven).await?,
            false => driven.await?,
        };
        // Nobody can say what of a request that was given up half written.
        let is_all_sent = self.acks != Acks::None || observed.unanswered == 0;
        if is_all_sent && !is_limit(&side.name) {
            topic.ensure_has(observed.entrusted_records, self.acks).await?;
        }
        topic.delete().await?;
        Ok(observed)
    }
}

/// How much of so many bytes of batches, which are sent in turn, their values are.
fn value_bytes_in(stored_bytes: u64, batches: &[EncodedBatch]) -> u64 {
    let batch_bytes: u64 = batches.iter().map(|batch| batch.bytes.len() as u64).sum();
    let value_bytes: u64 = batches.iter().map(|batch| batch.payload().value_bytes).sum();
    (stored_bytes as f64 * value_bytes as f64 / batch_bytes as f64) as u64
}

#[cfg(test)]
mod tests {
    use logway_record::{Batch, DecodeLimit};

    use super::*;
    use crate::generator::VERSION_MAX;

    #[test]
    fn batches_of_different_values_count_for_what_is_in_each() {
        let values: Vec<Vec<u8>> = (1..40).map(|length| vec![0; 10 * length]).collect();
        let load = ProduceLoad {
            batch: BatchShape::Bytes(1000),
            values: Some(HeldValues::of(values)),
            partitions: 2,
            spreads: true,
            ..ProduceLoad::default()
        };
        let batches = load.batches().expect("values make batches");
        let topic = TopicName::new("t").expect("a name");
        let shape = |partition| ProduceShape {
            topic: topic.clone(),
            partition,
            acks: Acks::All,
            version: VERSION_MAX,
        };
        let (_, payloads) = load.tape(&batches, &[0, 1], shape).expect("a tape");
        let once: Vec<u64> = batches.iter().map(|batch| batch.records).collect();
        assert!(once.iter().any(|&records| records != once[0]), "{once:?}");
        let twice: Vec<u64> = once.iter().flat_map(|&records| [records, records]).collect();
        assert_eq!(payloads.iter().map(|payload| payload.records).collect::<Vec<_>>(), twice);
        let mean = once.iter().sum::<u64>() as f64 / once.len() as f64;
        assert_eq!(load.records_in_request().expect("a mean"), mean);
    }

    #[test]
    fn values_are_a_part_of_what_is_stored() {
        let batch = EncodedBatch::of_size(BatchShape::Records(10), 100).expect("a batch");
        let stored_bytes = 7 * batch.bytes.len() as u64;
        let batches = [batch.clone(), batch];
        assert!((6999..=7000).contains(&value_bytes_in(stored_bytes, &batches)));
    }

    #[test]
    fn values_come_in_turn_from_batch_to_batch() {
        let values: Vec<Vec<u8>> = (0..5).map(|number| vec![number]).collect();
        let load = ProduceLoad {
            batch: BatchShape::Records(3),
            values: Some(HeldValues::of(values)),
            ..ProduceLoad::default()
        };
        let mut sent = Vec::new();
        for batch in load.batches().expect("values make batches") {
            let batch = Batch::parse(batch.bytes).expect("a whole batch");
            for record in batch.records(DecodeLimit::DEFAULT).expect("records") {
                sent.push(record.expect("a record").value.expect("it has a value")[0]);
            }
        }
        let in_turn: Vec<u8> = (0..5).cycle().take(3 * DIFFERENT_BATCHES).collect();
        assert_eq!(sent, in_turn);
    }
}
