//! The sink `kafka`: into topics of Kafka or Logway.

mod producers;

use bytes::Bytes;
use logway_client::{Acks, ClientError, NewRecord, ProducerOptions};
use logway_model::{ErrorCode, PartitionId, TimestampMs, TopicName};
use logway_record::Header;

use self::producers::{Attempt, Producers};
use super::one_by_one::{Failure, Outcome, Store, store_each_once};
use super::template::Template;
use super::{Sending, Sink, SinkContext};
use crate::channel::Taken;
use crate::codec::avro::put_event;
use crate::declaration::{Declaration, Fallback, Kind, Role, key};
use crate::error::StartError;
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
            "Whether a header may name another. The source `kafka` sets that header to the topic that it reads: say \
             `false` behind such a source, or events come round.",
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

struct KafkaSink {
    form: Form,
    producers: Producers,
}

/// How an event becomes a record of a topic.
struct Form {
    topic: Template,
    /// A header that may name another topic.
    topic_header: Option<String>,
    partition: Option<PartitionId>,
    partition_header: Option<String>,
    event_id_header: Option<String>,
    copies_headers: bool,
    has_event_format: bool,
}

pub(crate) fn make(context: SinkContext) -> Result<Box<dyn Sink>, StartError> {
    let settings = &context.settings;
    let text = |key: &str| settings.text(key).map(str::to_owned);
    let names_topics = settings.flag("allowTopicOverride");
    let form = Form {
        topic: Template::parse(settings.required("kafka.topic").trim())?,
        topic_header: text("topicHeader").filter(|_| names_topics),
        partition: settings.limit("defaultPartitionId").map(|number| PartitionId(number as i32)),
        partition_header: text("partitionIdHeader"),
        event_id_header: text("eventIdHeader"),
        copies_headers: settings.flag("copyHeaders"),
        has_event_format: settings.flag("useFlumeEventFormat"),
    };
    let producers = Producers::new(client(settings)?, options(settings));
    Ok(Box::new(KafkaSink { form, producers }))
}

fn options(settings: &Settings) -> ProducerOptions {
    let (default, compression) = (ProducerOptions::default(), compression(settings));
    let (acks, requests_in_flight_max) = match settings.is("kafka.producer.acks", "1") {
        // Nothing keeps a broker from taking a batch behind one that it refused, unless it comes later.
        true => (Acks::Leader, 1),
        false => (Acks::All, default.requests_in_flight_max),
    };
    ProducerOptions {
        acks,
        compression,
        delivery_timeout: PATIENCE,
        requests_in_flight_max,
        ..default
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        let is_final = matches!(
            error.code(),
            Some(
                ErrorCode::MessageTooLarge
                    | ErrorCode::InvalidRecord
                    | ErrorCode::InvalidTimestamp
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

impl Form {
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

    /// The value of an event's record, if it is not the body.
    fn encoded(&self, event: &Event) -> Option<Vec<u8>> {
        self.has_event_format.then(|| {
            let mut encoded = Vec::new();
            put_event(&mut encoded, event);
            encoded
        })
    }
}

/// A batch on its way into topics.
struct Request<'a> {
    sink: &'a mut KafkaSink,
    batch: &'a Taken,
}

impl Store for Request<'_> {
    async fn store(&mut self, events: &[usize]) -> Outcome {
        let producers = &mut self.sink.producers;
        let mut attempt = Attempt::default();
        for &index in events {
            let appended =
                append(&self.sink.form, producers, &mut attempt, self.batch, index).await;
            if let Err(failure) = appended {
                attempt.failed(failure);
                break;
            }
        }
        // Also after a failure: what was sent before comes to its own end, which has to be known.
        producers.end(attempt).await
    }
}

async fn append(
    form: &Form,
    producers: &mut Producers,
    attempt: &mut Attempt,
    batch: &Taken,
    index: usize,
) -> Result<(), Failure> {
    let event = &batch.events[index];
    let (topic, partition) = (form.topic_of(event)?, form.partition_of(event)?);
    let (headers, encoded) = (form.record_headers(batch, index), form.encoded(event));
    let timestamp = event.headers.get("timestamp").and_then(|text| text.parse().ok());
    let record = NewRecord {
        partition,
        timestamp: TimestampMs(timestamp.unwrap_or_else(now_ms)),
        key: event.headers.get("key").map(str::as_bytes),
        value: Some(encoded.as_deref().unwrap_or(&event.body)),
        headers: &headers,
    };
    producers.send(attempt, index, topic, record).await
}

impl Sink for KafkaSink {
    fn send<'a>(&'a mut self, batch: &'a Taken) -> Sending<'a> {
        let count = batch.events.len();
        Box::pin(async move { store_each_once(&mut Request { sink: self, batch }, count).await })
    }
}
