//! Who compresses batches anew, as `compression.type` of their topics has it, when, and in what
//! memory. What becomes of a batch is [`recompress_for_append`]'s to say.
//!
//! The work is done at places of its own: compressing takes ten times as long as unpacking, and with
//! the slowest levels a thousand times. So who produces to a topic that keeps batches as they are
//! does not wait for it. Each takes its memory from a budget for all of them, when it has a place; what
//! the new batch takes stays taken until the batch is written. Who holds a share of this budget waits
//! for nothing that a client, or another budget, could hold up.

use bytes::Bytes;
use logway_record::{
    AppendRules, BATCH_HEADER_BYTES, Batch, BatchSummary, Compression, DecodeLimit,
    TargetCompression, recompress_for_append,
};

use super::unpacking::{UnpackingPlaces, is_cut_short};
use crate::failure::Failure;
use crate::memory::{BudgetShare, MemoryBudget};

/// Judges a batch by the rules of its topic, and gives it compressed with `target`.
///
/// Errors are those of [`recompress_for_append`], and that of [`UnpackingPlaces::run`].
pub(crate) async fn recompress(
    places: &UnpackingPlaces,
    budget: &MemoryBudget,
    batch: &Batch,
    rules: &AppendRules,
    target: TargetCompression,
) -> Result<(Batch, BatchSummary), Failure> {
    let take = |limit| budget.take(taken_bytes(batch, rules, target, limit));
    let work = |decode_limit, share: BudgetShare| {
        let rules = AppendRules { decode_limit, ..*rules };
        let (batch, summary) = recompress_for_append(batch, &rules, target)?;
        Ok((batch, summary, share))
    };
    let outcome = places.run_with(limit(rules), take, work, is_cut_short).await?;
    let (batch, summary, share) = outcome?;
    Ok((charged(batch, share)?, summary))
}

/// What the records may unpack to: 128 MiB, or as much as a batch may have if that is more. It is
/// less than what a topic lets them unpack to that keeps them as they are: to compress takes longer.
fn limit(rules: &AppendRules) -> DecodeLimit {
    DecodeLimit::new(DecodeLimit::DEFAULT.bytes().max(rules.max_batch_bytes))
}

/// The most that it takes to compress a batch of which so much may be unpacked.
fn taken_bytes(
    batch: &Batch,
    rules: &AppendRules,
    target: TargetCompression,
    limit: DecodeLimit,
) -> usize {
    let codec = batch.header().attributes.codec();
    let plain_bytes = match codec == Compression::None.id() {
        true => batch.size_bytes().min(limit.bytes()),
        false => limit.bytes(),
    };
    // What does not become shorter takes some bytes more for each block, and a record may get a
    // longer front.
    let grown_bytes = plain_bytes.saturating_add(plain_bytes / 8 + BATCH_HEADER_BYTES);
    // Once as it is packed, and once behind its header.
    2 * grown_bytes.min(rules.max_batch_bytes) + target.working_bytes()
}

/// The batch, which gives its share back when the last of its bytes is dropped.
fn charged(batch: Batch, share: BudgetShare) -> Result<Batch, Failure> {
    let share = share.cut_to(batch.size_bytes());
    let bytes = Bytes::from_owner(Charged { bytes: batch.bytes().clone(), _share: share });
    Ok(Batch::parse(bytes)?)
}

struct Charged {
    bytes: Bytes,
    _share: BudgetShare,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
