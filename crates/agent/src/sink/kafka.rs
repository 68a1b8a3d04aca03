//! The sink `kafka`: into topics of Kafka or Logway.

use std::collections::HashMap;

use bytes::Bytes;
use logway_client::{Acks, Client, ClientError, NewRecord, Producer, ProducerOptions};
use logway_model::{ErrorCode, PartitionId, TimestampMs, TopicName};
use logway_record::Header;

use super::template::Template;
use super::{Sending, Sink, SinkContext};
use crate::channel::Taken;
use crate::codec::avro::put_event;
use crate::declaration::{Declaration, Fallback, Kind, Role, key};
use crate::error::{SinkError, StartError};
use crate::event::Event;
use crate::interceptor::now_ms;
use crate::kafka_cluster::{
    CLUSTER, COMPRESSION, PARTITION_HEADER, PATIENCE, PRODUCER_PROTOCOL, client, compression,
};
use crate::settings::Settings;

pub(crate) const DECLARATION: Declaration = Declaration {
    role: Role::Sink,
    name: "kafka",
    aliases: &["org.apache.flume.sink.kafka.KafkaSink"],
    doc: "Writes events into topics, by an idempotent producer, and commits a batch when all of it is acknowledged. The \
          header `key` becomes the key, and with `eventIdHeader` a record says which event it is: one that is sent again \
          after a crash has the same id if its channel is durable. An event that the broker will never take, because it is \
          too large, goes to the sink's dead-letter channel.",
    keys: &[
        key(
            "kafka.topic",
            Kind::Text,
            Fallback::Is("default-flume-topic"),
            "The topic. Headers and times may be in it, as in the `index` of `elasticsearch`.",
        ),
        key(
            "allowTopicOverride",
            Kind::Flag,
            Fallback::Is("true"),
            "Whether a header may name another.",
        ),
        key("topicHeader", Kind::Text, Fallback::Is("topic"), "That header."),
        key(
            "flumeBatchSize",
            Kind::Number(1, 1_000_000, "events"),
            Fallback::Is("100"),
            "How many events are taken at once.",
        ),
        key(
            "useFlumeEventFormat",
            Kind::Flag,
            Fallback::Is("false"),
            "Whether values are Flume's events in Avro, with headers.",
        ),
        key(
            "copyHeaders",
            Kind::Flag,
            Fallback::Is("false"),
            "Whether an event's headers become the record's. Flume has no such thing.",
        ),
        key(
            "eventIdHeader",
            Kind::Text,
            Fallback::Nothing,
            "A record's header for the event's id: that of the event's header of the same name, or its place in the durable channel.",
        ),
        key(
            "defaultPartitionId",
            Kind::Number(0, i32::MAX as i64, "partition"),
            Fallback::Nothing,
            "The partition of all events.",
        ),
        PARTITION_HEADER,
        key(
            "kafka.producer.acks",
            Kind::Choice(&["1", "-1", "all"]),
            Fallback::Is("all"),
            "Whose acknowledgement counts. Flume's default is 1; with less than all, a repetition may be there twice.",
        ),
        COMPRESSION,
        key(
            "kafka.producer.linger.ms",
            Kind::Ignored("a batch of the channel goes at once"),
            Fallback::Nothing,
            "How long Flume's producer waits for more.",
        ),
        PRODUCER_PROTOCOL,
    ],
    shared: &[CLUSTER],
};

/// Topics with a producer at a time: headers may name many.
const PRODUCERS_MAX: usize = 100;

struct KafkaSink {
    topic: Template,
    /// A header that may name another topic.
    topic_header: Option<String>,
    partition: Option<PartitionId>,
    partition_header: Option<String>,
    event_id_header: Option<String>,
    copies_headers: bool,
    has_event_format: bool,
    options: ProducerOptions,
    client: Client,
    producers: HashMap<TopicName, Producer>,
}

pub(crate) fn make(context: SinkContext) -> Result<Box<dyn Sink>, StartError> {
    let settings = &context.settings;
    let text = |key: &str| settings.text(key).map(str::to_owned);
    let names_topics = settings.flag("allowTopicOverride");
    Ok(Box::new(KafkaSink {
        topic: Template::parse(settings.required("kafka.topic").trim())?,
        topic_header: text("topicHeader").filter(|_| names_topics),
        partition: settings.limit("defaultPartitionId").map(|number| PartitionId(number as i32)),
        partition_header: text("partitionIdHeader"),
        event_id_header: text("eventIdHeader"),
        copies_headers: settings.flag("copyHeaders"),
        has_event_format: settings.flag("useFlumeEventFormat"),
        options: options(settings),
        client: client(settings)?,
        producers: HashMap::new(),
    }))
}

fn options(settings: &Settings) -> ProducerOptions {
    let acks = if settings.is("kafka.producer.acks", "1") { Acks::Leader } else { Acks::All };
    let compression = compression(settings);
    ProducerOptions { acks, compression, delivery_timeout: PATIENCE, ..ProducerOptions::default() }
}

/// Why a batch is not in its topics.
enum Failure {
    Later(String),
    /// One of the events cannot be stored; which one shows when they are sent one by one.
    Refused(String),
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        let is_final = matches!(
            error.code(),
            Some(
                ErrorCode::MessageTooLarge
                    | ErrorCode::InvalidRecord
                    | ErrorCode::RecordListTooLarge
            )
        );
        match is_final
            || matches!(
                error,
                ClientError::UnwritableRecord { .. } | ClientError::NoSuchPartition { .. }
            ) {
            true => Failure::Refused(error.to_string()),
            false => Failure::Later(error.to_string()),
        }
    }
}

impl KafkaSink {
    async fn store(&mut self, batch: &Taken) -> Result<(), SinkError> {
        let all: Vec<usize> = (0..batch.events.len()).collect();
        match self.store_some(batch, &all).await {
            Ok(()) => return Ok(()),
            Err(Failure::Later(reason)) => return Err(SinkError::Later(reason)),
            Err(Failure::Refused(reason)) if batch.events.len() == 1 => {
                return Err(SinkError::Undeliverable { index: 0, reason });
            }
            Err(Failure::Refused(_)) => {}
        }
        for index in all {
            match self.store_some(batch, &[index]).await {
                Ok(()) => {}
                Err(Failure::Later(reason)) => return Err(SinkError::Later(reason)),
                Err(Failure::Refused(reason)) => {
                    return Err(SinkError::Undeliverable { index, reason });
                }
            }
        }
        Ok(())
    }

    async fn store_some(&mut self, batch: &Taken, indexes: &[usize]) -> Result<(), Failure> {
        let mut used: Vec<TopicName> = Vec::new();
        for &index in indexes {
            let topic = self.topic_of(&batch.events[index])?;
            if !used.contains(&topic) {
                used.push(topic.clone());
            }
            if let Err(failure) = self.append(&topic, batch, index).await {
                self.producers.clear();
                return Err(failure);
            }
        }
        for topic in used {
            let Some(producer) = self.producers.get_mut(&topic) else { continue };
            if let Err(error) = producer.flush().await {
                // It ends with its first failure; the next one has an id of its own.
                self.producers.clear();
                return Err(error.into());
            }
        }
        Ok(())
    }

    fn topic_of(&self, event: &Event) -> Result<TopicName, Failure> {
        let named = self.topic_header.as_ref().and_then(|header| event.headers.get(header));
        let name = match named {
            Some(name) => name.to_owned(),
            None => self.topic.of(event),
        };
        TopicName::new(&name).map_err(|error| Failure::Refused(error.to_string()))
    }

    fn partition_of(&self, event: &Event) -> Result<Option<PartitionId>, Failure> {
        let named = self.partition_header.as_ref().and_then(|header| event.headers.get(header));
        let Some(text) = named else { return Ok(self.partition) };
        let number = text.trim().parse();
        let number =
            number.map_err(|_| Failure::Refused(format!("partition '{text}' is no number")))?;
        Ok(Some(PartitionId(number)))
    }

    fn record_headers(&self, batch: &Taken, index: usize) -> Vec<Header> {
        let event = &batch.events[index];
        let header = |name: &str, value: &str| {
            let value = Bytes::copy_from_slice(value.as_bytes());
            Header::new(name.as_bytes().to_vec(), Some(value))
        };
        let mut headers = Vec::new();
        if self.copies_headers {
            headers.extend(event.headers.iter().map(|(name, value)| header(name, value)));
        }
        if let Some(name) = &self.event_id_header {
            let own = event.headers.get(name).map(str::to_owned);
            if let Some(id) = own.or_else(|| batch.event_id(index)) {
                headers.retain(|header| header.key != name.as_bytes());
                headers.push(header(name, &id));
            }
        }
        headers
    }

    async fn append(
        &mut self,
        topic: &TopicName,
        batch: &Taken,
        index: usize,
    ) -> Result<(), Failure> {
        if !self.producers.contains_key(topic) {
            if self.producers.len() >= PRODUCERS_MAX {
                for producer in self.producers.values_mut() {
                    producer.flush().await?;
                }
                self.producers.clear();
            }
            let producer =
                Producer::open(self.client.clone(), topic.clone(), self.options.clone()).await?;
            self.producers.insert(topic.clone(), producer);
        }
        let event = &batch.events[index];
        let partition = self.partition_of(event)?;
        let headers = self.record_headers(batch, index);
        let mut encoded = Vec::new();
        let value: &[u8] = match self.has_event_format {
            true => {
                put_event(&mut encoded, event);
                &encoded
            }
            false => &event.body,
        };
        let timestamp = event
            .headers
            .get("timestamp")
            .and_then(|text| text.parse().ok())
            .unwrap_or_else(now_ms);
        let record = NewRecord {
            partition,
            timestamp: TimestampMs(timestamp),
            key: event.headers.get("key").map(str::as_bytes),
            value: Some(value),
            headers: &headers,
        };
        let producer = self.producers.get_mut(topic).expect("it was opened");
        Ok(producer.send(record).await?)
    }
}

impl Sink for KafkaSink {
    fn send<'a>(&'a mut self, batch: &'a Taken) -> Sending<'a> {
        Box::pin(self.store(batch))
    }
}
