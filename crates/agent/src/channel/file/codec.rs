//! Events as batches of records.

use bytes::Bytes;
use logway_model::{Offset, TimestampMs};
use logway_record::{Batch, BatchBuilder, Compression, DecodeLimit, Header, RecordError};

use crate::event::{Event, Headers};
use crate::interceptor::now_ms;

pub(super) fn encode(events: &[Event]) -> Result<Batch, RecordError> {
    let mut builder = BatchBuilder::new(Compression::None);
    let now = TimestampMs(now_ms());
    for event in events {
        let header = |(name, value): (&str, &str)| {
            Header::new(name.as_bytes().to_vec(), Some(Bytes::copy_from_slice(value.as_bytes())))
        };
        let headers: Vec<Header> = event.headers.iter().map(header).collect();
        builder.append(now, None, Some(&event.body), &headers)?;
    }
    let mut bytes = builder.finish()?;
    Batch::split_first(&mut bytes)
}

/// The events of a batch, with their offsets.
pub(in crate::channel) fn decode_batch(batch: &Batch) -> Result<Vec<(Offset, Event)>, RecordError> {
    let records = batch.records(DecodeLimit::DEFAULT)?;
    let decoded = records
        .map(|record| record.map(|record| (record.offset, decode(record.value, &record.headers))));
    decoded.collect()
}

fn decode(value: Option<Bytes>, headers: &[Header]) -> Event {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers = headers
        .iter()
        .map(|header| (text(&header.key), header.value.as_deref().map(text).unwrap_or_default()));
    // A copy: or one event that waits would keep its whole batch in memory.
    let body = value.map(|value| Bytes::copy_from_slice(&value)).unwrap_or_default();
    Event { headers: headers.collect::<Headers>(), body }
}
