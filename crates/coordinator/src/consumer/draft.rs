//! A group in the making: what the log will say of it when what is being written is durable.

use std::ops::Deref;

use crate::ids::GroupId;
use crate::record::GroupRecord;

use super::group::ConsumerGroup;
use super::record::ConsumerRecord;

/// A group that is kept in the log as a whole.
pub(crate) trait Drafted: Clone {
    /// What one record says of it.
    type Record;

    /// What people call such a group.
    const KIND: &str;

    /// Takes over what a record says.
    fn apply(&mut self, record: &Self::Record);

    /// The bytes that it takes beside its name.
    fn held_bytes(&self) -> usize;

    /// A record about a group of that name.
    fn record(group: GroupId, record: Self::Record) -> GroupRecord;
}

/// A copy of a group, with the records that have been written to it.
#[derive(Debug)]
pub(crate) struct Draft<G = ConsumerGroup> {
    pub(crate) id: GroupId,
    group: G,
    /// What stands before the records, if there are any.
    before: Vec<GroupRecord>,
    records: Vec<GroupRecord>,
    /// How many of the records each request before has written.
    kept: usize,
    kept_group: G,
    /// What kind of group it becomes by the records.
    conversion: Option<Conversion>,
    kept_conversion: Option<Conversion>,
}

/// A change of a group's kind while it has members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conversion {
    /// From a classic group to a consumer group.
    Upgrade,
    /// The other way.
    Downgrade,
}

impl<G: Drafted> Draft<G> {
    pub(crate) fn new(id: GroupId, group: G) -> Draft<G> {
        let kept_group = group.clone();
        Draft {
            id,
            group,
            before: Vec::new(),
            records: Vec::new(),
            kept: 0,
            kept_group,
            conversion: None,
            kept_conversion: None,
        }
    }

    /// What becomes of the group's kind.
    pub(crate) fn conversion(&self) -> Option<Conversion> {
        self.conversion
    }

    /// Writes a record.
    pub(crate) fn write(&mut self, record: G::Record) {
        self.group.apply(&record);
        self.records.push(G::record(self.id.clone(), record));
    }

    /// Notes what is not for the log.
    pub(crate) fn note(&mut self, note: impl FnOnce(&mut G)) {
        note(&mut self.group);
    }

    /// The draft with records in front that say what becomes of the group as it was.
    pub(crate) fn behind(self, before: impl IntoIterator<Item = GroupRecord>) -> Draft<G> {
        Draft { before: before.into_iter().collect(), ..self }
    }

    /// A request has been worked on: what it wrote stays.
    pub(crate) fn keep(&mut self) {
        self.kept = self.records.len();
        self.kept_group = self.group.clone();
        self.kept_conversion = self.conversion;
    }

    /// A request is refused: what it wrote goes.
    pub(crate) fn take_back(&mut self) {
        self.records.truncate(self.kept);
        self.group = self.kept_group.clone();
        self.conversion = self.kept_conversion;
    }

    /// By how many bytes the present request makes the group larger.
    pub(crate) fn growth_bytes(&self) -> usize {
        self.group.held_bytes().saturating_sub(self.kept_group.held_bytes())
    }

    pub(crate) fn into_records(mut self) -> Vec<GroupRecord> {
        if self.records.is_empty() {
            return self.records;
        }
        self.before.append(&mut self.records);
        self.before
    }
}

impl Draft {
    /// The draft of a group that was a classic one, with members.
    pub(super) fn upgrading(self) -> Draft {
        let conversion = Some(Conversion::Upgrade);
        Draft { conversion, kept_conversion: conversion, ..self }
    }

    /// Writes the record of the classic group that it becomes.
    pub(super) fn write_classic(&mut self, record: GroupRecord) {
        self.conversion = Some(Conversion::Downgrade);
        self.records.push(record);
    }

    /// Whether it is a classic group by now, so that nothing more can be done with it here.
    pub(super) fn is_classic(&self) -> bool {
        self.conversion == Some(Conversion::Downgrade)
    }
}

impl<G> Deref for Draft<G> {
    type Target = G;

    fn deref(&self) -> &G {
        &self.group
    }
}

impl Drafted for ConsumerGroup {
    type Record = ConsumerRecord;

    const KIND: &str = "consumer group";

    fn apply(&mut self, record: &ConsumerRecord) {
        ConsumerGroup::apply(self, record);
    }

    fn held_bytes(&self) -> usize {
        ConsumerGroup::held_bytes(self)
    }

    fn record(group: GroupId, record: ConsumerRecord) -> GroupRecord {
        GroupRecord::Consumer { group, record }
    }
}
