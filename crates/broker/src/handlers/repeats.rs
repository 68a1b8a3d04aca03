//! What a request names more than once.

use std::collections::HashSet;
use std::hash::Hash;

/// The keys that come more than once.
pub(super) fn repeated<K: Hash + Eq + Copy>(keys: impl IntoIterator<Item = K>) -> HashSet<K> {
    let mut seen = HashSet::new();
    keys.into_iter().filter(|key| !seen.insert(*key)).collect()
}

/// Leaves only the first result about each thing. What is in a request twice is refused twice, and
/// told once: clients look results up by name.
pub(super) fn keep_first<R, K: Hash + Eq>(results: &mut Vec<R>, key: impl Fn(&R) -> K) {
    let mut seen = HashSet::new();
    results.retain(|result| seen.insert(key(result)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_keys_are_found_once() {
        assert_eq!(repeated([1, 2, 1, 3, 1, 3]), HashSet::from([1, 3]));
        assert_eq!(repeated([1, 2, 3]), HashSet::new());
    }

    #[test]
    fn the_first_of_equals_stays() {
        let mut results = vec![("a", 1), ("b", 2), ("a", 3)];
        keep_first(&mut results, |(name, _)| *name);
        assert_eq!(results, [("a", 1), ("b", 2)]);
    }
}
