//! Who compresses batches anew, as `compression.type` of their topics has it, when, and in what
//! memory. What becomes of a batch is [`recompress_for_append`]'s to say.
//!
//! The work is done at places of its own: compressing takes ten times as long as unpacking, and with
//! the slowest levels a thousand times. So who produces to a topic that keeps batches as they are
//! does not wait for it. What goes to which place is a matter of the time that it takes, so by bytes
//! and level:
//!
//! | step | what takes | with gzip 6 | zstd 3 | zstd 22 | places | memory |
//! |---|---|---|---|---|---|---|
//! | short | up to 8 ms | 96 KiB | 3 MiB | 16 KiB | one for each processor | half |
//! | middle | up to 256 ms | 3 MiB | 100 MiB | 512 KiB | one for each processor | a quarter |
//! | long | longer | 128 MiB | 128 MiB | 128 MiB | one | a quarter |
//!
//! Each batch takes its memory from the budget of its step, when it has a place; what the new batch
//! takes stays taken until the batch is written. Who holds a share of a budget waits for nothing that
//! a client, or another budget, could hold up. So nobody waits for a batch that takes more time than
//! its own step allows, neither for a place nor for memory.

use std::sync::Arc;

use logway_record::{
    AppendRules, BATCH_HEADER_BYTES, Batch, BatchSummary, Compression, DecodeLimit,
    TargetCompression, recompress_for_append,
};

use super::unpacking::{UnpackingPlaces, is_cut_short};
use crate::failure::Failure;
use crate::memory::{Attention, BudgetShare, MemoryBudget};

const STEPS: usize = 3;

/// The time that a batch may take at each step but the last, with the records that take longest.
const STEP_MS: [usize; STEPS - 1] = [8, 256];

/// The part of the memory that each step has.
const STEP_PARTS: [usize; STEPS] = [2, 4, 4];

/// How many may wait for the long place. Each holds its request, of up to `max.message.bytes`.
const LONG_WAITING_MAX: usize = 32;

/// Where batches are compressed anew, and in what memory.
pub(crate) struct Recompression {
    places: UnpackingPlaces<STEPS>,
    memory: [MemoryBudget; STEPS],
}

impl Recompression {
    /// As much memory as `limit_bytes` in all.
    pub(crate) fn new(limit_bytes: usize, attention: &Arc<Attention>) -> Recompression {
        let budget = |part| MemoryBudget::new(limit_bytes / part, Arc::clone(attention));
        Recompression {
            places: UnpackingPlaces::with_waiting_max(LONG_WAITING_MAX),
            memory: STEP_PARTS.map(budget),
        }
    }

    /// Judges a batch by the rules of its topic, and gives it compressed with `target`.
    ///
    /// Errors are those of [`recompress_for_append`], and that of [`UnpackingPlaces::run`].
    pub(crate) async fn recompress(
        &self,
        batch: &Batch,
        rules: &AppendRules,
        target: TargetCompression,
    ) -> Result<(Batch, BatchSummary), Failure> {
        let take =
            |step: usize, limit| self.memory[step].take(taken_bytes(batch, rules, target, limit));
        let work = |decode_limit, share: BudgetShare| {
            let rules = AppendRules { decode_limit, ..*rules };
            let (batch, summary) = recompress_for_append(batch, &rules, target)?;
            Ok((batch, summary, share))
        };
        let limits = limits(rules, target);
        let (batch, summary, share) =
            self.places.run_with(limits, take, work, is_cut_short).await??;
        Ok((charged(batch, share)?, summary))
    }

    /// The memory that batches hold now.
    pub(crate) fn used_bytes(&self) -> usize {
        self.memory.iter().map(MemoryBudget::used_bytes).sum()
    }
}

/// What the records may unpack to at each step.
fn limits(rules: &AppendRules, target: TargetCompression) -> [DecodeLimit; STEPS] {
    let longest = longest(rules);
    let [short, middle] = STEP_MS.map(|ms| {
        let bytes = ms.saturating_mul(target.least_bytes_per_ms());
        DecodeLimit::new(bytes.min(longest.bytes()))
    });
    [short, middle, longest]
}

/// What the records may unpack to: 128 MiB, or as much as a batch may have if that is more. It is
/// less than what a topic lets them unpack to that keeps them as they are: to compress takes longer.
fn longest(rules: &AppendRules) -> DecodeLimit {
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
    2 * grown_bytes.min(rules.max_batch_bytes) + target.working_bytes(plain_bytes)
}

/// The batch, which gives its share back when the last of its bytes is dropped.
fn charged(batch: Batch, share: BudgetShare) -> Result<Batch, Failure> {
    let share = share.cut_to(batch.size_bytes());
    Ok(Batch::parse(share.around(batch.bytes().clone()))?)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use logway_model::TimestampMs;
    use logway_record::{BatchBuilder, TimestampType};
    use tokio::time::timeout;

    use super::*;

    const LEVEL_22: TargetCompression = TargetCompression::Zstd { level: 22 };
    const LEVEL_3: TargetCompression = TargetCompression::Zstd { level: 3 };

    fn rules() -> AppendRules {
        AppendRules {
            max_batch_bytes: 4 << 20,
            timestamp_type: TimestampType::CreateTime,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: i64::MAX,
            keys_required: false,
            decode_limit: DecodeLimit::BATCH_MAX,
            compression: None,
            now: TimestampMs(1),
        }
    }

    fn batch(value_bytes: usize) -> Batch {
        let mut builder = BatchBuilder::new(Compression::None);
        let value = vec![b'v'; value_bytes];
        builder.append(TimestampMs(1), None, Some(&value), &[]).expect("fits");
        Batch::parse(builder.finish().expect("has a record")).expect("is a batch")
    }

    async fn done(
        recompression: &Recompression,
        value_bytes: usize,
        target: TargetCompression,
    ) -> Option<Result<(Batch, BatchSummary), Failure>> {
        let (batch, rules) = (batch(value_bytes), rules());
        let work = recompression.recompress(&batch, &rules, target);
        timeout(Duration::from_millis(200), work).await.ok()
    }

    #[test]
    fn a_slow_level_is_given_less_of_a_short_place() {
        let [short, middle, long] = limits(&rules(), LEVEL_22).map(DecodeLimit::bytes);
        assert_eq!((short, middle, long), (16 << 10, 512 << 10, 128 << 20));
        let [short, middle, _] = limits(&rules(), LEVEL_3).map(DecodeLimit::bytes);
        assert!(short > 3 << 20 && middle > 64 << 20, "{short} {middle}");
        let whole = AppendRules { max_batch_bytes: 1 << 30, ..rules() };
        let [short, middle, long] = limits(&whole, TargetCompression::None).map(DecodeLimit::bytes);
        assert!(short < middle && middle < long && long == 1 << 30);
    }

    /// All places and all the memory of the later steps are taken, as by batches that take long.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn small_batches_wait_for_nothing_that_large_ones_hold() {
        let recompression = Recompression::new(64 << 20, &Arc::default());
        let [_, middle, long] = recompression.places.steps();
        let middle_places = u32::try_from(middle.available_permits()).expect("are few");
        let _middle = middle.acquire_many(middle_places).await.expect("is open");
        let _long = long.acquire().await.expect("is open");
        let all = |budget: &MemoryBudget| budget.try_take(budget.limit_bytes()).expect("is free");
        let _memory = [all(&recompression.memory[1]), all(&recompression.memory[2])];

        for target in [LEVEL_3, LEVEL_22, TargetCompression::Gzip { level: 9 }] {
            let outcome = done(&recompression, 10_000, target).await;
            assert!(matches!(outcome, Some(Ok(_))), "{target:?}: {outcome:?}");
        }
        // One that takes longer waits, and holds no place and no memory that small ones need.
        let [short, _, _] = recompression.places.steps();
        let free = short.available_permits();
        let (large, rules) = (batch(1 << 20), rules());
        let mut waiting = Box::pin(recompression.recompress(&large, &rules, LEVEL_22));
        assert!(timeout(Duration::from_millis(200), &mut waiting).await.is_err());
        assert_eq!(short.available_permits(), free);
        assert_eq!(recompression.memory[0].used_bytes(), 0);
        let outcome = done(&recompression, 10_000, LEVEL_3).await;
        assert!(matches!(outcome, Some(Ok(_))), "{outcome:?}");
    }
}
