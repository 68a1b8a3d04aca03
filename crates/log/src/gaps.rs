//! Placeholders for offsets that compaction has left without a batch.

use logway_model::Offset;
use logway_record::Batch;

/// The batches from `end` on, with placeholders for what is missing between them, as far as a segment
/// reaches; at least one. A gap that is wider than any segment is damage, and is left to what
/// appends them.
pub(crate) fn without_gaps(end: Offset, batches: Vec<Batch>) -> Vec<Batch> {
    const REACH: i64 = i32::MAX as i64;
    let mut next = end;
    let mut filled = Vec::with_capacity(batches.len());
    for batch in batches {
        let (start, leader_epoch) = (batch.base_offset(), batch.header().leader_epoch);
        let gap = if start - next <= REACH { start } else { next };
        for batch in Batch::placeholders(next, gap, leader_epoch).into_iter().chain([batch]) {
            next = batch.header().next_offset();
            if batch.header().last_offset() - end > REACH && !filled.is_empty() {
                return filled;
            }
            filled.push(batch);
        }
    }
    filled
}
