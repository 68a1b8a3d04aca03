//! What has come from a topic, and what of it is on its way to sinks.

use std::collections::{BTreeMap, VecDeque};

use logway_model::{Offset, PartitionId, TimestampMs};

use crate::channel::file::Done;
use crate::channel::place::Place;
use crate::event::Event;

/// How much may wait in memory before no more is fetched.
const READY_BYTES_MAX: usize = 8 << 20;

/// How long the note of what is done with may be that is committed with an offset. What has no room in it comes again after
/// a restart. Brokers take 4096 bytes.
const NOTE_BYTES_MAX: usize = 3072;

/// The partitions that are this member's, and what was read of them.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    /// Changes when partitions are given up: what was taken before is not ours any more.
    pub(super) generation: u64,
    partitions: BTreeMap<PartitionId, Partition>,
    ready_bytes: usize,
    /// Where the next take begins to look, so that each partition has its turn.
    turn: i32,
}

#[derive(Debug, Default)]
struct Partition {
    ready: VecDeque<Waiting>,
    /// What follows the last of `ready`.
    next: Offset,
    /// The oldest event of the transaction that has the partition for itself.
    taken: Option<TimestampMs>,
    /// What is done with although events before it are not.
    done: Done,
}

impl Partition {
    /// Everything before is done with, unless it is taken.
    fn low(&self) -> Offset {
        self.ready.front().map_or(self.next, |waiting| waiting.offset)
    }
}

/// An event that was read.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) offset: Offset,
    pub(super) timestamp: TimestampMs,
    pub(super) event: Event,
}

/// Events that were taken, with what is to be committed for them.
#[derive(Debug, Default)]
pub(in crate::channel) struct TopicTake {
    pub(super) generation: u64,
    /// Where each event is, and when it was written.
    places: Vec<(Place, TimestampMs)>,
    /// What is to be read next of each partition, when the take is committed.
    pub(super) next: Vec<(PartitionId, Offset)>,
    /// What was dealt with apart from the others.
    done: Vec<Place>,
}

impl TopicTake {
    /// Where one of its events is.
    pub(in crate::channel) fn place(&self, index: usize) -> Place {
        self.places[index].0
    }

    /// Whether nothing was taken.
    pub(in crate::channel) fn is_empty(&self) -> bool {
        self.next.is_empty()
    }

    /// One of the events is dealt with apart from the others.
    pub(in crate::channel) fn remove(&mut self, index: usize) {
        let (place, _) = self.places.remove(index);
        self.done.push(place);
    }
}

impl Cursor {
    pub(super) fn has_room(&self) -> bool {
        self.ready_bytes < READY_BYTES_MAX
    }

    /// Begins anew with these partitions.
    pub(super) fn assign(&mut self, partitions: impl Iterator<Item = PartitionId>) {
        self.generation += 1;
        self.ready_bytes = 0;
        self.partitions = partitions.map(|id| (id, Partition::default())).collect();
    }

    /// Takes note of what was done with before this generation, by what was committed with the offset where that begins.
    pub(super) fn begin_with_note(&mut self, id: PartitionId, from: Offset, note: &str) {
        if let Some(partition) = self.partitions.get_mut(&id) {
            partition.done = Done::from_text(from, note).unwrap_or_default();
        }
    }

    /// What is to be committed with the offset before which everything is done with.
    pub(super) fn note(&self, id: PartitionId, low: Offset) -> String {
        let partition = self.partitions.get(&id);
        partition.map(|partition| partition.done.to_text(low, NOTE_BYTES_MAX)).unwrap_or_default()
    }

    /// How many events were read of partitions and not taken.
    pub(super) fn waiting(&self, is_asked: impl Fn(PartitionId) -> bool) -> usize {
        let asked = self.partitions.iter().filter(|(id, _)| is_asked(**id));
        asked.map(|(_, partition)| partition.ready.len()).sum()
    }

    /// Events came, perhaps none, and what follows them. `true` if none of the partition is waiting or taken.
    pub(super) fn add(&mut self, id: PartitionId, mut events: Vec<Waiting>, next: Offset) -> bool {
        let Some(partition) = self.partitions.get_mut(&id) else { return false };
        events.retain(|one| !partition.done.contains(one.offset));
        self.ready_bytes += events.iter().map(|one| one.event.size_bytes()).sum::<usize>();
        partition.ready.extend(events);
        partition.next = next;
        let is_all_done = partition.ready.is_empty() && partition.taken.is_none();
        if is_all_done {
            partition.done.forget_before(next);
        }
        is_all_done
    }

    /// Takes what is next. The partitions that it comes from belong to the transaction until it ends.
    pub(super) fn take(&mut self, max: usize) -> (TopicTake, Vec<Event>) {
        let mut take = TopicTake { generation: self.generation, ..TopicTake::default() };
        let events = self.take_more(&mut take, max).unwrap_or_default();
        (take, events)
    }

    /// Takes what is next into a transaction that has begun: of its own partitions, and of those that are in none. `None`
    /// if the partitions have been given up since it began.
    pub(super) fn take_more(&mut self, take: &mut TopicTake, max: usize) -> Option<Vec<Event>> {
        if take.generation != self.generation {
            return None;
        }
        let mut events = Vec::new();
        let ids: Vec<PartitionId> = self.partitions.keys().copied().collect();
        let split = ids.partition_point(|id| id.0 < self.turn);
        for id in ids[split..].iter().chain(&ids[..split]) {
            if events.len() >= max {
                break;
            }
            let Some(partition) = self.partitions.get_mut(id) else { continue };
            let own = take.next.iter().position(|(own, _)| own == id);
            if (partition.taken.is_some() && own.is_none()) || partition.ready.is_empty() {
                continue;
            }
            let count = partition.ready.len().min(max - events.len());
            for Waiting { offset, timestamp, event } in partition.ready.drain(..count) {
                self.ready_bytes -= event.size_bytes();
                let oldest = partition.taken.get_or_insert(timestamp);
                *oldest = (*oldest).min(timestamp);
                take.places.push((Place { partition: *id, offset }, timestamp));
                events.push(event);
            }
            let next = partition.ready.front().map_or(partition.next, |waiting| waiting.offset);
            match own {
                Some(own) => take.next[own].1 = next,
                None => take.next.push((*id, next)),
            }
            self.turn = id.0.saturating_add(1);
        }
        Some(events)
    }

    /// A take has come to its end. Events that are given are next again. Some of it may have been dealt with apart from the rest:
    /// returns these partitions, each with the offset before which everything is done with. It is committed with a note.
    pub(super) fn end(
        &mut self,
        take: &TopicTake,
        events: Vec<Event>,
    ) -> Vec<(PartitionId, Offset)> {
        if take.generation != self.generation {
            // Whoever has the partitions now reads them again.
            return Vec::new();
        }
        for (id, _) in &take.next {
            if let Some(partition) = self.partitions.get_mut(id) {
                partition.taken = None;
            }
        }
        for (&(place, timestamp), event) in take.places.iter().zip(events).rev() {
            let Some(partition) = self.partitions.get_mut(&place.partition) else { continue };
            self.ready_bytes += event.size_bytes();
            partition.ready.push_front(Waiting { offset: place.offset, timestamp, event });
        }
        let mut to_commit = BTreeMap::new();
        for place in &take.done {
            let Some(partition) = self.partitions.get_mut(&place.partition) else { continue };
            partition.done.insert(place.offset);
            to_commit.insert(place.partition, partition.low());
        }
        for (id, _) in &take.next {
            if let Some(partition) = self.partitions.get_mut(id) {
                partition.done.forget_before(partition.low());
            }
        }
        to_commit.into_iter().collect()
    }

    /// When the oldest event that is here was written.
    pub(super) fn oldest(&self) -> Option<TimestampMs> {
        let of = |partition: &Partition| {
            let ready = partition.ready.front().map(|waiting| waiting.timestamp);
            [ready, partition.taken].into_iter().flatten().min()
        };
        self.partitions.values().filter_map(of).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(offsets: std::ops::Range<i64>) -> Vec<Waiting> {
        let one = |offset: i64| Waiting {
            offset: Offset(offset),
            timestamp: TimestampMs(offset),
            event: Event::new(offset.to_string()),
        };
        offsets.map(one).collect()
    }

    #[test]
    fn a_partition_serves_one_transaction_at_a_time_and_in_its_order() {
        let mut cursor = Cursor::default();
        cursor.assign([PartitionId(0), PartitionId(1)].into_iter());
        cursor.add(PartitionId(0), waiting(0..5), Offset(7));
        cursor.add(PartitionId(1), waiting(10..12), Offset(12));
        let (first, events) = cursor.take(3);
        assert_eq!(first.next, [(PartitionId(0), Offset(3))]);
        let (second, others) = cursor.take(10);
        assert_eq!(second.next, [(PartitionId(1), Offset(12))]);
        assert_eq!(others.len(), 2);
        assert!(cursor.take(10).1.is_empty());
        assert_eq!(cursor.oldest(), Some(TimestampMs(0)));
        cursor.end(&first, events);
        let (again, events) = cursor.take(10);
        // What follows was left out of the log, and is done with, too.
        assert_eq!(again.next, [(PartitionId(0), Offset(7))]);
        assert_eq!(events, waiting(0..5).into_iter().map(|one| one.event).collect::<Vec<_>>());
        cursor.end(&again, Vec::new());
        cursor.end(&second, Vec::new());
        assert_eq!((cursor.ready_bytes, cursor.oldest()), (0, None));
    }

    #[test]
    fn a_transaction_goes_on_taking_from_its_own_partitions() {
        let mut cursor = Cursor::default();
        cursor.assign([PartitionId(0), PartitionId(1)].into_iter());
        cursor.add(PartitionId(0), waiting(0..3), Offset(3));
        let (mut take, mut events) = cursor.take(2);
        cursor.add(PartitionId(0), waiting(3..4), Offset(5));
        cursor.add(PartitionId(1), waiting(10..12), Offset(12));
        let (other, _) = cursor.take(1);
        assert_eq!(other.next, [(PartitionId(1), Offset(11))]);
        events.extend(cursor.take_more(&mut take, 10).expect("nothing has changed"));
        assert_eq!(take.next, [(PartitionId(0), Offset(5))]);
        assert_eq!(take.places.len(), events.len());
        cursor.end(&take, events);
        let (mut again, events) = cursor.take(10);
        let bodies: Vec<_> = events.into_iter().map(|event| event.body).collect();
        assert_eq!(bodies, ["0", "1", "2", "3"]);
        cursor.assign([PartitionId(0)].into_iter());
        assert_eq!(cursor.take_more(&mut again, 10), None);
    }

    #[test]
    fn what_is_done_behind_what_is_not_is_noted_and_left_out_by_the_next_member() {
        let id = PartitionId(0);
        let mut cursor = Cursor::default();
        cursor.assign([id].into_iter());
        cursor.add(id, waiting(0..10), Offset(10));
        // Of 0 to 5, the events 0 and 3 are refused.
        let (mut take, mut events) = cursor.take(6);
        for index in [5, 4, 2, 1] {
            take.remove(index);
            events.remove(index);
        }
        assert_eq!(cursor.end(&take, events), [(id, Offset(0))]);
        let note = cursor.note(id, Offset(0));
        assert_eq!(note, "1+2 1+2");

        let mut next = Cursor::default();
        next.assign([id].into_iter());
        next.begin_with_note(id, Offset(0), &note);
        next.add(id, waiting(0..10), Offset(10));
        let (take, events) = next.take(3);
        let bodies: Vec<_> = events.into_iter().map(|event| event.body).collect();
        assert_eq!(bodies, ["0", "3", "6"]);
        assert_eq!(take.next, [(id, Offset(7))]);
        assert!(next.end(&take, Vec::new()).is_empty());
        assert_eq!(next.note(id, Offset(7)), "", "all of it is before what is committed");
    }

    #[test]
    fn what_was_taken_before_a_rebalance_is_not_put_back_after_it() {
        let mut cursor = Cursor::default();
        cursor.assign([PartitionId(0)].into_iter());
        cursor.add(PartitionId(0), waiting(0..5), Offset(5));
        let (take, events) = cursor.take(3);
        cursor.assign([PartitionId(0)].into_iter());
        cursor.end(&take, events);
        assert!(cursor.take(10).1.is_empty());
    }
}
