//! What leaves the shard.

use std::collections::{HashMap, VecDeque};

use logway_model::ErrorCode;

use crate::effect::{CommitToken, Effect};
use crate::ids::{GroupId, InstanceId, MemberId};
use crate::member::Member;
use crate::record::GroupRecord;
use crate::request::{Reply, Request, RequestToken};

/// What leaves the shard, and what is to happen when its records are durable.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    effects: Vec<Effect>,
    in_flight: VecDeque<InFlight>,
    /// How many records in flight are about each group. Never iterated, so its order is of no effect.
    in_flight_of: HashMap<GroupId, usize>,
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
    FetchOffsets(Box<Request>),
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

impl Outbox {
    /// Answers a request.
    pub(crate) fn reply(&mut self, token: RequestToken, reply: Reply) {
        self.effects.push(Effect::Reply { token, reply });
    }

    /// Sends records to the log, of which there has to be one at least.
    pub(crate) fn append(&mut self, records: Vec<GroupRecord>, then: Option<Then>) {
        debug_assert!(!records.is_empty(), "an append has records");
        let token = CommitToken(self.appends);
        self.appends += 1;
        for record in &records {
            *self.in_flight_of.entry(record.group().clone()).or_default() += 1;
        }
        self.effects.push(Effect::Append { token, records: records.clone() });
        let then = then.into_iter().collect();
        self.in_flight.push_back(InFlight { token, records, then, outcome: None });
    }

    /// How many appends there have been: a mark for [`Outbox::reply_after`].
    pub(crate) fn appends(&self) -> u64 {
        self.appends
    }

    /// Answers when what was appended since the mark is durable: at once if that is nothing.
    pub(crate) fn reply_after(&mut self, mark: u64, token: RequestToken, reply: Reply) {
        match self.in_flight.back_mut() {
            Some(last) if self.appends > mark => last.then.push(Then::Reply(token, reply)),
            _ => self.reply(token, reply),
        }
    }

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
        let append = self.in_flight.pop_front()?;
        for record in &append.records {
            self.land(record.group());
        }
        Some((append, outcome))
    }

    /// A record about the group is in flight no more.
    fn land(&mut self, group: &GroupId) {
        if let Some(count) = self.in_flight_of.get_mut(group) {
            *count -= 1;
            if *count == 0 {
                self.in_flight_of.remove(group);
            }
        }
    }

    /// The records about the group that are not settled, in their order.
    pub(crate) fn records_in_flight(&self, group: &GroupId) -> impl Iterator<Item = &GroupRecord> {
        // Mostly there are none, and many of other groups.
        let appends = self.in_flight.iter().take(match self.has_records_of(group) {
            true => usize::MAX,
            false => 0,
        });
        let records = appends.flat_map(|append| &append.records);
        records.filter(move |record| record.group() == group)
    }

    /// How many records about the group are not settled.
    pub(crate) fn count_of(&self, group: &GroupId) -> usize {
        self.in_flight_of.get(group).copied().unwrap_or(0)
    }

    /// Whether there are any.
    pub(crate) fn has_records_of(&self, group: &GroupId) -> bool {
        self.in_flight_of.contains_key(group)
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
        self.in_flight_of.clear();
        self.in_flight.drain(..).flat_map(|append| append.then).collect()
    }
}
