//! Deadlines of a shard.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use crate::ids::{GroupId, MemberId};
use crate::moment::ElapsedMs;

/// What a deadline is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Timer {
    /// The member, or the one that was only given an id, has to be heard of.
    Session(GroupId, MemberId),
    /// The members have to have joined.
    Join(GroupId),
    /// The members have to have asked for their assignments.
    Sync(GroupId),
    /// A member of a group whose coordinator assigns has to have given up partitions.
    Rebalance(GroupId, MemberId),
    /// The last assignment of such a group is old enough for the next one.
    Assign(GroupId),
    /// A member of a streams group was told of missing topics so long ago that one can be told again.
    MissingTopics(GroupId),
    /// A member of a streams group has asked for missing topics to be made, and lets others do so.
    AskedForTopics(GroupId, MemberId),
    /// A streams group that had no members has gathered enough for its first assignment.
    FirstAssign(GroupId),
    /// Offsets are looked through for those that have expired.
    Expiration,
}

/// The deadlines, one for each [`Timer`] that is set; other coordinators have timers of their own.
#[derive(Debug)]
pub(crate) struct Timers<T = Timer> {
    in_order: BTreeSet<(ElapsedMs, T)>,
    /// Never iterated, so its order is of no effect.
    deadlines: HashMap<T, ElapsedMs>,
    /// What was set before, of what has changed since [`Timers::mark`]; `None` if nothing is to be taken back.
    changed: Option<Vec<(T, Option<ElapsedMs>)>>,
}

impl<T> Default for Timers<T> {
    fn default() -> Timers<T> {
        Timers { in_order: BTreeSet::new(), deadlines: HashMap::new(), changed: None }
    }
}

impl<T: Clone + Ord + Hash> Timers<T> {
    /// Sets or moves a deadline.
    pub(crate) fn set(&mut self, timer: T, deadline: ElapsedMs) {
        let former = self.deadlines.insert(timer.clone(), deadline);
        if let Some(old) = former {
            self.in_order.remove(&(old, timer.clone()));
        }
        if let Some(changed) = &mut self.changed {
            changed.push((timer.clone(), former));
        }
        self.in_order.insert((deadline, timer));
    }

    /// Whether a deadline is set.
    pub(crate) fn is_set(&self, timer: &T) -> bool {
        self.deadlines.contains_key(timer)
    }

    /// Clears a deadline, if it is set.
    pub(crate) fn clear(&mut self, timer: T) {
        if let Some(deadline) = self.deadlines.remove(&timer) {
            if let Some(changed) = &mut self.changed {
                changed.push((timer.clone(), Some(deadline)));
            }
            self.in_order.remove(&(deadline, timer));
        }
    }

    /// What is set and cleared from now on can be taken back.
    pub(crate) fn mark(&mut self) {
        self.changed = Some(Vec::new());
    }

    /// What was set and cleared since the mark stays.
    pub(crate) fn keep(&mut self) {
        self.changed = None;
    }

    /// All deadlines are again as they were at the mark.
    pub(crate) fn take_back(&mut self) {
        for (timer, deadline) in self.changed.take().into_iter().flatten().rev() {
            match deadline {
                Some(deadline) => self.set(timer, deadline),
                None => self.clear(timer),
            }
        }
    }

    /// Takes the earliest deadline, if it has come.
    pub(crate) fn pop_due(&mut self, now: ElapsedMs) -> Option<T> {
        self.in_order.first().filter(|(deadline, _)| *deadline <= now)?;
        let (_, timer) = self.in_order.pop_first()?;
        self.deadlines.remove(&timer);
        Some(timer)
    }

    /// The earliest deadline.
    pub(crate) fn next(&self) -> Option<ElapsedMs> {
        self.in_order.first().map(|(deadline, _)| *deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_back_is_as_it_was() {
        let mut timers = Timers::default();
        let [moved, cleared, new] = ["a", "b", "c"].map(|it| Timer::Join(GroupId::from(it)));
        timers.set(moved.clone(), ElapsedMs(10));
        timers.set(cleared.clone(), ElapsedMs(20));
        timers.mark();
        timers.set(moved.clone(), ElapsedMs(30));
        timers.set(moved.clone(), ElapsedMs(40));
        timers.clear(cleared.clone());
        timers.set(new.clone(), ElapsedMs(5));
        timers.take_back();
        assert_eq!(timers.pop_due(ElapsedMs(100)), Some(moved.clone()));
        assert_eq!(timers.pop_due(ElapsedMs(100)), Some(cleared));
        assert_eq!(timers.pop_due(ElapsedMs(100)), None);
        timers.mark();
        timers.set(new.clone(), ElapsedMs(5));
        timers.keep();
        timers.take_back();
        assert!(timers.is_set(&new));
    }

    #[test]
    fn a_deadline_that_moves_is_due_once() {
        let mut timers = Timers::default();
        let (group, member) = (GroupId::from("g"), MemberId::from("m"));
        let session = Timer::Session(group.clone(), member);
        timers.set(session.clone(), ElapsedMs(10));
        timers.set(Timer::Join(group.clone()), ElapsedMs(20));
        timers.set(session.clone(), ElapsedMs(30));
        assert_eq!(timers.next(), Some(ElapsedMs(20)));
        assert_eq!(timers.pop_due(ElapsedMs(19)), None);
        assert_eq!(timers.pop_due(ElapsedMs(40)), Some(Timer::Join(group.clone())));
        assert_eq!(timers.pop_due(ElapsedMs(40)), Some(session));
        assert_eq!(timers.pop_due(ElapsedMs(40)), None);
        timers.set(Timer::Sync(group.clone()), ElapsedMs(50));
        timers.clear(Timer::Sync(group));
        assert_eq!(timers.next(), None);
    }
}
