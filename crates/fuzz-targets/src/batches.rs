//! Record batches.

#[path = "../../record/tests/rules/mod.rs"]
mod rules;
#[path = "../../record/tests/survival/mod.rs"]
mod survival;

use bytes::Bytes;
use logway_model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence};
use logway_record::{
    AppendRules, Attributes, BATCH_HEADER_BYTES, Batch, BatchHeader, Batches, Compression,
    DecodeLimit, LOG_OVERHEAD_BYTES, PatchedHeader, TargetCompression, recompress_for_append,
    validate_for_append,
};

use crate::allocation::within;
use rules::NOW;

/// No time is wrong, so that more gets through.
const RULES: AppendRules = AppendRules {
    timestamp_after_max_ms: i64::MAX,
    decode_limit: DecodeLimit::new(1 << 20),
    ..rules::RULES
};

/// What unpacks to more than a batch may have becomes one that is larger.
const ANEW_RULES: AppendRules = AppendRules { max_batch_bytes: 2 << 20, ..RULES };

/// What reading batches may take: what they unpack to, twice, and what codecs need beside it.
const READING_BYTES_MAX: usize = 16 << 20;

/// Batches in a row, as a producer sends them and a segment holds them.
pub fn batches(bytes: &[u8]) {
    let bytes = Bytes::copy_from_slice(bytes);
    within(READING_BYTES_MAX, || survival::read_all(bytes.clone()));
    for batch in Batches::new(bytes).flatten() {
        let header = BatchHeader { base_offset: Offset::ZERO, ..*batch.header() };
        append(header, &batch.body());
    }
}

/// Records under a codec, so that it is they that are damaged and not what is packed.
pub fn packed_records(bytes: &[u8]) {
    let Some((&[codec, record_count], records)) = bytes.split_first_chunk() else { return };
    let codec = Compression::ALL[usize::from(codec) % Compression::ALL.len()];
    let body = codec.compress(Bytes::copy_from_slice(records));
    let length = BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES + body.len();
    let header = BatchHeader {
        base_offset: Offset::ZERO,
        length_bytes: i32::try_from(length).expect("inputs are short"),
        leader_epoch: LeaderEpoch::NONE,
        crc: 0,
        attributes: Attributes::default().with_compression(codec),
        last_offset_delta: i32::from(record_count).saturating_sub(1).max(0),
        base_timestamp: NOW,
        max_timestamp: NOW,
        producer_id: ProducerId::NONE,
        producer_epoch: ProducerEpoch::NONE,
        base_sequence: Sequence::NONE,
        record_count: record_count.into(),
    };
    let batch = [&header.encode()[..], &body].concat();
    within(READING_BYTES_MAX, || survival::read_all(batch.into()));
    append(header, &body);
}

/// Offers a batch to a log, its CRC put right: what is let in can be read, and stays right when the log has written its
/// part into the header.
fn append(header: BatchHeader, body: &[u8]) {
    let whole = |header: &[u8]| Batch::parse([header, body].concat().into());
    let batch = whole(&header.encode()).expect("the header was read from a batch");
    let header = BatchHeader { crc: batch.compute_crc(), ..header };
    let batch = whole(&header.encode()).expect("no more than the CRC has changed");
    let Ok(summary) = within(READING_BYTES_MAX, || validate_for_append(&batch, &RULES)) else {
        return;
    };
    let records = batch.records(DecodeLimit::DEFAULT).expect("it was let in");
    let count = records.inspect(|record| assert!(record.is_ok(), "{record:?}")).count();
    assert_eq!(count, summary.record_count as usize);
    append_anew(&batch, count);

    let assigned = PatchedHeader::of(&batch).assign(Offset(4711), LeaderEpoch(3));
    for patched in [assigned, assigned.with_log_append_time(NOW)] {
        let stored = whole(&patched.bytes()).expect("it is a batch still");
        assert_eq!(stored.base_offset(), Offset(4711));
        stored.verify_crc().expect("the CRC was carried over");
    }
}

/// What is compressed anew has as many records, which can be read. A batch is refused here only if a delta from the
/// first record's timestamp does not fit.
fn append_anew(batch: &Batch, count: usize) {
    for target in [TargetCompression::None, TargetCompression::Snappy] {
        let anew = within(READING_BYTES_MAX, || recompress_for_append(batch, &ANEW_RULES, target));
        let Ok((anew, _)) = anew else { continue };
        anew.verify_crc().expect("it was just made");
        let records = anew.records(DecodeLimit::DEFAULT).expect("it was just made");
        assert_eq!(records.inspect(|record| assert!(record.is_ok(), "{record:?}")).count(), count);
    }
}
