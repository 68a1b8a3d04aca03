//! Who is in a group, and how far its rebalance is.

mod comeback;
mod heartbeat;
mod join;
mod leave;
mod rebalance;
mod roster;
mod sync;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use logway_model::{ErrorCode, TimestampMs};

use crate::ids::{CommittedTopic, GroupId, MemberId, ProtocolName};
use crate::member::Member;
use crate::record::{GroupMetadata, GroupRecord};
use crate::subscription::{CONSUMER_PROTOCOL_TYPE, subscribed_topics};
use crate::timers::Timer;
use crate::turn::Turn;

pub(crate) use comeback::StaticComeback;
pub(crate) use join::{Join, refusal as join_refusal};
pub(crate) use leave::outcome as leave_outcome;
pub(crate) use sync::refusal as sync_refusal;

use comeback::Comebacks;
use roster::Roster;

/// Where a group is between two rebalances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum GroupState {
    /// Without members: there may be offsets.
    Empty,
    /// The members are joining.
    PreparingRebalance,
    /// The leader is assigning.
    CompletingRebalance,
    /// Every member has its assignment or can ask for it.
    Stable,
}

/// The members of a group and the rebalance they are in.
///
/// This is what the coordinator knows and the log does not: it is built from the log when the shard is loaded, and
/// runs ahead of it afterwards. What it tells clients is in the log by then where that matters: assignments, the
/// ids of static members, and that a group is empty.
///
/// Invariants: the leader is a member; `pending_sync` holds only members; a timer is set for each member and each
/// pending one, except for members that are excused because they wait.
#[derive(Debug)]
pub(crate) struct Membership {
    group: GroupId,
    state: GroupState,
    /// When the state last changed; unknown for groups from very old logs, and before the first change.
    state_timestamp: Option<TimestampMs>,
    generation: i32,
    protocol_type: Option<ProtocolName>,
    protocol: Option<ProtocolName>,
    leader: Option<MemberId>,
    roster: Roster,
    /// Those that were given an id and have yet to join with it (KIP-394).
    pending_join: BTreeSet<MemberId>,
    /// Those that have yet to ask for their assignment.
    pending_sync: BTreeSet<MemberId>,
    /// The generation whose assignment is on its way to the log.
    generation_in_flight: Option<i32>,
    /// Static members whose new ids the log has yet to know.
    comebacks: Comebacks,
    /// Set while an empty group waits for its first members.
    initial_rebalance: Option<InitialRebalance>,
    /// What the members of a consumer group subscribe to; unknown for other groups, and where it cannot be read.
    subscribed_topics: Option<BTreeSet<CommittedTopic>>,
    /// What those take.
    subscribed_bytes: usize,
}

/// What a member takes beside [`Membership::held_bytes`]: its places in maps, and its timer.
const MEMBER_BYTES: usize = 512;

/// What one takes that was only given an id, with that and its timer.
const PENDING_BYTES: usize = 768;

/// What a topic takes beside its name that members subscribe to.
const SUBSCRIBED_BYTES: usize = 64;

/// How long the first rebalance can be put off yet (KIP-134).
#[derive(Debug, Clone, Copy)]
struct InitialRebalance {
    delay_ms: u64,
    remaining_ms: u64,
    /// Whether someone joined since it was last put off.
    member_added: bool,
}

impl GroupState {
    /// The name that Kafka's tools show.
    pub(crate) fn name(self) -> &'static str {
        match self {
            GroupState::Empty => "Empty",
            GroupState::PreparingRebalance => "PreparingRebalance",
            GroupState::CompletingRebalance => "CompletingRebalance",
            GroupState::Stable => "Stable",
        }
    }
}

impl fmt::Display for GroupState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Membership {
    /// A group that nobody has joined.
    pub(crate) fn new(group: GroupId) -> Membership {
        Membership {
            group,
            state: GroupState::Empty,
            state_timestamp: None,
            generation: 0,
            protocol_type: None,
            protocol: None,
            leader: None,
            roster: Roster::default(),
            pending_join: BTreeSet::new(),
            pending_sync: BTreeSet::new(),
            generation_in_flight: None,
            comebacks: Comebacks::default(),
            initial_rebalance: None,
            subscribed_topics: None,
            subscribed_bytes: 0,
        }
    }

    /// A group as the log knows it.
    pub(crate) fn restore(group: GroupId, metadata: &GroupMetadata) -> Membership {
        let mut roster = Roster::default();
        for member in &metadata.members {
            roster.insert(Member::restore(member, metadata.protocol.as_ref()));
        }
        let (state, leader) = match roster.is_empty() {
            true => (GroupState::Empty, None),
            false => {
                let leader = metadata.leader.as_ref().filter(|leader| roster.contains(leader));
                (GroupState::Stable, leader.or_else(|| roster.first_id()).cloned())
            }
        };
        let mut membership = Membership {
            group,
            state,
            state_timestamp: metadata.state_timestamp,
            generation: metadata.generation,
            protocol_type: metadata.protocol_type.clone(),
            protocol: metadata.protocol.clone(),
            leader,
            roster,
            pending_join: BTreeSet::new(),
            pending_sync: BTreeSet::new(),
            generation_in_flight: None,
            comebacks: Comebacks::default(),
            initial_rebalance: None,
            subscribed_topics: None,
            subscribed_bytes: 0,
        };
        membership.read_subscriptions();
        membership
    }

    pub(crate) fn state(&self) -> GroupState {
        self.state
    }

    pub(crate) fn state_timestamp(&self) -> Option<TimestampMs> {
        self.state_timestamp
    }

    pub(crate) fn generation(&self) -> i32 {
        self.generation
    }

    pub(crate) fn protocol_type(&self) -> Option<&ProtocolName> {
        self.protocol_type.as_ref()
    }

    pub(crate) fn protocol(&self) -> Option<&ProtocolName> {
        self.protocol.as_ref()
    }

    pub(crate) fn members(&self) -> impl ExactSizeIterator<Item = &Member> {
        self.roster.members()
    }

    /// The bytes that are kept for all members and their assignments.
    pub(crate) fn held_bytes(&self) -> usize {
        self.roster.held_bytes()
    }

    /// The memory that all of it takes, places in maps included.
    pub(crate) fn counted_bytes(&self) -> usize {
        let members = self.held_bytes() + self.roster.len() * MEMBER_BYTES;
        let pending = self.pending_join.len() * PENDING_BYTES;
        members + pending + self.subscribed_bytes + self.kind_bytes()
    }

    /// What the kind of group and its protocol take.
    pub(crate) fn kind_bytes(&self) -> usize {
        let names = [&self.protocol_type, &self.protocol].into_iter().flatten();
        names.map(|name| name.as_str().len()).sum()
    }

    /// Whether there is nothing here that anyone could miss.
    pub(crate) fn is_idle(&self) -> bool {
        self.state == GroupState::Empty && self.pending_join.is_empty()
    }

    /// Whether the group's members speak the consumer protocol.
    pub(crate) fn is_consumer_group(&self) -> bool {
        self.protocol_type.as_ref().is_some_and(|name| name.as_str() == CONSUMER_PROTOCOL_TYPE)
    }

    /// Whether it is known what the members of a consumer group subscribe to.
    pub(crate) fn knows_subscriptions(&self) -> bool {
        self.subscribed_topics.is_some()
    }

    /// Whether a member subscribes to the topic, or might.
    pub(crate) fn is_subscribed_to(&self, topic: &CommittedTopic) -> bool {
        match &self.subscribed_topics {
            Some(topics) => topics.contains(topic),
            None => self.is_consumer_group(),
        }
    }

    /// Whether the request comes from the member that it says, or the error.
    pub(crate) fn check_member(
        &self,
        member_id: &str,
        instance_id: Option<&str>,
    ) -> Result<(), ErrorCode> {
        if let Some(instance_id) = instance_id {
            match self.roster.static_id(instance_id) {
                None => return Err(ErrorCode::UnknownMemberId),
                Some(current) if current.as_str() != member_id => {
                    return Err(ErrorCode::FencedInstanceId);
                }
                Some(_) => {}
            }
        }
        match self.roster.contains(member_id) {
            true => Ok(()),
            false => Err(ErrorCode::UnknownMemberId),
        }
    }

    /// The same for a request of a generation.
    pub(crate) fn check_generation(
        &self,
        member_id: &str,
        instance_id: Option<&str>,
        generation: i32,
    ) -> Result<(), ErrorCode> {
        self.check_member(member_id, instance_id)?;
        match generation == self.generation {
            true => Ok(()),
            false => Err(ErrorCode::IllegalGeneration),
        }
    }

    fn is_leader(&self, member_id: &str) -> bool {
        self.leader.as_ref().is_some_and(|leader| leader.as_str() == member_id)
    }

    fn move_to(&mut self, state: GroupState, now: TimestampMs) {
        self.state = state;
        self.state_timestamp = Some(now);
    }

    /// Reads what the members subscribe to, for the protocol of this generation.
    fn read_subscriptions(&mut self) {
        self.subscribed_topics = None;
        self.subscribed_bytes = 0;
        if !self.is_consumer_group() {
            return;
        }
        let protocol = self.protocol.as_ref();
        let read = self
            .roster
            .members()
            .map(|member| subscribed_topics(&member.protocols.metadata(protocol)));
        let read: Result<Vec<_>, _> = read.collect();
        // Assignors may have metadata of their own; then what they subscribe to stays unknown.
        self.subscribed_topics = read.ok().map(|topics| topics.into_iter().flatten().collect());
        let topics = self.subscribed_topics.iter().flatten();
        self.subscribed_bytes = topics.map(|topic| SUBSCRIBED_BYTES + topic.as_str().len()).sum();
    }

    /// The record of a stable group of such members, who have their assignments.
    pub(crate) fn record_of(
        group: GroupId,
        generation: i32,
        members: Vec<Member>,
        now: TimestampMs,
    ) -> GroupRecord {
        let mut membership = Membership::new(group);
        members.into_iter().for_each(|member| membership.roster.insert(member));
        membership.generation = generation;
        membership.protocol_type = Some(CONSUMER_PROTOCOL_TYPE.into());
        membership.protocol = membership.roster.elect_protocol();
        membership.leader = membership.roster.first_id().cloned();
        membership.move_to(GroupState::Stable, now);
        membership.record(|member| member.assignment.clone())
    }

    /// Lets nobody wait any more, and no time run out: the group is about to become a consumer group.
    pub(crate) fn suspend(&mut self, turn: &mut Turn) {
        let code = ErrorCode::RebalanceInProgress;
        self.refuse_syncs(turn, code);
        for member_id in self.roster.ids() {
            let take = |member: &mut Member| {
                member.is_new = false;
                member.awaiting_join.take()
            };
            if let Some(token) = self.roster.change(member_id.as_str(), take).flatten() {
                turn.reply(token, join_refusal(member_id.as_str(), code));
            }
        }
        self.comebacks = Comebacks::default();
        turn.timers.clear(Timer::Join(self.group.clone()));
        turn.timers.clear(Timer::Sync(self.group.clone()));
    }

    /// It did not become one, and goes on with a rebalance.
    pub(crate) fn resume(&mut self, turn: &mut Turn) {
        self.start(turn);
        match self.state {
            GroupState::PreparingRebalance => {
                self.initial_rebalance = None;
                let timeout_ms = self.roster.rebalance_timeout_ms();
                turn.set_timer(Timer::Join(self.group.clone()), timeout_ms);
            }
            GroupState::CompletingRebalance => {
                self.prepare_rebalance(turn, "it did not become a consumer group");
            }
            GroupState::Empty | GroupState::Stable => {}
        }
    }

    /// The record of the group, with these assignments.
    fn record(&self, assignment_of: impl Fn(&Member) -> Bytes) -> GroupRecord {
        let protocol = self.protocol.as_ref();
        let members =
            self.roster.members().map(|member| member.metadata(protocol, assignment_of(member)));
        let metadata = GroupMetadata {
            protocol_type: self.protocol_type.clone(),
            generation: self.generation,
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            state_timestamp: self.state_timestamp,
            members: members.collect(),
        };
        GroupRecord::Metadata { group: self.group.clone(), metadata: Some(Arc::new(metadata)) }
    }
}
