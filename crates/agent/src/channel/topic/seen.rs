//! Which events a partition has had, by their ids.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

use logway_model::Offset;

/// The ids of the last events of one partition, each with the offset where it was first.
///
/// Events of an id go to one partition, and a partition is committed in its order. So if an id was seen at a lower
/// offset, that event was given to sinks, or will be before this one. Ids are kept as hashes of 128 bits under keys
/// that nobody outside knows.
#[derive(Debug)]
pub(super) struct Seen {
    window: usize,
    hashes: (RandomState, RandomState),
    first: HashMap<u128, Offset>,
    order: VecDeque<u128>,
}

impl Seen {
    pub(super) fn new(window: usize) -> Seen {
        let hashes = (RandomState::new(), RandomState::new());
        Seen { window, hashes, first: HashMap::new(), order: VecDeque::new() }
    }

    /// Notes an id. `true` if it is at a lower offset, too.
    pub(super) fn is_again(&mut self, id: &str, offset: Offset) -> bool {
        let hash =
            u128::from(self.hashes.0.hash_one(id)) << 64 | u128::from(self.hashes.1.hash_one(id));
        if let Some(first) = self.first.get(&hash) {
            // What is fetched a second time is the same event and no other.
            return *first < offset;
        }
        self.first.insert(hash, offset);
        self.order.push_back(hash);
        if self.order.len() > self.window
            && let Some(oldest) = self.order.pop_front()
        {
            self.first.remove(&oldest);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_at_a_higher_offset_is_a_repetition_as_long_as_the_window_holds_it() {
        let mut seen = Seen::new(2);
        assert!(!seen.is_again("a", Offset(1)));
        assert!(seen.is_again("a", Offset(2)));
        assert!(!seen.is_again("a", Offset(1)), "the same event is fetched again");
        assert!(!seen.is_again("b", Offset(3)));
        assert!(!seen.is_again("c", Offset(4)));
        assert!(!seen.is_again("a", Offset(5)), "it is too long ago");
        assert_eq!(seen.first.len(), 2);
    }
}
