//! One event's way through the shard.

use crate::cluster_view::{ClusterView, ConsumerOverrides, StreamsOverrides};
use crate::ids::GroupId;
use crate::memory::{GroupMemory, Growth, HeldMemory};
use crate::moment::Moment;
use crate::outbox::{Outbox, Then};
use crate::rebalance_counts::RebalanceCounts;
use crate::record::GroupRecord;
use crate::request::{Reply, Request, RequestToken};
use crate::settings::GroupSettings;
use crate::timers::{Timer, Timers};

/// What the handling of an event can use beside the groups themselves.
pub(crate) struct Turn<'a> {
    pub(crate) now: Moment,
    pub(crate) settings: &'a GroupSettings,
    /// The cluster as it is now.
    pub(crate) view: &'a dyn ClusterView,
    /// The version of the metadata that had the newest topics.
    pub(crate) topics_made_at: i64,
    pub(crate) memory: &'a GroupMemory,
    pub(crate) rebalances: &'a RebalanceCounts,
    /// What the event makes groups take, until that is counted itself.
    pub(crate) reserved: Vec<HeldMemory>,
    pub(crate) timers: &'a mut Timers,
    pub(crate) outbox: &'a mut Outbox,
}

impl Turn<'_> {
    /// Sets or moves a deadline, so much from now.
    pub(crate) fn set_timer(&mut self, timer: Timer, delay_ms: u64) {
        self.timers.set(timer, self.now.elapsed.after_ms(delay_ms));
    }

    /// What is set for a consumer group.
    pub(crate) fn overrides(&self, group: &GroupId) -> ConsumerOverrides {
        self.view.overrides(group.as_str())
    }

    /// What is set for a streams group.
    pub(crate) fn streams_overrides(&self, group: &GroupId) -> StreamsOverrides {
        self.view.streams_overrides(group.as_str())
    }

    /// Takes memory for what the event makes groups take, if there is room.
    pub(crate) fn reserve(&mut self, bytes: usize, growth: Growth) -> bool {
        let held = self.memory.try_hold(bytes, growth);
        let is_held = held.is_some();
        self.reserved.extend(held);
        is_held
    }

    /// Answers a request.
    pub(crate) fn reply(&mut self, token: RequestToken, reply: Reply) {
        self.outbox.reply(token, reply);
    }

    /// Sends records to the log.
    pub(crate) fn append(&mut self, records: Vec<GroupRecord>, then: Option<Then>) {
        self.outbox.append(records, then, None);
    }

    /// Sends records to the log, and works on a classic request when they are there.
    pub(crate) fn append_before(&mut self, records: Vec<GroupRecord>, request: Request) {
        self.append(records, Some(Then::Classic(Box::new(request))));
    }

    /// Sends records to the log, and counts what they will make the groups take until that is counted itself.
    pub(crate) fn append_held(&mut self, records: Vec<GroupRecord>, then: Then, held: HeldMemory) {
        self.outbox.append(records, Some(then), Some(held));
    }

    /// Sends many records to the log that need not be there together, and does something when they are.
    pub(crate) fn append_in_parts_then(&mut self, records: Vec<GroupRecord>, then: Then) {
        let mut parts = parts_of(records, self.settings);
        let Some(last) = parts.pop() else { return };
        parts.into_iter().for_each(|part| self.append(part, None));
        self.append(last, Some(then));
    }

    /// Sends many records to the log that need not be there together, then replies.
    ///
    /// The reply tells of a failure if any of them failed.
    pub(crate) fn append_in_parts(
        &mut self,
        records: Vec<GroupRecord>,
        reply: Option<(RequestToken, Reply)>,
    ) {
        let mut parts = parts_of(records, self.settings);
        let last = parts.pop();
        for part in parts {
            let fail_later = reply.as_ref().map(|(token, _)| Then::FailLater(*token));
            self.append(part, fail_later);
        }
        match (last, reply) {
            (Some(last), reply) => {
                self.append(last, reply.map(|(token, reply)| Then::Reply(token, reply)));
            }
            (None, Some((token, reply))) => self.reply(token, reply),
            (None, None) => {}
        }
    }
}

/// The records in the appends that they need, none of which is empty.
fn parts_of(records: Vec<GroupRecord>, settings: &GroupSettings) -> Vec<Vec<GroupRecord>> {
    let mut parts: Vec<Vec<GroupRecord>> = Vec::new();
    let mut part_bytes = 0;
    for record in records {
        let bytes = record.bytes_max();
        let has_room = |part: &&mut Vec<GroupRecord>| {
            part.len() < settings.append_records_max
                && part_bytes + bytes <= settings.append_bytes_max
        };
        match parts.last_mut().filter(has_room) {
            Some(part) => {
                part.push(record);
                part_bytes += bytes;
            }
            None => {
                parts.push(vec![record]);
                part_bytes = bytes;
            }
        }
    }
    parts
}
