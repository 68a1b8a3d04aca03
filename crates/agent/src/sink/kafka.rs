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
          too large for instance, goes to the sink's dead-letter channel.",
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
            "timestampHeader",
            Kind::Text,
            Fallback::Nothing,
            "The header with the record's time, in milliseconds since 1970. Without it, or where an event has no such number, \
             it is the time of sending. Brokers refuse times that are far in the future, and delete old ones by the topic's \
             retention: name a header only if its senders are trusted.",
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
    timestamp_header: Option<String>,
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
        timestamp_header: text("timestampHeader").map(|header| header.trim().to_owned()),
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
        match error.code().is_some_and(is_about_an_event)
            || matches!(
                error,
                ClientError::UnwritableRecord { .. } | ClientError::NoSuchPartition { .. }
            ) {
            true => Failure::Refused(error.to_string()),
            false => Failure::Later(error.to_string()),
        }
    }
}

/// Whether a broker that says this will never take one of the events. A topic whose name is not taken may be one that an event
/// has named.
fn is_about_an_event(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::MessageTooLarge
            | ErrorCode::InvalidRecord
            | ErrorCode::InvalidTimestamp
            | ErrorCode::InvalidTopicException
            | ErrorCode::RecordListTooLarge
            | ErrorCode::UnsupportedForMessageFormat
    )
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

    /// Any sender can set an event's headers: so none of them is the record's time unless the configuration names it.
    fn timestamp_of(&self, event: &Event) -> TimestampMs {
        let named = self.timestamp_header.as_ref().and_then(|header| event.headers.get(header));
        let time = named.and_then(|text| text.trim().parse().ok()).filter(|time| *time >= 0);
        TimestampMs(time.unwrap_or_else(now_ms))
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
    let record = NewRecord {
        partition,
        timestamp: form.timestamp_of(event),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn form(timestamp_header: Option<&str>) -> Form {
        Form {
            topic: Template::parse("t").expect("is one"),
            topic_header: None,
            partition: None,
            partition_header: None,
            event_id_header: None,
            timestamp_header: timestamp_header.map(str::to_owned),
            copies_headers: false,
            has_event_format: false,
        }
    }

    /// Or a sender whose clock is wrong has its event refused, or deleted by the topic's retention.
    #[test]
    fn a_header_is_the_time_of_a_record_only_if_it_is_named() {
        let mut event = Event::new("e");
        event.headers.set("timestamp", "4102444800000");
        let before = now_ms();
        let is_now = |time: TimestampMs| (before..=now_ms()).contains(&time.0);
        assert!(is_now(form(None).timestamp_of(&event)));
        assert!(is_now(form(Some("other")).timestamp_of(&event)));
        let named = form(Some("timestamp"));
        assert_eq!(named.timestamp_of(&event), TimestampMs(4_102_444_800_000));
        for strange in ["", "soon", "-1"] {
            event.headers.set("timestamp", strange);
            assert!(is_now(named.timestamp_of(&event)), "{strange}");
        }
    }

    #[test]
    fn what_a_broker_refuses_for_good_does_not_hold_up_others() {
        let failure = |code| {
            let refused = ClientError::Refused { what: "write".to_owned(), code, message: None };
            Failure::from(refused)
        };
        for code in [
            ErrorCode::InvalidTimestamp,
            ErrorCode::InvalidTopicException,
            ErrorCode::MessageTooLarge,
            ErrorCode::UnsupportedForMessageFormat,
        ] {
            assert!(matches!(failure(code), Failure::Refused(_)), "{code:?}");
        }
        for code in [ErrorCode::NotEnoughReplicas, ErrorCode::TopicAuthorizationFailed] {
            assert!(matches!(failure(code), Failure::Later(_)), "{code:?}");
        }
    }
}
