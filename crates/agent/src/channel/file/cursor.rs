//! How far a channel's log has been taken.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use logway_model::Offset;
use logway_record::Batch;

use super::done::Done;
use crate::event::Event;

/// How far the log has been taken. Offsets below `next` are in `ready`, in `taken`, or done with.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    /// The first offset that is not in memory.
    pub(super) next: Offset,
    pub(super) ready: BTreeMap<Offset, Event>,
    pub(super) ready_bytes: usize,
    taken: BTreeSet<Offset>,
    /// What is done with, from the first offset on that is not; also from before this process, behind `next`.
    done: Done,
    /// `done` is written down as it is.
    is_noted: bool,
}

impl Cursor {
    /// Begins at an offset, with what was done with before.
    pub(super) fn new(next: Offset, done: Done) -> Cursor {
        Cursor { next: done.next_open(next), done, is_noted: true, ..Cursor::default() }
    }

    /// Everything before is done with.
    pub(super) fn low(&self) -> Offset {
        let ready = self.ready.first_key_value().map(|(offset, _)| *offset);
        let taken = self.taken.first().copied();
        [ready, taken].into_iter().flatten().min().unwrap_or(self.next).min(self.next)
    }

    pub(super) fn add(&mut self, offset: Offset, event: Event) {
        self.ready_bytes += event.size_bytes();
        self.ready.insert(offset, event);
    }

    /// Adds the events of a batch that are next. One that lies before, as damage may have put it there, has none.
    pub(super) fn add_batch(&mut self, batch: &Batch, events: Vec<(Offset, Event)>) {
        let first = self.next;
        for (offset, event) in events {
            if offset >= first && !self.done.contains(offset) {
                self.add(offset, event);
            }
        }
        self.go_on_at(batch.header().next_offset());
    }

    /// What is before is in memory, or done with. A cursor never goes back.
    pub(super) fn go_on_at(&mut self, next: Offset) {
        self.next = self.done.next_open(self.next.max(next));
    }

    /// Takes events, so that there are `max` or nothing more is in memory.
    pub(super) fn take(&mut self, taken: &mut Vec<(Offset, Event)>, max: usize) {
        while taken.len() < max
            && let Some((offset, event)) = self.ready.pop_first()
        {
            self.ready_bytes -= event.size_bytes();
            self.taken.insert(offset);
            taken.push((offset, event));
        }
    }

    /// What was taken is done with.
    pub(super) fn commit(&mut self, offsets: &[Offset]) {
        for offset in offsets {
            self.taken.remove(offset);
            self.done.insert(*offset);
        }
        self.tidy();
    }

    /// Gives up what cannot be read, and goes on behind it. Returns how many events that costs.
    pub(super) fn pass(&mut self, lost: Range<Offset>) -> u64 {
        let all = u64::try_from(lost.end - lost.start).unwrap_or(0);
        let count = all - self.done.count_in(lost.clone());
        self.done.insert_range(lost.clone());
        self.go_on_at(lost.end);
        self.tidy();
        count
    }

    /// What was taken is next again.
    pub(super) fn put_back(&mut self, events: Vec<(Offset, Event)>) {
        for (offset, event) in events {
            self.taken.remove(&offset);
            self.add(offset, event);
        }
    }

    fn tidy(&mut self) {
        self.done.forget_before(self.low());
        self.is_noted = false;
    }

    /// What is to be written down, if that has changed: below the log start nothing has to be.
    pub(super) fn take_note(&mut self) -> Option<(Offset, Done)> {
        let has_note = self.has_note();
        self.is_noted = true;
        has_note.then(|| (self.low(), self.done.clone()))
    }

    /// Whether there is something to write down.
    pub(super) fn has_note(&self) -> bool {
        !self.is_noted && !self.done.is_empty()
    }

    /// The note could not be written.
    pub(super) fn keep_note(&mut self) {
        self.is_noted = false;
    }
}

#[cfg(test)]
mod tests {
    use logway_model::{LeaderEpoch, TimestampMs};
    use logway_record::{BatchBuilder, Compression};

    use super::super::codec::decode_batch;
    use super::*;

    fn add(cursor: &mut Cursor, offsets: Range<i64>) {
        let mut builder = BatchBuilder::new(Compression::None)
            .with_assignment(Offset(offsets.start), LeaderEpoch(0));
        for offset in offsets {
            let body = offset.to_string();
            builder.append(TimestampMs(1), None, Some(body.as_bytes()), &[]).expect("is small");
        }
        let batch = Batch::parse(builder.finish().expect("a batch")).expect("our own");
        let events = decode_batch(&batch).expect("our own");
        cursor.add_batch(&batch, events);
    }

    fn take(cursor: &mut Cursor) -> Vec<i64> {
        let mut taken = Vec::new();
        cursor.take(&mut taken, usize::MAX);
        taken.iter().map(|(offset, _)| offset.0).collect()
    }

    #[test]
    fn a_batch_that_lies_before_does_not_take_it_back() {
        let mut cursor = Cursor::new(Offset(0), Done::default());
        add(&mut cursor, 0..5);
        add(&mut cursor, 0..3);
        assert_eq!(cursor.next, Offset(5));
        add(&mut cursor, 3..8);
        assert_eq!(take(&mut cursor), (0..8).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_lost_is_counted_without_what_was_done_with_before() {
        let mut done = Done::default();
        done.insert_range(Offset(4)..Offset(8));
        let mut cursor = Cursor::new(Offset(0), done);
        add(&mut cursor, 0..2);
        assert_eq!(cursor.pass(Offset(2)..Offset(10)), 4);
        add(&mut cursor, 10..12);
        assert_eq!(take(&mut cursor), [0, 1, 10, 11]);
        cursor.commit(&[Offset(10), Offset(11)]);
        // After a restart, that is not come by again.
        let (low, noted) = cursor.take_note().expect("there is news");
        assert_eq!((low, noted.to_text(low, 100)), (Offset(0), "2+10".to_owned()));
        assert!(cursor.take_note().is_none());
        cursor.commit(&[Offset(0), Offset(1)]);
        assert_eq!(cursor.low(), Offset(12));
    }
}
