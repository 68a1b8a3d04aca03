//! What a request names more than once.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// The keys that come more than once.
pub(super) fn repeated<K: Hash + Eq + Copy>(keys: impl IntoIterator<Item = K>) -> HashSet<K> {
    let mut seen = HashSet::new();
    keys.into_iter().filter(|key| !seen.insert(*key)).collect()
}

/// The partitions of topics, each a name and numbers of partitions, that come more than once.
pub(super) fn repeated_partitions<'a, P: IntoIterator<Item = i32>>(
    topics: impl IntoIterator<Item = (&'a str, P)>,
) -> HashSet<(&'a str, i32)> {
    let partitions =
        |(name, indexes): (&'a str, P)| indexes.into_iter().map(move |index| (name, index));
    repeated(topics.into_iter().flat_map(partitions))
}

/// Leaves only the first result about each thing. What is in a request twice is refused twice, and
/// told once: clients look results up by name.
pub(super) fn keep_first<R, K: Hash + Eq>(results: &mut Vec<R>, key: impl Fn(&R) -> K) {
    let mut seen = HashSet::new();
    results.retain(|result| seen.insert(key(result)));
}

/// Leaves one result about each thing, which takes over what the later ones say.
pub(super) fn merge_same<R, K: Hash + Eq>(
    results: impl IntoIterator<Item = R>,
    key: impl Fn(&R) -> K,
    take_over: impl Fn(&mut R, R),
) -> Vec<R> {
    let mut merged: Vec<R> = Vec::new();
    let mut places: HashMap<K, usize> = HashMap::new();
    for result in results {
        match places.entry(key(&result)) {
            Entry::Occupied(place) => take_over(&mut merged[*place.get()], result),
            Entry::Vacant(place) => {
                place.insert(merged.len());
                merged.push(result);
            }
        }
    }
    merged
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
    fn repeated_partitions_are_found_across_topics() {
        let topics = [("a", vec![0, 1, 0]), ("b", vec![0]), ("a", vec![1])];
        assert_eq!(repeated_partitions(topics), HashSet::from([("a", 0), ("a", 1)]));
    }

    #[test]
    fn the_first_of_equals_takes_over_the_others() {
        let results = [("a", vec![1]), ("b", vec![2]), ("a", vec![3, 4])];
        let merged = merge_same(results, |(name, _)| *name, |first, other| first.1.extend(other.1));
        assert_eq!(merged, [("a", vec![1, 3, 4]), ("b", vec![2])]);
    }

    #[test]
    fn the_first_of_equals_stays() {
        let mut results = vec![("a", 1), ("b", 2), ("a", 3)];
        keep_first(&mut results, |(name, _)| *name);
        assert_eq!(results, [("a", 1), ("b", 2)]);
    }
}
