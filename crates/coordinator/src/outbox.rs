//! What leaves the shard.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use logway_model::{ErrorCode, PartitionId};

use crate::consumer::Conversion;
use crate::effect::{CommitToken, Effect, InTransaction, Marker};
use crate::groups::DeletedTopic;
use crate::ids::{CommittedTopic, GroupId};
use crate::membership::StaticComeback;
use crate::memory::HeldMemory;
use crate::record::GroupRecord;
use crate::request::{Reply, Request, RequestToken};

/// What leaves the shard, and what is to happen when its records are durable.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    effects: Vec<Effect>,
    /// Tokens of neighbours follow each other.
    in_flight: VecDeque<InFlight>,
    /// What in flight is about each group. Never iterated, so its order is of no effect.
    in_flight_of: HashMap<GroupId, GroupInFlight>,
    appends: u64,
}

/// What is on its way to the log about one group. Looked up for every partition that a request names, so nothing here
/// is searched.
#[derive(Debug, Default)]
struct GroupInFlight {
    records: usize,
    /// How many of them are not about offsets.
    about_members: usize,
    /// How many of those are of a group whose coordinator assigns.
    of_coordinator_assigned: usize,
    /// How many of them are about the offset of each partition.
    offsets: BTreeMap<CommittedTopic, BTreeMap<PartitionId, usize>>,
    /// The append with the last of them.
    last: CommitToken,
}

/// What records on their way to the log are, or what is on its way in their stead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Records that count when they are durable.
    Plain,
    /// Records that count when a transaction is committed.
    InTransaction(InTransaction),
    /// The end of a transaction, without records.
    Marker(Marker),
}

/// Records on their way to the log.
#[derive(Debug)]
pub(crate) struct InFlight {
    token: CommitToken,
    /// How they count.
    pub(crate) kind: Kind,
    /// The records, to be replayed when they are durable.
    pub(crate) records: Vec<GroupRecord>,
    /// What happens then, or when they could not be appended.
    pub(crate) then: Vec<Then>,
    outcome: Option<Result<(), ErrorCode>>,
    /// What the records will make the groups take.
    _held: Option<HeldMemory>,
}

/// What happens when records are durable, or could not be appended.
#[derive(Debug)]
pub(crate) enum Then {
    /// The reply leaves; if the append failed, as an error.
    Reply(RequestToken, Reply),
    /// What members of a consumer group are told leaves; if the append failed, as errors.
    ConsumersStored {
        group: GroupId,
        replies: Vec<(RequestToken, Reply)>,
        conversion: Option<Conversion>,
    },
    /// A classic request to a group that was an empty consumer group, and is none any more.
    Classic(Box<Request>),
    /// If the append failed, so does the reply that waits for a later one.
    FailLater(RequestToken),
    /// The members get what the leader assigned.
    AssignmentStored { group: GroupId, generation: i32 },
    /// Static members have other ids.
    ComebacksStored { group: GroupId, comebacks: Vec<StaticComeback> },
    /// Offsets of topics that are no more can be told from those of topics that have their names now.
    DeleteTopics { group: GroupId, topics: Vec<DeletedTopic> },
    /// The same goes on with the groups after this one.
    DeleteTopicsFrom { after: GroupId, topics: Arc<[DeletedTopic]> },
    /// What has expired is looked for in this group and those after it.
    ExpireFrom { from: GroupId },
}

impl Outbox {
    /// Answers a request.
    pub(crate) fn reply(&mut self, token: RequestToken, reply: Reply) {
        self.effects.push(Effect::Reply { token, reply });
    }

    /// Sends records to the log, of which there has to be one at least.
    pub(crate) fn append(
        &mut self,
        records: Vec<GroupRecord>,
        then: Option<Then>,
        held: Option<HeldMemory>,
    ) {
        self.send_off(Kind::Plain, records, then.into_iter().collect(), held);
    }

    /// The same for records that count when a transaction is committed.
    pub(crate) fn append_in_transaction(
        &mut self,
        part: InTransaction,
        records: Vec<GroupRecord>,
        then: Then,
        held: HeldMemory,
    ) {
        self.send_off(Kind::InTransaction(part), records, vec![then], Some(held));
    }

    /// Sends the end of a transaction to the log.
    pub(crate) fn append_marker(&mut self, marker: Marker, then: Then) {
        self.send_off(Kind::Marker(marker), Vec::new(), vec![then], None);
    }

    fn send_off(
        &mut self,
        kind: Kind,
        records: Vec<GroupRecord>,
        then: Vec<Then>,
        held: Option<HeldMemory>,
    ) {
        let token = CommitToken(self.appends);
        self.appends += 1;
        for record in &records {
            self.take_off(token, record);
        }
        let is_marker = matches!(kind, Kind::Marker(_));
        debug_assert!(is_marker == records.is_empty(), "an append has records");
        self.effects.push(match kind {
            Kind::Plain => Effect::Append { token, records: records.clone() },
            Kind::InTransaction(part) => {
                Effect::AppendInTransaction { token, part, records: records.clone() }
            }
            Kind::Marker(marker) => Effect::AppendMarker { token, marker },
        });
        let append = InFlight { token, kind, records, then, outcome: None, _held: held };
        self.in_flight.push_back(append);
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
        let noted = self.append_mut(token);
        let noted = noted.expect("an append is told of once, and only to the shard that made it");
        assert!(noted.outcome.is_none(), "an append is told of once");
        noted.outcome = Some(outcome);
    }

    /// The next append whose outcome is known, if those before it are done.
    pub(crate) fn pop_settled(&mut self) -> Option<(InFlight, Result<(), ErrorCode>)> {
        let outcome = self.in_flight.front()?.outcome?;
        let append = self.in_flight.pop_front()?;
        for record in &append.records {
            self.land(record);
        }
        Some((append, outcome))
    }

    fn append_mut(&mut self, token: CommitToken) -> Option<&mut InFlight> {
        let place = token.0.checked_sub(self.in_flight.front()?.token.0)?;
        self.in_flight.get_mut(usize::try_from(place).ok()?)
    }

    /// A record is in flight.
    fn take_off(&mut self, token: CommitToken, record: &GroupRecord) {
        let of_group = self.in_flight_of.entry(record.group().clone()).or_default();
        of_group.records += 1;
        of_group.last = token;
        match record {
            GroupRecord::Offset { topic, partition, .. } => {
                let of_topic = of_group.offsets.entry(topic.clone()).or_default();
                *of_topic.entry(*partition).or_default() += 1;
            }
            GroupRecord::Metadata { .. } => of_group.about_members += 1,
            GroupRecord::Consumer { .. } | GroupRecord::Streams { .. } => {
                of_group.about_members += 1;
                of_group.of_coordinator_assigned += 1;
            }
        }
    }

    /// It is in flight no more.
    fn land(&mut self, record: &GroupRecord) {
        let Some(of_group) = self.in_flight_of.get_mut(record.group()) else { return };
        of_group.records -= 1;
        if of_group.records == 0 {
            self.in_flight_of.remove(record.group());
            return;
        }
        match record {
            GroupRecord::Offset { topic, partition, .. } => of_group.land(topic, *partition),
            GroupRecord::Metadata { .. } => of_group.about_members -= 1,
            GroupRecord::Consumer { .. } | GroupRecord::Streams { .. } => {
                of_group.about_members -= 1;
                of_group.of_coordinator_assigned -= 1;
            }
        }
    }

    /// The partitions whose offset in the group is about to change.
    pub(crate) fn offsets_in_flight(
        &self,
        group: &GroupId,
    ) -> impl Iterator<Item = (&CommittedTopic, PartitionId)> {
        let topics = self.in_flight_of.get(group).into_iter().flat_map(|of| &of.offsets);
        topics.flat_map(|(topic, partitions)| partitions.keys().map(move |&number| (topic, number)))
    }

    /// Whether the partition's offset in the group is about to change.
    pub(crate) fn has_offset_in_flight(
        &self,
        group: &GroupId,
        topic: &CommittedTopic,
        partition: PartitionId,
    ) -> bool {
        let of_topic = self.in_flight_of.get(group).and_then(|of| of.offsets.get(topic));
        of_topic.is_some_and(|partitions| partitions.contains_key(&partition))
    }

    /// Whether any of the topic's offsets in the group is about to change.
    pub(crate) fn has_topic_in_flight(&self, group: &GroupId, topic: &CommittedTopic) -> bool {
        self.in_flight_of.get(group).is_some_and(|of| of.offsets.contains_key(topic))
    }

    /// How many records about the group are not settled.
    pub(crate) fn count_of(&self, group: &GroupId) -> usize {
        self.in_flight_of.get(group).map_or(0, |of| of.records)
    }

    /// Whether there are any.
    pub(crate) fn has_records_of(&self, group: &GroupId) -> bool {
        self.in_flight_of.contains_key(group)
    }

    /// Whether any of them says something of the group itself, not only of its offsets.
    pub(crate) fn has_members_in_flight(&self, group: &GroupId) -> bool {
        self.in_flight_of.get(group).is_some_and(|of| of.about_members > 0)
    }

    /// Whether a request waits for the last append.
    pub(crate) fn keeps_request(&self, token: RequestToken) -> bool {
        let then = self.in_flight.back().map_or(&[][..], |append| &append.then);
        then.iter().any(|then| matches!(then, Then::Classic(request) if request.token == token))
    }

    /// Whether the group's coordinator assigns, or ceases to, when they are settled.
    pub(crate) fn has_consumer_group_in_flight(&self, group: &GroupId) -> bool {
        self.in_flight_of.get(group).is_some_and(|of| of.of_coordinator_assigned > 0)
    }

    /// Does something when the last append about the group is settled; there has to be one.
    pub(crate) fn after_records_of(&mut self, group: &GroupId, then: Then) {
        let last = self.in_flight_of.get(group).map(|of| of.last);
        let last = last.and_then(|token| self.append_mut(token));
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

impl GroupInFlight {
    fn land(&mut self, topic: &CommittedTopic, partition: PartitionId) {
        let Some(partitions) = self.offsets.get_mut(topic) else { return };
        if let Some(count) = partitions.get_mut(&partition) {
            *count -= 1;
            if *count == 0 {
                partitions.remove(&partition);
            }
        }
        if partitions.is_empty() {
            self.offsets.remove(topic);
        }
    }
}
