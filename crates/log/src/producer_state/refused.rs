//! Batches that were refused for a passing reason, and what their producers have sent behind them.
//!
//! An idempotent producer has up to five batches under way. If the first is refused because the disk is full, the next
//! ones do not continue its sequence, though nothing is wrong with them. OUT_OF_ORDER_SEQUENCE_NUMBER, which Apache Kafka
//! answers then, has librdkafka begin a new epoch. In that it sends again what other partitions may have already, and
//! records stand twice (librdkafka issue 4953). So what is behind a refused batch is refused like it. The producer sends
//! all of them again, in order.
//!
//! So it is when a leader gets a new epoch, as at the end of a move, and leads on: what waits in the log's queue is of the
//! epoch that is over, and what comes next is of the new one.
//!
//! It keeps order, too: a producer of whom nothing is known may begin with any sequence. Its second batch must not be
//! taken for its first.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use logway_model::{ProducerEpoch, ProducerId, Sequence};

use super::refusal::Refusal;
use super::table::ProducerBatch;

/// A refused batch is sent again after a second at most, with the largest back-off that clients have by default.
/// A gap that is there for longer is one.
const AWAITED_FOR: Duration = Duration::from_secs(10);

/// How many producers a log awaits such batches of. Producer ids are the clients' words.
const PRODUCERS_MAX: usize = 128;

/// The first batch of each producer that was refused and has not come again.
#[derive(Debug, Default)]
pub(crate) struct RefusedBatches {
    /// Spares appends the lock: hardly ever is any batch refused.
    is_any: AtomicBool,
    by_producer: Mutex<HashMap<ProducerId, RefusedBatch>>,
}

/// A batch that was refused.
#[derive(Debug, Clone)]
pub(crate) struct RefusedBatch {
    epoch: ProducerEpoch,
    pub(crate) base_sequence: Sequence,
    pub(crate) refusal: Refusal,
    /// What its client was told.
    pub(crate) reason: Arc<str>,
    refused_at: Instant,
}

impl RefusedBatches {
    /// Whether no batch is awaited.
    pub(crate) fn is_empty(&self) -> bool {
        !self.is_any.load(Ordering::Acquire)
    }

    /// Takes note that a batch was refused, and with which words.
    pub(crate) fn note(
        &self,
        batch: &ProducerBatch,
        refusal: Refusal,
        reason: &Arc<str>,
        now: Instant,
    ) {
        let mut by_producer = self.by_producer();
        let first = by_producer.get_mut(&batch.producer_id).filter(|it| it.is_awaited(now));
        if first.as_ref().is_some_and(|first| first.epoch > batch.epoch) {
            return;
        }
        if let Some(first) = first.filter(|it| it.is_same_or_before(batch)) {
            first.refused_at = now;
            return;
        }
        if by_producer.len() >= PRODUCERS_MAX {
            by_producer.retain(|_, refused| refused.is_awaited(now));
        }
        if by_producer.len() < PRODUCERS_MAX || by_producer.contains_key(&batch.producer_id) {
            let (epoch, base_sequence) = (batch.epoch, batch.base_sequence);
            let reason = Arc::clone(reason);
            let refused = RefusedBatch { epoch, base_sequence, refusal, reason, refused_at: now };
            by_producer.insert(batch.producer_id, refused);
        }
        self.is_any.store(true, Ordering::Release);
    }

    /// The refused batch that a batch is behind.
    pub(crate) fn before(&self, batch: &ProducerBatch, now: Instant) -> Option<RefusedBatch> {
        let mut by_producer = self.by_producer();
        let refused = by_producer.get(&batch.producer_id)?;
        if !refused.is_awaited(now) {
            self.remove(&mut by_producer, batch.producer_id);
            return None;
        }
        let is_behind =
            refused.is_same_or_before(batch) && refused.base_sequence != batch.base_sequence;
        is_behind.then(|| refused.clone())
    }

    /// Takes note that a batch is appended: if it is the one that was refused, or behind that, or of a newer epoch, nothing is
    /// awaited any more. One before it says nothing.
    pub(crate) fn appended(&self, batch: &ProducerBatch) {
        let mut by_producer = self.by_producer();
        let refused = by_producer.get(&batch.producer_id);
        if refused.is_some_and(|it| it.is_same_or_before(batch) || it.epoch < batch.epoch) {
            self.remove(&mut by_producer, batch.producer_id);
        }
    }

    fn remove(&self, by_producer: &mut HashMap<ProducerId, RefusedBatch>, producer: ProducerId) {
        by_producer.remove(&producer);
        if by_producer.is_empty() {
            *by_producer = HashMap::new();
            self.is_any.store(false, Ordering::Release);
        }
    }

    /// No code panics while it holds the lock, so a poisoned one guards a sound state.
    fn by_producer(&self) -> MutexGuard<'_, HashMap<ProducerId, RefusedBatch>> {
        self.by_producer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RefusedBatch {
    fn is_awaited(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.refused_at) < AWAITED_FOR
    }

    /// Whether its producer has sent it before the other batch, or it is that batch.
    fn is_same_or_before(&self, batch: &ProducerBatch) -> bool {
        // Sequences go from 0 to i32::MAX and then from 0 again.
        let ahead = batch.base_sequence.0.wrapping_sub(self.base_sequence.0) & i32::MAX;
        self.epoch == batch.epoch && ahead < i32::MAX / 2
    }
}

#[cfg(test)]
mod tests {
    use logway_model::TimestampMs;

    use super::*;

    fn batch(producer: i64, epoch: i16, base_sequence: i32) -> ProducerBatch {
        ProducerBatch {
            producer_id: ProducerId(producer),
            epoch: ProducerEpoch(epoch),
            base_sequence: Sequence(base_sequence),
            offset_delta: 0,
            max_timestamp: TimestampMs(0),
            transactional: false,
        }
    }

    #[test]
    fn only_what_is_behind_the_first_that_was_refused_waits_for_it() {
        let (refused, now) = (RefusedBatches::default(), Instant::now());
        assert!(refused.is_empty());
        refused.note(&batch(1, 0, 7), Refusal::Storage, &"no room".into(), now);
        refused.note(&batch(1, 0, 8), Refusal::TooFewInSync, &"no room".into(), now);
        assert!(!refused.is_empty());
        let before = |batch| refused.before(&batch, now).map(|it| (it.base_sequence.0, it.refusal));
        assert_eq!(before(batch(1, 0, 8)), Some((7, Refusal::Storage)));
        assert_eq!(before(batch(1, 0, 7)), None, "it has come again");
        assert_eq!(before(batch(1, 0, 6)), None);
        assert_eq!(before(batch(1, 1, 8)), None, "of another epoch");
        assert_eq!(before(batch(2, 0, 8)), None, "of another producer");
        refused.appended(&batch(1, 0, 6));
        assert!(before(batch(1, 0, 8)).is_some(), "one before it was under way");
        refused.note(&batch(1, -1, 3), Refusal::Storage, &"no room".into(), now);
        assert!(before(batch(1, 0, 8)).is_some(), "whoever comes back with an older epoch");
        refused.appended(&batch(1, 0, 7));
        assert_eq!(before(batch(1, 0, 8)), None);
        assert!(refused.is_empty());
        refused.note(&batch(1, 0, 9), Refusal::Storage, &"no room".into(), now);
        refused.appended(&batch(1, 1, 0));
        assert!(refused.is_empty(), "it has begun anew");
    }

    #[test]
    fn sequences_begin_anew_behind_the_last() {
        let (refused, now) = (RefusedBatches::default(), Instant::now());
        refused.note(&batch(1, 0, i32::MAX), Refusal::Storage, &"no room".into(), now);
        assert!(refused.before(&batch(1, 0, 0), now).is_some());
        assert!(refused.before(&batch(1, 0, i32::MAX - 1), now).is_none());
    }

    #[test]
    fn a_batch_that_does_not_come_again_is_not_awaited_for_ever() {
        let (refused, then) = (RefusedBatches::default(), Instant::now());
        refused.note(&batch(1, 0, 7), Refusal::Storage, &"no room".into(), then);
        assert!(refused.before(&batch(1, 0, 8), then + AWAITED_FOR).is_none());
        assert!(refused.is_empty(), "nobody asks for it again");
        refused.note(&batch(1, 0, 9), Refusal::Storage, &"no room".into(), then + AWAITED_FOR);
        let first = refused.before(&batch(1, 0, 10), then + AWAITED_FOR);
        assert_eq!(first.map(|it| it.base_sequence), Some(Sequence(9)));
    }

    #[test]
    fn producers_that_are_made_up_find_an_end() {
        let (refused, then) = (RefusedBatches::default(), Instant::now());
        for id in 0..1_000 {
            refused.note(&batch(id, 0, 0), Refusal::Storage, &"no room".into(), then);
        }
        assert_eq!(refused.by_producer().len(), PRODUCERS_MAX);
        refused.note(&batch(1_000, 0, 0), Refusal::Storage, &"no room".into(), then + AWAITED_FOR);
        assert_eq!(refused.by_producer().len(), 1);
    }
}
