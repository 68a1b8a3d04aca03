//! Fetch requests that read a partition from its start to its end, again and again.

use std::time::Instant;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use logway_model::ErrorCode;
use logway_record::{MAGIC_AT, MAGIC_V2};
use logway_wire::{ApiKey, Decoder, decode_response_header};

use super::{Asked, EncodedBatch, Observed, Pace, Payload, Traffic};

/// An answer's fields before its records are some fifty bytes and the topic's name; after them
/// this looks at the first batch's header.
const HEAD_BYTES: usize = 512;

/// How far a partition is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Span {
    /// Up to this offset, then again from the start.
    Repeat(u64),
    /// Up to this offset.
    Once(u64),
    /// For ever on, waiting at the partition's end.
    Follow,
}

/// Reads uniform batches one answer after the other.
#[derive(Debug)]
pub(crate) struct FetchTraffic {
    offset_at: usize,
    version: i16,
    /// How long one batch is.
    batch_bytes: u64,
    /// What is in one.
    payload: Payload,
    span: Span,
    next_offset: u64,
}

impl FetchTraffic {
    /// Reads a partition that holds copies of that batch only. `offset_at` is the offset's place
    /// in the request.
    pub(crate) fn new(
        offset_at: usize,
        version: i16,
        batch: &EncodedBatch,
        span: Span,
    ) -> FetchTraffic {
        let (batch_bytes, payload) = (batch.bytes.len() as u64, batch.payload());
        FetchTraffic { offset_at, version, batch_bytes, payload, span, next_offset: 0 }
    }
}

impl Traffic for FetchTraffic {
    fn head_bytes_max(&self) -> usize {
        HEAD_BYTES
    }

    fn prepare(&mut self, frame: &mut [u8]) {
        set_offset(frame, self.offset_at, self.next_offset);
    }

    fn answer(
        &mut self,
        head: &[u8],
        _frame_bytes: usize,
        asked: &mut Asked,
        now: Instant,
        observed: &mut Observed,
    ) -> anyhow::Result<()> {
        let due = asked.answered(head)?;
        let fetched = FetchedHead::read(head, self.version)?;
        let batches = fetched.records_bytes / self.batch_bytes;
        if batches == 0 && self.span == Span::Follow {
            return Ok(());
        }
        ensure!(batches > 0, "an answer of {} bytes has no batch", fetched.records_bytes);
        let base_offset = fetched.first_offset()?;
        ensure!(
            base_offset <= self.next_offset,
            "asked for offset {}, the answer begins at {base_offset}",
            self.next_offset
        );
        let payload = self.payload.times(batches);
        observed.count_answer(Pace::Closed(1), (due, now), payload);
        self.next_offset += payload.records;
        if matches!(self.span, Span::Repeat(end_offset) if self.next_offset >= end_offset) {
            self.next_offset = 0;
        }
        Ok(())
    }

    fn goes_on(&self, now: Instant, observed: &Observed) -> bool {
        let has_more = match self.span {
            Span::Once(end_offset) => self.next_offset < end_offset,
            Span::Repeat(_) | Span::Follow => true,
        };
        has_more && now < observed.window.to
    }
}

/// Has a request ask for records from `offset` on.
pub(super) fn set_offset(frame: &mut [u8], offset_at: usize, offset: u64) {
    frame[offset_at..offset_at + 8].copy_from_slice(&offset.to_be_bytes());
}

/// The beginning of an answer to a fetch of one partition.
#[derive(Debug)]
pub(crate) struct FetchedHead {
    /// How many bytes of records follow.
    pub(crate) records_bytes: u64,
    /// As much of them as there is in the head.
    pub(crate) records: Bytes,
}

impl FetchedHead {
    /// Reads the fields in front of the records, at version 11 or 12.
    ///
    /// # Errors
    ///
    /// The answer is malformed or an error.
    pub(crate) fn read(head: &[u8], version: i16) -> anyhow::Result<FetchedHead> {
        let bytes = Bytes::copy_from_slice(head);
        let mut from = Decoder::new(bytes.clone());
        let flexible = version >= 12;
        decode_response_header(&mut from, ApiKey::Fetch, version)?;
        from.i32("throttle_time_ms")?;
        refuse_error(from.i16("error_code")?)?;
        from.i32("session_id")?;
        let topics = count(&mut from, flexible)?;
        ensure!(topics == 1, "asked for one topic, {topics} are answered");
        from.string("topic", flexible)?;
        let partitions = count(&mut from, flexible)?;
        ensure!(partitions == 1, "asked for one partition, {partitions} are answered");
        from.i32("partition_index")?;
        refuse_error(from.i16("error_code")?)?;
        from.i64("high_watermark")?;
        from.i64("last_stable_offset")?;
        from.i64("log_start_offset")?;
        let aborted = count(&mut from, flexible)?;
        ensure!(aborted <= 0, "aborted transactions in a benchmark's topic");
        from.i32("preferred_read_replica")?;
        let records_bytes = match flexible {
            true => u64::from(from.unsigned_varint("records")?).saturating_sub(1),
            false => u64::try_from(from.i32("records")?).unwrap_or(0),
        };
        Ok(FetchedHead { records_bytes, records: bytes.slice(from.position_bytes()..) })
    }

    /// The base offset of the first batch.
    fn first_offset(&self) -> anyhow::Result<u64> {
        let offset = self.records.first_chunk().context("the answer's head is too short")?;
        let magic = self.records.get(MAGIC_AT).context("the answer's head is too short")?;
        ensure!(*magic as i8 == MAGIC_V2, "a batch with magic {magic}");
        Ok(u64::from_be_bytes(*offset))
    }
}

/// The length of an array; -1 for none.
fn count(from: &mut Decoder, flexible: bool) -> anyhow::Result<i64> {
    Ok(match flexible {
        true => i64::from(from.unsigned_varint("count")?) - 1,
        false => i64::from(from.i32("count")?),
    })
}

fn refuse_error(code: i16) -> anyhow::Result<()> {
    if code != ErrorCode::None.code() {
        let name = ErrorCode::from_code(code).map_or("unknown", ErrorCode::name);
        bail!("the broker refused a fetch: {name}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use logway_wire::messages::FetchResponse;
    use logway_wire::messages::fetch_response::{FetchableTopicResponse, PartitionData};
    use logway_wire::{Records, WireString, encode_response};

    use super::*;
    use crate::generator::{BatchShape, Window};

    #[test]
    fn the_head_tells_how_many_bytes_follow() {
        for version in 11..=12 {
            let records: Bytes = (0..1000).map(|number| number as u8).collect();
            let partition = PartitionData {
                records: Some(Records::InMemory(records.clone())),
                ..PartitionData::default()
            };
            let topic = FetchableTopicResponse {
                topic: WireString::from_static("t"),
                partitions: vec![partition],
                ..FetchableTopicResponse::default()
            };
            let response = FetchResponse { responses: vec![topic], ..Default::default() };
            let frame = encode_response(0, version, &response).expect("a response").bytes;
            let head = FetchedHead::read(&frame[4..4 + HEAD_BYTES], version).expect("a head");
            assert_eq!(head.records_bytes, 1000, "version {version}");
            assert!(records.starts_with(&head.records));
            assert!(head.records.len() > 300);
        }
    }

    #[test]
    fn what_is_read_counts_as_what_was_sent() {
        let batch = EncodedBatch::of_size(BatchShape::Records(3), 100).expect("a batch");
        let partition = PartitionData {
            records: Some(Records::InMemory(batch.bytes.repeat(2).into())),
            ..PartitionData::default()
        };
        let topic = FetchableTopicResponse { partitions: vec![partition], ..Default::default() };
        let response = FetchResponse { responses: vec![topic], ..Default::default() };
        let frame = encode_response(0, 12, &response).expect("a response").bytes.slice(4..);
        let window = Window::starting_now(Duration::ZERO, Duration::from_secs(60));
        let (mut observed, mut asked) = (Observed::new(window), Asked::default());
        asked.push(window.from);
        let mut traffic = FetchTraffic::new(0, 12, &batch, Span::Follow);
        let now = Instant::now();
        traffic.answer(&frame, frame.len(), &mut asked, now, &mut observed).expect("is good");
        assert_eq!((observed.records, observed.value_bytes), (6, 600));
    }

    #[test]
    fn an_error_is_told_by_name() {
        let code = ErrorCode::OffsetOutOfRange.code();
        let response = FetchResponse { error_code: code, ..Default::default() };
        let frame = encode_response(0, 12, &response).expect("a response").bytes;
        let error = FetchedHead::read(&frame[4..], 12).expect_err("is an error");
        assert!(error.to_string().contains("OFFSET_OUT_OF_RANGE"), "{error}");
    }
}
