//! The uniform assignor.
//!
//! Members keep what they had as far as that is fair. The rest goes to those that have least.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use logway_model::{PartitionId, TopicId};

use super::{Assigned, Partitions, Readers};

/// Steps that evening out may take where members read different topics. A shard is at work meanwhile.
const STEPS_MAX: usize = 2_000_000;

pub(super) fn assign(readers: &Readers) -> Assigned {
    match readers.read_alike() {
        true => assign_alike(readers),
        false => assign_unlike(readers),
    }
}

/// All read the same: each gets the same number of partitions, or one more. Takes as long as there are members and
/// partitions.
fn assign_alike(readers: &Readers) -> Assigned {
    let Some(first) = readers.readers.first() else { return Assigned::new() };
    let all: Vec<(TopicId, PartitionId)> = first
        .topics
        .iter()
        .flat_map(|topic| readers.partitions_of(*topic).map(|partition| (*topic, partition)))
        .collect();
    let (least, mut extras) =
        (all.len() / readers.readers.len(), all.len() % readers.readers.len());
    let mut taken = BTreeSet::new();
    let mut kept: Vec<Vec<(TopicId, PartitionId)>> = Vec::new();
    for reader in &readers.readers {
        let had = reader.had.iter().filter(|(topic, _)| reader.topics.contains(topic));
        let had = had.flat_map(|(topic, of)| of.iter().map(move |partition| (*topic, *partition)));
        let still = had.filter(|(topic, partition)| readers.exists(*topic, *partition));
        // Not more than the most that anybody gets; who gets one more than others is said below.
        kept.push(still.filter(|place| taken.insert(*place)).collect());
    }
    let mut quotas: Vec<usize> = kept
        .iter()
        .map(|kept| match kept.len() > least && extras > 0 {
            true => {
                extras -= 1;
                least + 1
            }
            false => least,
        })
        .collect();
    for quota in quotas.iter_mut().filter(|quota| **quota == least).take(extras) {
        *quota += 1;
    }
    for (kept, quota) in kept.iter_mut().zip(&quotas) {
        for given_up in kept.drain((*quota).min(kept.len())..) {
            taken.remove(&given_up);
        }
    }
    let mut free = all.into_iter().filter(|place| !taken.contains(place));
    let mut assigned = Assigned::new();
    for ((reader, mut places), quota) in readers.readers.iter().zip(kept).zip(quotas) {
        places.extend(free.by_ref().take(quota.saturating_sub(places.len())));
        assigned.insert(reader.id.clone(), collect(places));
    }
    assigned
}

fn collect(places: Vec<(TopicId, PartitionId)>) -> Partitions {
    let mut partitions = Partitions::new();
    for (topic, partition) in places {
        partitions.entry(topic).or_default().insert(partition);
    }
    partitions
}

/// Members read different topics.
struct Unlike {
    /// For each topic, the places of its readers.
    readers_of: BTreeMap<TopicId, Vec<usize>>,
    /// What each reader gets.
    targets: Vec<Partitions>,
    /// How many partitions that is.
    loads: Vec<usize>,
    steps_left: usize,
}

fn assign_unlike(readers: &Readers) -> Assigned {
    let mut readers_of: BTreeMap<TopicId, Vec<usize>> = BTreeMap::new();
    for (place, reader) in readers.readers.iter().enumerate() {
        for topic in &*reader.topics {
            readers_of.entry(*topic).or_default().push(place);
        }
    }
    let count = readers.readers.len();
    let mut work = Unlike {
        readers_of,
        targets: vec![Partitions::new(); count],
        loads: vec![0; count],
        steps_left: STEPS_MAX,
    };
    let taken = work.keep(readers);
    work.give_out(readers, &taken);
    while work.even_out() {}
    let ids = readers.readers.iter().map(|reader| reader.id.clone());
    ids.zip(work.targets).collect()
}

impl Unlike {
    fn add(&mut self, place: usize, topic: TopicId, partition: PartitionId) {
        self.targets[place].entry(topic).or_default().insert(partition);
        self.loads[place] += 1;
    }

    /// Members keep what they had and still read.
    fn keep(&mut self, readers: &Readers) -> BTreeSet<(TopicId, PartitionId)> {
        let mut taken = BTreeSet::new();
        for (place, reader) in readers.readers.iter().enumerate() {
            for (topic, had) in reader.had.iter().filter(|(topic, _)| reader.topics.contains(topic))
            {
                for partition in had.iter().filter(|partition| readers.exists(*topic, **partition))
                {
                    if taken.insert((*topic, *partition)) {
                        self.add(place, *topic, *partition);
                    }
                }
            }
        }
        taken
    }

    /// What is left goes to those that have least. Topics with few readers come first: the others can be evened out.
    fn give_out(&mut self, readers: &Readers, taken: &BTreeSet<(TopicId, PartitionId)>) {
        let mut topics: Vec<_> = self.readers_of.keys().copied().collect();
        topics.sort_by_key(|topic| self.readers_of[topic].len());
        for topic in topics {
            let is_free = |partition: &PartitionId| !taken.contains(&(topic, *partition));
            let mut free = readers.partitions_of(topic).filter(is_free).peekable();
            if free.peek().is_none() {
                continue;
            }
            let of_topic = self.readers_of[&topic].iter();
            let mut by_load: BinaryHeap<_> =
                of_topic.map(|&place| Reverse((self.loads[place], place))).collect();
            for partition in free {
                let Some(Reverse((load, place))) = by_load.pop() else { break };
                self.add(place, topic, partition);
                by_load.push(Reverse((load + 1, place)));
            }
        }
    }

    /// Moves partitions of each topic from its readers that have most to those that have least. Each move makes the loads
    /// more even, so there is an end. Says whether there was anything to move.
    fn even_out(&mut self) -> bool {
        let mut has_moved = false;
        let topics: Vec<_> = self.readers_of.keys().copied().collect();
        for topic in topics {
            let of_topic = &self.readers_of[&topic];
            let Some(left) = self.steps_left.checked_sub(of_topic.len()) else { return false };
            self.steps_left = left;
            let loads = of_topic.iter().map(|&place| (self.loads[place], place));
            let mut by_load: BTreeSet<(usize, usize)> = loads.collect();
            let givers =
                by_load.iter().filter(|(_, place)| self.targets[*place].contains_key(&topic));
            let mut givers: BTreeSet<(usize, usize)> = givers.copied().collect();
            while let (Some(&most), Some(&least)) = (givers.last(), by_load.first()) {
                if most.0 <= least.0 + 1 || self.steps_left == 0 {
                    break;
                }
                self.steps_left -= 1;
                self.move_one(topic, most.1, least.1);
                has_moved = true;
                for former in [most, least] {
                    by_load.remove(&former);
                    givers.remove(&former);
                }
                for place in [most.1, least.1] {
                    let loaded = (self.loads[place], place);
                    by_load.insert(loaded);
                    if self.targets[place].contains_key(&topic) {
                        givers.insert(loaded);
                    }
                }
            }
        }
        has_moved
    }

    fn move_one(&mut self, topic: TopicId, from: usize, to: usize) {
        let Some(partitions) = self.targets[from].get_mut(&topic) else { return };
        let Some(partition) = partitions.pop_last() else { return };
        if partitions.is_empty() {
            self.targets[from].remove(&topic);
        }
        self.loads[from] -= 1;
        self.add(to, topic, partition);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Reader;
    use super::super::tests::{Shown, reader, readers};
    use super::*;

    fn shown(all: Vec<Reader>, topics: &[(u8, i32)]) -> Shown {
        super::super::tests::shown(&assign(&readers(all, topics)))
    }

    #[test]
    fn members_keep_what_they_had_and_share_the_rest() {
        let had = [(1, 0), (1, 1), (1, 2), (1, 3)];
        let all = vec![reader("a", &[1], &had), reader("b", &[1], &[])];
        assert_eq!(shown(all, &[(1, 4)]), ["a: 1-0 1-1", "b: 1-2 1-3"]);
        let all = vec![reader("a", &[1], &[(1, 2)]), reader("b", &[1], &[(1, 0), (1, 1)])];
        assert_eq!(shown(all, &[(1, 3)]), ["a: 1-2", "b: 1-0 1-1"], "nothing moves");
    }

    #[test]
    fn who_has_one_more_keeps_it() {
        let had = [(1, 3), (1, 4)];
        let all = vec![reader("a", &[1], &[]), reader("b", &[1], &had), reader("c", &[1], &[])];
        assert_eq!(shown(all, &[(1, 5)]), ["a: 1-0 1-1", "b: 1-3 1-4", "c: 1-2"]);
    }

    #[test]
    fn partitions_that_are_gone_and_topics_that_are_not_read_are_given_to_nobody() {
        let had = [(1, 7), (2, 0)];
        assert_eq!(shown(vec![reader("a", &[1], &had)], &[(1, 1), (2, 1)]), ["a: 1-0"]);
        assert_eq!(shown(vec![reader("a", &[3], &had)], &[(1, 1)]), ["a:"]);
    }

    #[test]
    fn members_that_read_different_topics_get_equally_many_where_that_can_be() {
        let all = vec![reader("a", &[1, 2], &[]), reader("b", &[1], &[]), reader("c", &[2], &[])];
        assert_eq!(shown(all, &[(1, 3), (2, 3)]), ["a: 1-0 2-2", "b: 1-1 1-2", "c: 2-0 2-1"]);
        let all = vec![reader("a", &[1, 2], &[(1, 0), (2, 0), (2, 1)]), reader("b", &[2], &[])];
        assert_eq!(shown(all, &[(1, 1), (2, 2)]), ["a: 1-0 2-0", "b: 2-1"], "one moves");
    }
}
