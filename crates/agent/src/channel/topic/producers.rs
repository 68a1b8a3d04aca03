//! Puts into a topic.

use std::sync::{Mutex, PoisonError};

use logway_client::{Client, ClientError, NewRecord, Producer, ProducerOptions, murmur2};
use logway_model::{PartitionId, TimestampMs, TopicName, TopicPartition};
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
    pub(super) idle: Mutex<Vec<Producer>>,
    pub(super) permits: Semaphore,
}

impl Producers {
    pub(super) fn permits() -> Semaphore {
        Semaphore::new(PUTS_MAX)
    }

    /// Whether the topic could take these events. What is refused here will never be taken.
    pub(super) fn check(&self, events: &[Event]) -> Result<(), ChannelError> {
        for event in events {
            self.partition_of(event)?;
            let found = self.format.encode(event).size_bytes();
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
        let named = self.partition_header.as_ref().and_then(|header| event.headers.get(header));
        let Some(text) = named else { return Ok(self.partition) };
        let number = text.trim().parse().ok().filter(|number| *number >= 0);
        let number = number.ok_or_else(|| ChannelError::Unfit {
            channel: self.channel.clone(),
            reason: format!("partition '{text}' is no number"),
        })?;
        Ok(Some(PartitionId(number)))
    }

    /// Writes events. When it returns, all replicas in sync have them. After an error some of them may be there.
    pub(super) async fn put(&self, events: &[Event]) -> Result<(), ChannelError> {
        let _permit = self.permits.acquire().await;
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut producer = match idle {
            Some(producer) => producer,
            None => {
                let opened =
                    Producer::open(self.client.clone(), self.topic.clone(), self.options.clone());
                opened.await.map_err(|error| self.failed(&error))?
            }
        };
        for event in events {
            let partition = self.partition_of(event)?.or_else(|| self.partition_of_id(event));
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
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(producer);
        Ok(())
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

    fn failed(&self, error: &ClientError) -> ChannelError {
        ChannelError::Storage { channel: self.channel.clone(), reason: error.to_string() }
    }
}
