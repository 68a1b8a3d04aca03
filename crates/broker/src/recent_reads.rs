//! Noticing that a consumer does not get on.

use std::sync::atomic::{AtomicI64, Ordering};

use logway_model::Offset;

/// How many offsets are remembered: a power of two.
const SLOTS: usize = 4;

/// Neither an offset nor the complement of one.
const NOTHING: i64 = i64::MIN;

/// The offsets at which a partition was read lately.
///
/// A consumer to which damaged records were sent, straight from the file, tells nobody: it asks for
/// them again. So what is read a second time is worth a look, once. Consumers that read the same in
/// turns cost a look, too, and some second reads are missed, because a slot is shared by many
/// offsets; that is the price for no lock and little memory.
#[derive(Debug)]
pub(crate) struct RecentReads([AtomicI64; SLOTS]);

impl Default for RecentReads {
    fn default() -> RecentReads {
        RecentReads([const { AtomicI64::new(NOTHING) }; SLOTS])
    }
}

impl RecentReads {
    /// Takes note of a read, and says whether it is the second one at this offset. Later ones count
    /// for nothing as long as the offset is remembered.
    pub(crate) fn is_second(&self, offset: Offset) -> bool {
        // Once an offset was read twice, its complement stands for it.
        let (once, twice) = (offset.0, !offset.0);
        let slot = &self.0[slot_of(offset)];
        match slot.load(Ordering::Relaxed) {
            known if known == once => {
                slot.compare_exchange(once, twice, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            }
            known if known == twice => false,
            _ => {
                slot.store(once, Ordering::Relaxed);
                false
            }
        }
    }
}

/// Spreads offsets by Fibonacci hashing.
fn slot_of(offset: Offset) -> usize {
    let hash = offset.0.cast_unsigned().wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (hash >> (u64::BITS - SLOTS.trailing_zeros())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_second_read_in_a_row_counts() {
        let reads = RecentReads::default();
        let seen = [0, 0, 0, 7, 7].map(|offset| reads.is_second(Offset(offset)));
        assert_eq!(seen, [false, true, false, false, true]);
    }

    #[test]
    fn a_reader_that_gets_on_costs_nothing() {
        let reads = RecentReads::default();
        assert!(!(0..100_000).any(|offset| reads.is_second(Offset(offset))));
    }
}
