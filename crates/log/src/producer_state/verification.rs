//! Whose transactions the coordinator is asked about, before a batch may begin one here (KIP-890).
//!
//! Between the coordinator's word and the append, the transaction may end: its marker comes first, and what comes behind
//! it would begin a transaction that nobody ends. So who asks is given a guard before, which a marker of the producer
//! makes void, as in Apache Kafka (`VerificationGuard`).
//!
//! The marker may have come before the guard, too: a coordinator that was replaced and does not know it yet vouches for what
//! its successor has ended. So the coordinator tells its epoch, and the log refuses the word of one that is before the
//! epoch of the last marker. Apache Kafka does not look at that.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use logway_model::{ProducerEpoch, ProducerId, Sequence};

/// What proves that the coordinator was asked about a producer's transaction, and that it has not ended here since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VerificationGuard(pub u64);

/// How many producers a log awaits the coordinator's word about. Producer ids are the clients' words.
const PRODUCERS_MAX: usize = 4096;

/// A client that has not had its answer by now asks again, and gets another guard.
const AWAITED_FOR: Duration = Duration::from_secs(60);

/// What is known of a producer that is being verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verification {
    guard: VerificationGuard,
    epoch: ProducerEpoch,
    /// Of what the producer has sent in this epoch. It may have several batches under way.
    lowest_sequence: Sequence,
    /// It raises its epoch with each transaction, so that it begins each with sequence 0.
    raises_epoch: bool,
    begun_at: Instant,
    /// The epoch of the latest coordinator that has vouched. What it says is true of all batches with this guard: no marker
    /// of the producer has come since the first of them.
    vouched_by: Option<i32>,
}

/// The producers of a log that are being verified.
#[derive(Debug, Default)]
pub(crate) struct Verifications {
    by_producer: HashMap<ProducerId, Verification>,
    last_guard: u64,
}

impl Verification {
    /// The epoch of the coordinator that has vouched for the producer's transaction; `None` while none has.
    pub(crate) fn vouched_by(&self) -> Option<i32> {
        self.vouched_by
    }

    /// The sequence with which a producer that nothing is known of may begin, if it wants to begin with `got`.
    pub(crate) fn first_sequence(&self, got: Sequence) -> Sequence {
        match self.raises_epoch {
            true => Sequence(0),
            false => Sequence(got.0.min(self.lowest_sequence.0)),
        }
    }
}

impl Verifications {
    /// Begins to verify a producer, or goes on to: the batches that it has under way share a guard. `None` while too many
    /// producers are being verified.
    pub(crate) fn begin(
        &mut self,
        (producer_id, epoch): (ProducerId, ProducerEpoch),
        sequence: Sequence,
        raises_epoch: bool,
        now: Instant,
    ) -> Option<VerificationGuard> {
        if self.by_producer.len() >= PRODUCERS_MAX && !self.by_producer.contains_key(&producer_id) {
            let is_awaited =
                |it: &Verification| now.saturating_duration_since(it.begun_at) < AWAITED_FOR;
            self.by_producer.retain(|_, verification| is_awaited(verification));
            if self.by_producer.len() >= PRODUCERS_MAX {
                return None;
            }
        }
        let next = VerificationGuard(self.last_guard + 1);
        let verification = self.by_producer.entry(producer_id).or_insert(Verification {
            guard: next,
            epoch,
            lowest_sequence: sequence,
            raises_epoch,
            begun_at: now,
            vouched_by: None,
        });
        if verification.guard == next {
            self.last_guard += 1;
        }
        if epoch > verification.epoch {
            (verification.epoch, verification.lowest_sequence) = (epoch, sequence);
        } else if epoch == verification.epoch {
            let lowest = verification.lowest_sequence.0.min(sequence.0);
            verification.lowest_sequence = Sequence(lowest);
        }
        verification.raises_epoch |= raises_epoch;
        verification.begun_at = now;
        Some(verification.guard)
    }

    /// The coordinator of this epoch has vouched for what was asked with the guard.
    pub(crate) fn vouch(
        &mut self,
        producer_id: ProducerId,
        guard: VerificationGuard,
        coordinator_epoch: i32,
    ) {
        let known = self.by_producer.get_mut(&producer_id).filter(|known| known.guard == guard);
        if let Some(known) = known {
            known.vouched_by = known.vouched_by.max(Some(coordinator_epoch));
        }
    }

    /// What is known of a producer, if the guard is still good.
    pub(crate) fn get(
        &self,
        producer_id: ProducerId,
        guard: VerificationGuard,
    ) -> Option<Verification> {
        self.by_producer.get(&producer_id).filter(|known| known.guard == guard).copied()
    }

    /// A marker of version 2 has the epoch of the next transaction. If that one is being verified, the marker came before,
    /// and comes again: the guards are of what it did not end.
    pub(crate) fn end_before(&mut self, producer_id: ProducerId, next: ProducerEpoch) {
        if self.by_producer.get(&producer_id).is_some_and(|known| known.epoch < next) {
            self.end(producer_id);
        }
    }

    /// Its transaction has begun here, or has ended: guards from before are void.
    pub(crate) fn end(&mut self, producer_id: ProducerId) {
        self.by_producer.remove(&producer_id);
        if self.by_producer.is_empty() {
            // A map does not give memory back by itself.
            self.by_producer = HashMap::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: (ProducerId, ProducerEpoch) = (ProducerId(1), ProducerEpoch(0));

    #[test]
    fn a_guard_is_good_until_the_transaction_begins_or_ends() {
        let (mut all, now) = (Verifications::default(), Instant::now());
        let guard = all.begin(ONE, Sequence(5), false, now).expect("there is room");
        assert_eq!(all.begin(ONE, Sequence(3), false, now), Some(guard), "they share it");
        let known = all.get(ONE.0, guard).expect("it is good");
        assert_eq!(known.first_sequence(Sequence(5)), Sequence(3), "there is one before it");
        assert_eq!(known.first_sequence(Sequence(2)), Sequence(2));
        assert_eq!(all.get(ProducerId(2), guard), None, "of another producer");
        all.end(ONE.0);
        assert_eq!(all.get(ONE.0, guard), None);
        let again = all.begin(ONE, Sequence(0), false, now).expect("there is room");
        assert_ne!(again, guard, "no guard is given twice");
    }

    #[test]
    fn the_latest_coordinator_that_vouches_counts() {
        let (mut all, now) = (Verifications::default(), Instant::now());
        let guard = all.begin(ONE, Sequence(0), false, now).expect("there is room");
        let vouched_by = |all: &Verifications| all.get(ONE.0, guard).expect("good").vouched_by();
        assert_eq!(vouched_by(&all), None);
        for (epoch, latest) in [(4, 4), (6, 6), (5, 6)] {
            all.vouch(ONE.0, guard, epoch);
            assert_eq!(vouched_by(&all), Some(latest));
        }
        all.end(ONE.0);
        let next = all.begin(ONE, Sequence(0), false, now).expect("there is room");
        all.vouch(ONE.0, guard, 9);
        let known = all.get(ONE.0, next).expect("it is good");
        assert_eq!(known.vouched_by(), None, "it vouched for what has ended");
    }

    #[test]
    fn who_raises_its_epoch_begins_with_sequence_zero() {
        let (mut all, now) = (Verifications::default(), Instant::now());
        let guard = all.begin(ONE, Sequence(5), false, now).expect("there is room");
        all.begin((ONE.0, ProducerEpoch(1)), Sequence(7), true, now).expect("there is room");
        let known = all.get(ONE.0, guard).expect("it is good");
        assert_eq!(known.first_sequence(Sequence(7)), Sequence(0));
    }

    #[test]
    fn a_marker_that_comes_again_ends_nothing_of_the_next_transaction() {
        let (mut all, now) = (Verifications::default(), Instant::now());
        let guard = all.begin(ONE, Sequence(0), true, now).expect("there is room");
        all.end_before(ONE.0, ProducerEpoch(0));
        assert!(all.get(ONE.0, guard).is_some());
        all.end_before(ONE.0, ProducerEpoch(1));
        assert_eq!(all.get(ONE.0, guard), None);
    }

    #[test]
    fn so_many_are_verified_at_a_time() {
        let (mut all, now) = (Verifications::default(), Instant::now());
        for id in 0..PRODUCERS_MAX as i64 {
            let begun = all.begin((ProducerId(id), ONE.1), Sequence(0), false, now);
            assert!(begun.is_some());
        }
        let more = (ProducerId(-7), ONE.1);
        assert_eq!(all.begin(more, Sequence(0), false, now), None);
        assert!(all.begin(ONE, Sequence(0), false, now).is_some(), "it is one of them");
        let later = now + AWAITED_FOR;
        assert!(all.begin(more, Sequence(0), false, later).is_some(), "they have given up");
    }
}
