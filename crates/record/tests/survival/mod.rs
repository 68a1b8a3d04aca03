//! What holds of any bytes that are taken for record batches. Also the body of fuzz targets (`crates/fuzz-targets`).

use std::ops::ControlFlow;

use bytes::Bytes;
use logway_record::{Batch, Batches, DecodeLimit, Record};

/// Looks at everything there is in a run of batches.
pub(crate) fn read_all(bytes: Bytes) {
    let limit = DecodeLimit::new(1 << 20);
    for batch in Batches::new(bytes).flatten() {
        let _ = batch.verify_crc();
        assert_walk_agrees(&batch, limit);
    }
}

/// What a walk passes is what decodes, with the same offsets, timestamps and keys, and what it
/// refuses does not decode or has offsets that are not its own.
pub(crate) fn assert_walk_agrees(batch: &Batch, limit: DecodeLimit) {
    let header = batch.header();
    let mut walked = Vec::new();
    let outcome = batch.walk(limit, |record| {
        walked.push((record.offset, record.timestamp, record.has_key));
        ControlFlow::Continue(())
    });
    let is_dense = header.record_count.checked_sub(1) == Some(header.last_offset_delta);
    let decoded = batch.records(limit).and_then(Iterator::collect::<Result<Vec<Record>, _>>);
    let decoded = decoded.ok().filter(|records| {
        let rises = records.windows(2).all(|pair| pair[0].offset < pair[1].offset);
        let is_first = records.first().is_none_or(|first| first.offset == header.base_offset);
        rises && (!is_dense || is_first && records.len() == header.record_count as usize)
    });
    let decoded = decoded.map(|records| {
        let seen = |record: &Record| (record.offset, record.timestamp, record.key.is_some());
        records.iter().map(seen).collect::<Vec<_>>()
    });
    assert_eq!(outcome.is_ok().then_some(walked), decoded, "{outcome:?} of {:x}", batch.bytes());
}
