//! One event's way through the shard.

use std::collections::VecDeque;

use logway_model::ErrorCode;

use crate::effect::{CommitToken, Effect};
use crate::ids::{GroupId, InstanceId, MemberId};
use crate::member::Member;
use crate::moment::Moment;
use crate::record::GroupRecord;
use crate::request::{Reply, RequestToken};
use crate::settings::GroupSettings;
use crate::timers::{Timer, Timers};

/// What the handling of an event can use beside the groups themselves.
pub(crate) struct Turn<'a> {
    pub(crate) now: Moment,
    pub(crate) settings: &'a GroupSettings,
    pub(crate) timers: &'a mut Timers,
    pub(crate) outbox: &'a mut Outbox,
}

/// What leaves the shard, and what is to happen when its records are durable.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    effects: Vec<Effect>,
    in_flight: VecDeque<InFlight>,
    appends: u64,
}

/// Records on their way to the log.
#[derive(Debug)]
pub(crate) struct InFlight {
    token: CommitToken,
    /// The records, to be replayed when they are durable.
    pub(crate) records: Vec<GroupRecord>,
    /// What happens then, or when they could not be appended.
    pub(crate) then: Vec<Then>,
    outcome: Option<Result<(), ErrorCode>>,
}

/// What happens when records are durable, or could not be appended.
#[derive(Debug)]
pub(crate) enum Then {
    /// The reply leaves; if the append failed, as an error.
    Reply(RequestToken, Reply),
    /// If the append failed, so does the reply that waits for a later one.
    FailLater(RequestToken),
    /// The members get what the leader assigned.
    AssignmentStored { group: GroupId, generation: i32 },
    /// A static member has another id.
    StaticMemberStored(Box<StaticMemberStored>),
    /// Offsets can be read that were on their way.
    FetchOffsets(Box<crate::request::Request>),
}

/// A static member came back while its group was stable, and takes over where it was.
#[derive(Debug)]
pub(crate) struct StaticMemberStored {
    pub(crate) group: GroupId,
    pub(crate) generation: i32,
    pub(crate) token: RequestToken,
    /// The version of its JoinGroup.
    pub(crate) version: i16,
    pub(crate) instance_id: InstanceId,
    pub(crate) member_id: MemberId,
    /// The member as it was, for the case that the new one cannot be stored.
    pub(crate) former: Member,
    /// The leader as it was.
    pub(crate) former_leader: Option<MemberId>,
}

impl Turn<'_> {
    /// Sets or moves a deadline, so much from now.
    pub(crate) fn set_timer(&mut self, timer: Timer, delay_ms: u64) {
        self.timers.set(timer, self.now.elapsed.after_ms(delay_ms));
    }

    /// Answers a request.
    pub(crate) fn reply(&mut self, token: RequestToken, reply: Reply) {
        self.outbox.effects.push(Effect::Reply { token, reply });
    }

    /// Sends records to the log.
    pub(crate) fn append(&mut self, records: Vec<GroupRecord>, then: Option<Then>) {
        debug_assert!(!records.is_empty(), "an append has records");
        let outbox = &mut *self.outbox;
        let token = CommitToken(outbox.appends);
        outbox.appends += 1;
        outbox.effects.push(Effect::Append { token, records: records.clone() });
        let then = then.into_iter().collect();
        outbox.in_flight.push_back(InFlight { token, records, then, outcome: None });
    }

    /// Sends many records to the log that need not be there together, then replies.
    ///
    /// The reply tells of a failure if any of them failed.
    pub(crate) fn append_in_parts(
        &mut self,
        mut records: Vec<GroupRecord>,
        reply: Option<(RequestToken, Reply)>,
    ) {
        let part_records = self.settings.append_records_max.max(1);
        while records.len() > part_records {
            let rest = records.split_off(part_records);
            let fail_later = reply.as_ref().map(|(token, _)| Then::FailLater(*token));
            self.append(std::mem::replace(&mut records, rest), fail_later);
        }
        let reply = reply.map(|(token, reply)| Then::Reply(token, reply));
        match (records.is_empty(), reply) {
            (false, reply) => self.append(records, reply),
            (true, Some(Then::Reply(token, reply))) => self.reply(token, reply),
            (true, _) => {}
        }
    }

    /// How many appends there have been: a mark for [`Turn::reply_after`].
    pub(crate) fn appends(&self) -> u64 {
        self.outbox.appends
    }

    /// Answers when what was appended since the mark is durable: at once if that is nothing.
    pub(crate) fn reply_after(&mut self, mark: u64, token: RequestToken, reply: Reply) {
        match self.outbox.in_flight.back_mut() {
            Some(last) if self.outbox.appends > mark => last.then.push(Then::Reply(token, reply)),
            _ => self.reply(token, reply),
        }
    }
}

impl Outbox {
    /// What the driver has to do.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Notes how an append went.
    ///
    /// # Panics
    ///
    /// If there is no such append in flight: it was told twice, or belongs to another shard.
    pub(crate) fn note_outcome(&mut self, token: CommitToken, outcome: Result<(), ErrorCode>) {
        let noted = self.in_flight.iter_mut().find(|append| append.token == token);
        let noted = noted.expect("an append is told of once, and only to the shard that made it");
        assert!(noted.outcome.is_none(), "an append is told of once");
        noted.outcome = Some(outcome);
    }

    /// The next append whose outcome is known, if those before it are done.
    pub(crate) fn pop_settled(&mut self) -> Option<(InFlight, Result<(), ErrorCode>)> {
        let outcome = self.in_flight.front()?.outcome?;
        self.in_flight.pop_front().map(|append| (append, outcome))
    }

    /// The records about the group that are not settled, in their order.
    pub(crate) fn records_in_flight(&self, group: &GroupId) -> impl Iterator<Item = &GroupRecord> {
        let records = self.in_flight.iter().flat_map(|append| &append.records);
        records.filter(move |record| record.group() == group)
    }

    /// Whether records about the group are not settled.
    pub(crate) fn has_records_of(&self, group: &GroupId) -> bool {
        self.records_in_flight(group).next().is_some()
    }

    /// Does something when the last append about the group is settled; there has to be one.
    pub(crate) fn after_records_of(&mut self, group: &GroupId, then: Then) {
        let is_about =
            |append: &&mut InFlight| append.records.iter().any(|record| record.group() == group);
        let last = self.in_flight.iter_mut().rev().find(is_about);
        last.expect("the caller has seen that there are records of the group").then.push(then);
    }

    /// Lets the reply that waits for a later append fail.
    pub(crate) fn fail_later(&mut self, failed: RequestToken, code: ErrorCode) {
        let waiting = self.in_flight.iter_mut().flat_map(|append| &mut append.then);
        for then in waiting {
            match then {
                Then::Reply(token, reply) if *token == failed => {
                    *reply = reply.clone().failed(code);
                }
                _ => {}
            }
        }
    }

    /// Gives up on all appends, for a shard that ends.
    pub(crate) fn abandon(&mut self) -> Vec<Then> {
        self.in_flight.drain(..).flat_map(|append| append.then).collect()
    }
}
