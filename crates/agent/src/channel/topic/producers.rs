//! Puts into a topic.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use logway_client::{
    Client, ClientError, MissingTopic, NewRecord, Producer, ProducerOptions, murmur2,
};
use logway_model::{ErrorCode, PartitionId, TimestampMs, TopicName, TopicPartition};
use tokio::sync::Semaphore;

use super::format::{Encoded, Format, KEY_HEADER};
use crate::error::ChannelError;
use crate::event::Event;
use crate::interceptor::now_ms;

/// How many puts are on their way at once; further ones wait. Each has a producer for itself.
const PUTS_MAX: usize = 8;

/// Idempotent producers of one topic, for puts that come at the same time.
#[derive(Debug)]
pub(super) struct Producers {
    pub(super) channel: String,
    pub(super) client: Client,
    pub(super) topic: TopicName,
    pub(super) options: ProducerOptions,
    pub(super) format: Format,
    pub(super) partition: Option<PartitionId>,
    pub(super) partition_header: Option<String>,
    pub(super) event_bytes_max: usize,
    pub(super) idle: Mutex<Vec<OpenProducer>>,
    pub(super) permits: Semaphore,
}

/// A producer that nobody uses now.
#[derive(Debug)]
pub(super) struct OpenProducer {
    producer: Producer,
    /// How many the topic had when it was opened.
    partitions: usize,
}

impl Producers {
    pub(super) fn permits() -> Semaphore {
        Semaphore::new(PUTS_MAX)
    }

    /// Whether the topic could take these events. What is refused here will never be taken.
    pub(super) fn check(&self, events: &[Event]) -> Result<(), ChannelError> {
        for event in events {
            self.named_partition(event)?;
            let found = self.format.encode(event).batch_bytes(event.headers.get(KEY_HEADER));
            if found > self.event_bytes_max {
                return Err(ChannelError::TooLarge {
                    channel: self.channel.clone(),
                    found: found as u64,
                    bound: self.event_bytes_max as u64,
                    unit: "bytes",
                });
            }
        }
        Ok(())
    }

    fn partition_of(&self, event: &Event) -> Result<Option<PartitionId>, ChannelError> {
        let chosen = self.named_partition(event)?.or(self.partition);
        Ok(chosen.or_else(|| self.partition_of_id(event)))
    }

    /// The partition that the event itself names.
    fn named_partition(&self, event: &Event) -> Result<Option<PartitionId>, ChannelError> {
        let named = self.partition_header.as_ref().and_then(|header| event.headers.get(header));
        let Some(text) = named else { return Ok(None) };
        let number = text.trim().parse().ok().filter(|number| *number >= 0);
        let number =
            number.ok_or_else(|| self.unfit(format!("partition '{text}' is no number")))?;
        Ok(Some(PartitionId(number)))
    }

    /// Writes events. When it returns, all replicas in sync have them. After an error some of them may be there.
    ///
    /// # Errors
    ///
    /// A final one if an event among them will never be taken.
    pub(super) async fn put(&self, events: &[Event]) -> Result<(), ChannelError> {
        let _permit = self.permits.acquire().await;
        let (mut named, mut wanted) = (None, None);
        for event in events {
            named = named.max(self.named_partition(event)?);
            wanted = wanted.max(self.partition_of(event)?);
        }
        let mut open = self.producer(named, wanted).await?;
        let producer = &mut open.producer;
        for event in events {
            let partition = self.partition_of(event)?;
            let Encoded { value, headers } = self.format.encode(event);
            let record = NewRecord {
                partition,
                // Not the event's own time: retention counts from when it began to wait.
                timestamp: TimestampMs(now_ms()),
                key: event.headers.get(KEY_HEADER).map(str::as_bytes),
                value: Some(&value),
                headers: &headers,
            };
            producer.send(record).await.map_err(|error| self.failed(&error))?;
        }
        producer.flush().await.map_err(|error| self.failed(&error))?;
        // One that failed is not used again: the next has an id of its own.
        self.idle().push(open);
        Ok(())
    }

    fn idle(&self) -> MutexGuard<'_, Vec<OpenProducer>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A producer that knows the highest partition that is wanted. It knows as many as there were when it was opened.
    /// The highest that an event has named is looked up before.
    async fn producer(
        &self,
        named: Option<PartitionId>,
        wanted: Option<PartitionId>,
    ) -> Result<OpenProducer, ChannelError> {
        let knows = |partitions| wanted.is_none_or(|id| has_partition(partitions, id));
        let found = {
            let mut idle = self.idle();
            let index = idle.iter().rposition(|open| knows(open.partitions));
            index.map(|index| idle.remove(index))
        };
        if let Some(open) = found {
            return Ok(open);
        }
        if let Some(partition) = named {
            // Before a producer is opened for it, and before its neighbours are written.
            let topics = BTreeSet::from([self.topic.clone()]);
            let metadata = self.client.find_topics(&topics, MissingTopic::Create).await;
            let metadata = metadata.map_err(|error| self.failed(&error))?;
            let partitions = metadata.topics.get(&self.topic).map_or(0, |t| t.partitions.len());
            self.check_partition(partition, partitions)?;
        }
        let (client, options) = (self.client.clone(), self.options.clone());
        let producer = Producer::open(client, self.topic.clone(), options).await;
        let producer = producer.map_err(|error| self.failed(&error))?;
        let metadata = self.client.metadata();
        let partitions = metadata.topics.get(&self.topic).map_or(0, |t| t.partitions.len());
        Ok(OpenProducer { producer, partitions })
    }

    /// An event with an id and no key goes where it goes when it is put again: there it is known.
    fn partition_of_id(&self, event: &Event) -> Option<PartitionId> {
        if event.headers.get(KEY_HEADER).is_some() {
            return None;
        }
        let id = self.format.id(event)?;
        let metadata = self.client.metadata();
        let count = metadata.topics.get(&self.topic)?.partitions.len();
        let index = (murmur2(id.as_bytes()) & 0x7fff_ffff) as usize % count.max(1);
        let partition = PartitionId(i32::try_from(index).ok()?);
        // Without a leader it could not be put at all; then once more is better than not.
        metadata.leader(&TopicPartition::new(self.topic.clone(), partition)).map(|_| partition)
    }

    /// Whether a topic of so many partitions has the one that an event names.
    fn check_partition(
        &self,
        partition: PartitionId,
        partitions: usize,
    ) -> Result<(), ChannelError> {
        if has_partition(partitions, partition) {
            return Ok(());
        }
        let topic = self.topic.clone();
        let error = ClientError::NoSuchPartition { topic, partition, partitions };
        Err(self.unfit(error.to_string()))
    }

    fn unfit(&self, reason: String) -> ChannelError {
        ChannelError::Unfit { channel: self.channel.clone(), reason }
    }

    fn failed(&self, error: &ClientError) -> ChannelError {
        let (channel, reason) = (self.channel.clone(), error.to_string());
        match is_about_an_event(error) {
            true => ChannelError::Unfit { channel, reason },
            false => ChannelError::Storage { channel, reason },
        }
    }
}

fn has_partition(partitions: usize, id: PartitionId) -> bool {
    usize::try_from(id.0).is_ok_and(|index| index < partitions)
}

/// Whether the topic will never take one of the events. A partition that is not there is not among them here: what an
/// event names is looked up before, and a `defaultPartitionId` that is wrong must not cost every event.
fn is_about_an_event(error: &ClientError) -> bool {
    matches!(error, ClientError::UnwritableRecord { .. })
        || matches!(
            error.code(),
            Some(
                ErrorCode::MessageTooLarge
                    | ErrorCode::RecordListTooLarge
                    | ErrorCode::InvalidRecord
            )
        )
}

#[cfg(test)]
mod tests {
    use logway_client::ClientOptions;
    use logway_record::RecordError;

    use super::*;

    fn producers(format: Format) -> Producers {
        Producers {
            channel: "c".to_owned(),
            client: Client::new(Vec::new(), ClientOptions::default()),
            topic: TopicName::new("t").expect("a name"),
            options: ProducerOptions::default(),
            format,
            partition: None,
            partition_header: Some("partition".to_owned()),
            event_bytes_max: 1024,
            idle: Mutex::default(),
            permits: Producers::permits(),
        }
    }

    #[test]
    fn an_error_about_an_event_is_final_and_one_about_the_cluster_is_not() {
        let producers = producers(Format::Body);
        let refused = |code| ClientError::Refused { what: "write".to_owned(), code, message: None };
        let topic = TopicName::new("t").expect("a name");
        let partition = TopicPartition::new(topic.clone(), PartitionId(7));
        let is_final = |error: ClientError| producers.failed(&error).is_final();
        assert!(is_final(refused(ErrorCode::MessageTooLarge)));
        assert!(is_final(refused(ErrorCode::InvalidRecord)));
        let source = RecordError::TooLargeToEncode { size_bytes: 1 << 31 };
        assert!(is_final(ClientError::UnwritableRecord { partition: partition.clone(), source }));
        assert!(!is_final(refused(ErrorCode::NotEnoughReplicas)));
        assert!(!is_final(refused(ErrorCode::TopicAuthorizationFailed)));
        assert!(!is_final(ClientError::NoLeader { partition: partition.clone() }));
        producers.check_partition(partition.partition, 8).expect("is there");
        let error = producers.check_partition(partition.partition, 7).expect_err("is not there");
        assert!(error.is_final());
        // Such an error of a producer is about the partition that the configuration names.
        let partition = partition.partition;
        assert!(!is_final(ClientError::NoSuchPartition { topic, partition, partitions: 1 }));
    }

    #[test]
    fn an_event_is_measured_with_its_key_and_what_a_batch_adds() {
        let format = Format::Headers { id: "id".to_owned() };
        let producers = producers(format);
        let event = |body: usize, key: usize| {
            let mut event = Event::new(vec![0; body]);
            event.headers.set(KEY_HEADER, "k".repeat(key));
            [event]
        };
        // 61 of the batch and 21 of the record, the key as key and as a header of 3 letters, and 10 of that.
        let most = 1024 - 61 - 21 - 2 * 100 - 3 - 10;
        producers.check(&event(most, 100)).expect("fits");
        let error = producers.check(&event(most + 1, 100)).expect_err("is too large");
        assert!(matches!(error, ChannelError::TooLarge { found: 1025, bound: 1024, .. }));
        producers.check(&event(1, 600)).expect_err("the key alone is too large twice");
    }
}
