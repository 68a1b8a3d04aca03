//! A producer for each topic, and what it says of the events that it was given.

use std::collections::{BTreeMap, HashMap};

use logway_client::{Client, NewRecord, ProduceSummary, Producer, ProducerOptions};
use logway_model::{PartitionId, TopicName};

use super::super::one_by_one::{Failure, Outcome};

/// Topics with a producer at a time: headers may name many.
const PRODUCERS_MAX: usize = 100;

pub(super) struct Producers {
    client: Client,
    options: ProducerOptions,
    by_topic: HashMap<TopicName, Producer>,
}

/// Events that are sent together, and what is known of them.
#[derive(Default)]
pub(super) struct Attempt {
    under_way: BTreeMap<TopicName, UnderWay>,
    outcome: Outcome,
}

/// What a producer was given and has not said to be stored.
struct UnderWay {
    /// What it had stored before.
    before: ProduceSummary,
    events: Vec<(usize, PartitionId)>,
}

impl Attempt {
    /// The first failure counts.
    pub(super) fn failed(&mut self, failure: Failure) {
        self.outcome.failure.get_or_insert(failure);
    }
}

impl UnderWay {
    /// The events that are stored. In a partition nothing is stored behind a record that is not: so those are its first.
    fn stored(&self, now: &ProduceSummary) -> Vec<usize> {
        let records = |of: &ProduceSummary, partition: PartitionId| {
            of.partitions.get(&partition).map_or(0, |partition| partition.records)
        };
        let mut left: HashMap<PartitionId, u64> = HashMap::new();
        let is_stored = |(_, partition): &&(usize, PartitionId)| {
            let left = left
                .entry(*partition)
                .or_insert_with(|| records(now, *partition) - records(&self.before, *partition));
            let is_stored = *left > 0;
            *left = left.saturating_sub(1);
            is_stored
        };
        self.events.iter().filter(is_stored).map(|(index, _)| *index).collect()
    }
}

impl Producers {
    pub(super) fn new(client: Client, options: ProducerOptions) -> Producers {
        Producers { client, options, by_topic: HashMap::new() }
    }

    /// Gives a record to its topic's producer.
    pub(super) async fn send(
        &mut self,
        attempt: &mut Attempt,
        index: usize,
        topic: TopicName,
        record: NewRecord<'_>,
    ) -> Result<(), Failure> {
        if !self.by_topic.contains_key(&topic) {
            if self.by_topic.len() >= PRODUCERS_MAX {
                self.flush(attempt).await;
                self.by_topic.clear();
                if attempt.outcome.failure.is_some() {
                    // What it was is noted, and what follows is not sent.
                    return Err(Failure::Later("an earlier event was not stored".to_owned()));
                }
            }
            let (client, options) = (self.client.clone(), self.options.clone());
            let producer = Producer::open(client, topic.clone(), options).await?;
            self.by_topic.insert(topic.clone(), producer);
        }
        let producer = self.by_topic.get_mut(&topic).expect("it was opened");
        let before = || UnderWay { before: producer.summary(), events: Vec::new() };
        let under_way = attempt.under_way.entry(topic).or_insert_with(before);
        let partition = producer.send(record).await?;
        under_way.events.push((index, partition));
        Ok(())
    }

    /// Waits until all that was sent is stored or refused.
    pub(super) async fn end(&mut self, mut attempt: Attempt) -> Outcome {
        self.flush(&mut attempt).await;
        attempt.outcome
    }

    async fn flush(&mut self, attempt: &mut Attempt) {
        for (topic, under_way) in std::mem::take(&mut attempt.under_way) {
            let Some(producer) = self.by_topic.get_mut(&topic) else { continue };
            match producer.flush().await {
                Ok(()) => {
                    attempt.outcome.stored.extend(under_way.events.iter().map(|(index, _)| *index));
                }
                Err(error) => {
                    producer.settle().await;
                    attempt.outcome.stored.extend(under_way.stored(&producer.summary()));
                    attempt.failed(error.into());
                    // It ends with its first failure; the next one has an id of its own.
                    self.by_topic.remove(&topic);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use logway_client::PartitionSummary;

    use super::*;

    fn summary(records: &[u64]) -> ProduceSummary {
        let of = |records: &u64| PartitionSummary { records: *records, ..Default::default() };
        let partitions = (0..).map(PartitionId).zip(records.iter().map(of)).collect();
        ProduceSummary { partitions, ..ProduceSummary::default() }
    }

    #[test]
    fn of_each_partition_the_first_ones_are_stored() {
        let events = [0, 1, 0, 2, 1, 0, 1].map(PartitionId);
        let under_way =
            UnderWay { before: summary(&[10, 20]), events: (30..).zip(events).collect() };
        assert_eq!(under_way.stored(&summary(&[10, 20])), [] as [usize; 0]);
        assert_eq!(under_way.stored(&summary(&[12, 21])), [30, 31, 32]);
        assert_eq!(under_way.stored(&summary(&[10, 23, 1])), [31, 33, 34, 36]);
    }
}
