//! The range assignor.

use std::collections::BTreeMap;

use logway_model::{PartitionId, TopicId};

use super::{Assigned, Reader, Readers};

/// What is left of a topic.
struct Rest {
    next: i32,
    partitions: i32,
    readers: i32,
}

impl Rest {
    /// The next range: those of the first members are one longer where it does not come out even.
    fn take(&mut self) -> std::ops::Range<i32> {
        let readers = self.readers.max(1);
        let left = self.partitions - self.next;
        let count = left / readers + i32::from(left % readers > 0);
        let range = self.next..self.next + count;
        self.next = range.end;
        self.readers -= 1;
        range
    }
}

/// Static members come first, in the order of their instance ids, so that they get the same after a restart.
pub(super) fn assign(readers: &Readers) -> Assigned {
    let mut in_order: Vec<&Reader> = readers.readers.iter().collect();
    in_order.sort_by_key(|reader| {
        let instance = reader.instance_id.as_ref();
        (instance.is_none(), instance.map(|id| id.as_str()), reader.id.as_str())
    });
    let mut rest: BTreeMap<TopicId, Rest> = BTreeMap::new();
    for topic in in_order.iter().flat_map(|reader| &*reader.topics) {
        let partitions = readers.partition_counts.get(topic).copied().unwrap_or(0);
        rest.entry(*topic).or_insert(Rest { next: 0, partitions, readers: 0 }).readers += 1;
    }
    let mut assigned = Assigned::new();
    for reader in in_order {
        let mut target = super::Partitions::new();
        for topic in &*reader.topics {
            let range = rest.get_mut(topic).expect("every topic was counted").take();
            if !range.is_empty() {
                target.insert(*topic, range.map(PartitionId).collect());
            }
        }
        assigned.insert(reader.id.clone(), target);
    }
    assigned
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Shown, reader, readers};
    use super::*;

    fn shown(all: Vec<Reader>, topics: &[(u8, i32)]) -> Shown {
        super::super::tests::shown(&assign(&readers(all, topics)))
    }

    #[test]
    fn members_get_the_same_numbers_of_each_topic() {
        let all = vec![reader("a", &[1, 2], &[]), reader("b", &[1, 2], &[])];
        assert_eq!(shown(all, &[(1, 3), (2, 3)]), ["a: 1-0 1-1 2-0 2-1", "b: 1-2 2-2"]);
    }

    #[test]
    fn a_topic_is_shared_by_those_who_read_it() {
        let all = vec![reader("a", &[1], &[]), reader("b", &[1, 2], &[]), reader("c", &[2], &[])];
        assert_eq!(shown(all, &[(1, 2), (2, 1)]), ["a: 1-0", "b: 1-1 2-0", "c:"]);
    }

    #[test]
    fn static_members_come_first_in_the_order_of_their_instances() {
        let with = |id, instance: &str| Reader {
            instance_id: Some(instance.into()),
            ..reader(id, &[1], &[])
        };
        let all = vec![reader("a", &[1], &[]), with("y", "i2"), with("z", "i1")];
        assert_eq!(shown(all, &[(1, 3)]), ["a: 1-2", "y: 1-1", "z: 1-0"]);
    }
}
