//! How an event is a record.

use bytes::Bytes;
use logway_model::TopicPartition;
use logway_record::{BATCH_HEADER_BYTES, Header, Record};

use crate::codec::avro::{Reader, put_event};
use crate::event::Event;

/// The header that is a record's key, as Flume has it.
pub(super) const KEY_HEADER: &str = "key";

/// How an event is a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Format {
    /// The value is the event in Avro.
    Avro,
    /// The value is the body, and headers are left out.
    Body,
    /// The value is the body, and headers are the record's. One of them is the event's id.
    Headers { id: String },
}

/// Value and headers of a record.
pub(super) struct Encoded {
    pub(super) value: Bytes,
    pub(super) headers: Vec<Header>,
}

/// What a record has at most beside its key, value and headers: lengths, its attributes, its time and its place.
const RECORD_OVERHEAD_BYTES: usize = 21;

/// What each header has at most beside its name and value.
const HEADER_OVERHEAD_BYTES: usize = 10;

impl Encoded {
    /// The bound of what a batch takes that has nothing but this record and is not compressed. Kafka's producer
    /// measures a record against `max.request.size` in this way.
    pub(super) fn batch_bytes(&self, key: Option<&str>) -> usize {
        let headers = self.headers.iter().map(|header| {
            let value = header.value.as_ref().map_or(0, Bytes::len);
            header.key.len() + value + HEADER_OVERHEAD_BYTES
        });
        let record = key.map_or(0, str::len) + self.value.len() + headers.sum::<usize>();
        BATCH_HEADER_BYTES + RECORD_OVERHEAD_BYTES + record
    }
}

impl Format {
    /// The record of an event.
    pub(super) fn encode(&self, event: &Event) -> Encoded {
        match self {
            Format::Avro => {
                let mut value = Vec::with_capacity(event.size_bytes());
                put_event(&mut value, event);
                Encoded { value: value.into(), headers: Vec::new() }
            }
            Format::Body => Encoded { value: event.body.clone(), headers: Vec::new() },
            Format::Headers { .. } => {
                let header = |(name, value): (&str, &str)| {
                    let value = Bytes::copy_from_slice(value.as_bytes());
                    Header::new(name.as_bytes().to_vec(), Some(value))
                };
                let headers = event.headers.iter().map(header).collect();
                Encoded { value: event.body.clone(), headers }
            }
        }
    }

    /// The event of a record, which somebody else may have written. A value that is no event in Avro becomes a body.
    pub(super) fn decode(&self, partition: &TopicPartition, record: &Record) -> Event {
        // A copy: or one event that waits would keep all that came with it in memory.
        let value = record.value.as_deref().unwrap_or_default();
        let mut event = match self {
            Format::Avro => Reader::new(value).event().unwrap_or_else(|error| {
                tracing::warn!(%partition, offset = record.offset.0, %error, "a value is no event; its bytes become the body");
                Event::new(Bytes::copy_from_slice(value))
            }),
            Format::Body | Format::Headers { .. } => Event::new(Bytes::copy_from_slice(value)),
        };
        if let Format::Headers { .. } = self {
            for header in &record.headers {
                let value = header.value.as_deref().unwrap_or_default();
                let texts = (std::str::from_utf8(&header.key), std::str::from_utf8(value));
                if let (Ok(name), Ok(value)) = texts {
                    event.headers.set(name, value);
                }
            }
        }
        if let Some(key) = record.key.as_deref().and_then(|key| std::str::from_utf8(key).ok()) {
            event.headers.set(KEY_HEADER, key);
        }
        event
    }

    /// The id that an event has.
    pub(super) fn id<'a>(&self, event: &'a Event) -> Option<&'a str> {
        match self {
            Format::Headers { id } => event.headers.get(id),
            Format::Avro | Format::Body => None,
        }
    }
}
