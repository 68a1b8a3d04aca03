//! Committed offsets never go back, and those that were acknowledged are told afterwards.

use std::collections::BTreeMap;

use logway_coordinator::GroupRecord;

use super::member::Place;

#[derive(Default)]
pub(super) struct Offsets {
    /// By topic's id, because a topic can be made anew.
    committed: BTreeMap<Place, i64>,
    acknowledged: BTreeMap<Place, i64>,
    violation: Option<String>,
}

impl Offsets {
    /// Records are durable now.
    pub(super) fn appended(&mut self, records: &[GroupRecord]) {
        for record in records {
            let GroupRecord::Offset { topic, partition, offset: Some(offset), .. } = record else {
                continue;
            };
            let before = self.committed.insert((offset.topic_id, *partition), offset.offset.0);
            if before.is_some_and(|before| before > offset.offset.0) {
                let (topic, now) = (topic.as_str(), offset.offset.0);
                self.violation =
                    Some(format!("{topic}-{partition} goes back: {before:?} to {now}"));
            }
        }
    }

    /// A client was told that its commit is durable.
    pub(super) fn acknowledged(&mut self, place: Place, offset: i64) {
        let known = self.acknowledged.entry(place).or_insert(offset);
        *known = offset.max(*known);
        if self.committed.get(&place).is_none_or(|committed| *committed < offset) {
            self.violation =
                Some(format!("{place:?}: {offset} is acknowledged and not in the log"));
        }
    }

    /// A client was told where the group is.
    pub(super) fn told(&mut self, place: Place, offset: i64) {
        if self.acknowledged.get(&place).is_some_and(|acknowledged| *acknowledged > offset) {
            self.violation =
                Some(format!("{place:?}: {offset} is told, and more was acknowledged"));
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        self.violation.clone().map_or(Ok(()), Err)
    }
}
