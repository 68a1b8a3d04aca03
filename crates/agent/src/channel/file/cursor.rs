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
        let is_noted = std::mem::replace(&mut self.is_noted, true);
        (!is_noted && !self.done.is_empty()).then(|| (self.low(), self.done.clone()))
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
