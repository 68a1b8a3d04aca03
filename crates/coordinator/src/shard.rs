//! The state machine.

use std::sync::Arc;

use logway_model::{ErrorCode, ProducerId};
use tracing::warn;

use crate::cluster_view::ClusterView;
use crate::consumer::Waiting;
use crate::effect::{CommitToken, Effect};
use crate::groups::{DeletedTopic, GroupView, Groups};
use crate::ids::GroupId;
use crate::memory::GroupMemory;
use crate::moment::{ElapsedMs, Moment};
use crate::outbox::{InFlight, Kind, Outbox, Then};
use crate::rebalance_counts::RebalanceCounts;
use crate::record::{GroupRecord, failed_append};
use crate::request::{Reply, Request, RequestBody, RequestToken};
use crate::settings::GroupSettings;
use crate::timers::{Timer, Timers};
use crate::transactions::TransactionOutcome;
use crate::turn::Turn;

/// The groups of one partition of `__consumer_offsets`.
///
/// Owned and driven by one task; see the [crate's documentation](crate). Every method that returns effects returns
/// all that came up since the one before; they have to be done in their order.
///
/// Invariants: every request is answered once; what the log holds changes only by replaying records, in the order
/// of the log; a reply that tells of a change leaves after the change is durable.
#[derive(Debug)]
pub struct GroupShard {
    phase: Phase,
    settings: GroupSettings,
    memory: GroupMemory,
    rebalances: RebalanceCounts,
    groups: Groups,
    timers: Timers,
    outbox: Outbox,
    view: Arc<dyn ClusterView>,
    /// The version of the metadata that had the newest topics.
    topics_made_at: i64,
    /// Topics that were deleted while the log was read.
    deleted_meanwhile: Vec<DeletedTopic>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The log is being read.
    Loading,
    Active,
}

impl GroupShard {
    /// A shard that has yet to be loaded. Its groups share `memory` with those of other shards. `view` is what there is
    /// of topics now.
    pub fn new(
        settings: GroupSettings,
        memory: GroupMemory,
        view: Arc<dyn ClusterView>,
    ) -> GroupShard {
        GroupShard {
            phase: Phase::Loading,
            settings,
            groups: Groups::new(&memory),
            memory,
            rebalances: RebalanceCounts::default(),
            timers: Timers::default(),
            outbox: Outbox::default(),
            topics_made_at: view.version(),
            view,
            deleted_meanwhile: Vec::new(),
        }
    }

    /// The same, which notes what its groups do in these counts.
    pub fn counting(self, rebalances: RebalanceCounts) -> GroupShard {
        GroupShard { rebalances, ..self }
    }

    /// Takes over a record of the log while the shard is loaded: all of them, in their order.
    ///
    /// # Panics
    ///
    /// If the shard is loaded already: from then on it replays what it appends by itself.
    pub fn replay(&mut self, record: &GroupRecord) {
        assert!(self.phase == Phase::Loading, "the log is read before the shard is used");
        self.groups.replay(record);
    }

    /// The same for a record that is part of a producer's transaction.
    ///
    /// # Panics
    ///
    /// As [`GroupShard::replay`].
    pub fn replay_in_transaction(&mut self, producer: ProducerId, record: &GroupRecord) {
        assert!(self.phase == Phase::Loading, "the log is read before the shard is used");
        self.groups.replay_in_transaction(producer, record);
    }

    /// The same for the end of a producer's transaction.
    ///
    /// # Panics
    ///
    /// As [`GroupShard::replay`].
    pub fn replay_marker(&mut self, producer: ProducerId, outcome: TransactionOutcome) {
        assert!(self.phase == Phase::Loading, "the log is read before the shard is used");
        self.groups.replay_marker(producer, outcome);
    }

    /// The log has been read to its end. Members that it knows have their session timeout to be heard of.
    pub fn loaded(&mut self, now: Moment) -> Vec<Effect> {
        self.phase = Phase::Active;
        let deleted = std::mem::take(&mut self.deleted_meanwhile);
        let (groups, mut turn) = self.split(now);
        groups.start(&mut turn);
        groups.delete_topics(&mut turn, &deleted.into());
        let interval_ms = turn.settings.offsets_retention_check_interval_ms.max(1);
        turn.set_timer(Timer::Expiration, interval_ms.into());
        groups.refresh_consumers(&mut turn, |_| true);
        groups.refresh_streams(&mut turn, |_| true);
        self.outbox.take_effects()
    }

    /// Whether the newest request of a token is kept whole, until what is on its way to the log has arrived.
    pub fn keeps_request(&self, token: RequestToken) -> bool {
        self.groups.keeps_request(token) || self.outbox.keeps_request(token)
    }

    /// Handles a request; the reply is among these effects or later ones.
    ///
    /// While the shard is being loaded, the answer is COORDINATOR_LOAD_IN_PROGRESS, but for heartbeats: members
    /// shall not leave because of it.
    pub fn request(&mut self, now: Moment, request: Request) -> Vec<Effect> {
        let group_id = request.body.group_id().map(GroupId::from);
        let is_loading = self.phase == Phase::Loading;
        let (groups, mut turn) = self.split(now);
        if is_loading {
            let reply = request.body.refused(ErrorCode::CoordinatorLoadInProgress);
            turn.reply(request.token, reply);
        } else {
            handle(groups, &mut turn, request);
        }
        let reserved = turn.reserved;
        if let Some(group_id) = group_id {
            self.groups.take_stock(&self.outbox, &group_id);
        }
        drop(reserved);
        self.outbox.take_effects()
    }

    /// What the answer to a request would take now, in bytes with its encoded form, if that can be much more than the
    /// request itself: for DescribeGroups, ListGroups and OffsetFetch. Not less than it takes; 0 for others.
    ///
    /// So memory can be found for an answer before it is made.
    pub fn answer_bytes(&self, body: &RequestBody) -> usize {
        match self.phase {
            Phase::Loading => 0,
            Phase::Active => self.groups.answer_bytes(body),
        }
    }

    /// Tells that an append is durable, or that it failed, with the error of the log.
    ///
    /// A failed append is in the log neither now nor later. If the driver cannot know that, it must not tell
    /// anything, but unload the shard and load another. Appends may be told of in any order; they take effect in
    /// theirs.
    ///
    /// # Panics
    ///
    /// If the append is not one of this shard's, or was told of before.
    pub fn appended(
        &mut self,
        now: Moment,
        token: CommitToken,
        outcome: Result<(), ErrorCode>,
    ) -> Vec<Effect> {
        self.outbox.note_outcome(token, outcome);
        while let Some((append, outcome)) = self.outbox.pop_settled() {
            self.settle(now, append, outcome.map_err(failed_append));
        }
        self.outbox.take_effects()
    }

    /// Does what was to be done until now: see [`GroupShard::next_deadline`].
    pub fn tick(&mut self, now: Moment) -> Vec<Effect> {
        while let Some(timer) = self.timers.pop_due(now.elapsed) {
            self.fire(now, timer);
        }
        self.outbox.take_effects()
    }

    /// When [`GroupShard::tick`] is to be called next; it may change with every call.
    pub fn next_deadline(&self) -> Option<ElapsedMs> {
        self.timers.next()
    }

    /// The cluster's metadata has changed. `has_changed` says of which topics; `has_new` is whether there are new ones.
    pub fn cluster_changed(
        &mut self,
        now: Moment,
        view: Arc<dyn ClusterView>,
        has_changed: impl Fn(&str) -> bool,
        has_new: bool,
    ) -> Vec<Effect> {
        if has_new {
            self.topics_made_at = view.version();
        }
        self.view = view;
        if self.phase == Phase::Active {
            let (groups, mut turn) = self.split(now);
            groups.refresh_consumers(&mut turn, |group| group.reads_any(&has_changed));
            groups.refresh_streams(&mut turn, |group| group.needs_any(&has_changed));
        }
        self.outbox.take_effects()
    }

    /// Forgets the offsets of topics that have been deleted.
    pub fn topics_deleted(&mut self, now: Moment, topics: &[DeletedTopic]) -> Vec<Effect> {
        if self.phase == Phase::Loading {
            self.deleted_meanwhile.extend_from_slice(topics);
            return Vec::new();
        }
        let (groups, mut turn) = self.split(now);
        groups.delete_topics(&mut turn, &topics.into());
        self.outbox.take_effects()
    }

    /// Ends the shard, because the partition is led elsewhere or its log has failed: all that wait are told
    /// NOT_COORDINATOR. What becomes of appends on their way is of no concern any more.
    pub fn unload(mut self, now: Moment) -> Vec<Effect> {
        let code = ErrorCode::NotCoordinator;
        let waiting = self.outbox.abandon();
        let (groups, mut turn) = self.split(now);
        for then in waiting {
            match then {
                Then::Reply(token, reply) => turn.reply(token, reply.failed(code)),
                // Their members wait themselves, or another append's reply does, or nobody.
                Then::AssignmentStored { .. }
                | Then::ComebacksStored { .. }
                | Then::DeleteTopics { .. }
                | Then::DeleteTopicsFrom { .. }
                | Then::ExpireFrom { .. }
                | Then::FailLater(_) => {}
                Then::ConsumersStored { replies, .. } => {
                    replies.into_iter().for_each(|(token, it)| turn.reply(token, it.failed(code)));
                }
                Then::Classic(request) => turn.reply(request.token, request.body.refused(code)),
            }
        }
        groups.stop(&mut turn);
        self.outbox.take_effects()
    }

    /// Whether the shard answers requests.
    pub fn is_loaded(&self) -> bool {
        self.phase == Phase::Active
    }

    /// How many groups there are.
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// All groups, by name, for metrics and tools: lag is what their offsets are behind the ends of the logs.
    pub fn groups(&self) -> impl Iterator<Item = GroupView<'_>> {
        self.groups.views()
    }

    /// One group.
    pub fn group(&self, id: &str) -> Option<GroupView<'_>> {
        self.groups.view(id)
    }

    fn split(&mut self, now: Moment) -> (&mut Groups, Turn<'_>) {
        let GroupShard { settings, memory, rebalances, groups, timers, outbox, view, .. } = self;
        let (view, topics_made_at) = (&**view, self.topics_made_at);
        let reserved = Vec::new();
        let turn = Turn {
            now,
            settings,
            view,
            topics_made_at,
            memory,
            rebalances,
            reserved,
            timers,
            outbox,
        };
        (groups, turn)
    }

    /// An append is done, as are all before it.
    fn settle(&mut self, now: Moment, append: InFlight, outcome: Result<(), ErrorCode>) {
        match outcome {
            Ok(()) => self.land(&append),
            Err(code) => warn!(%code, records = append.records.len(), "an append has failed"),
        }
        for then in append.then {
            self.follow_up(now, then, &append.records, outcome);
        }
        // Records of one append are mostly of one group.
        let mut last = None;
        for group in append.records.iter().map(GroupRecord::group) {
            if last.replace(group) != Some(group) {
                let (groups, mut turn) = self.split(now);
                groups.work_on_waiting(&mut turn, group);
                self.groups.take_stock(&self.outbox, group);
            }
        }
    }

    /// Takes over what an append has brought into the log.
    fn land(&mut self, append: &InFlight) {
        match append.kind {
            Kind::Plain => append.records.iter().for_each(|record| self.groups.replay(record)),
            Kind::InTransaction(part) => {
                let (records, producer) = (append.records.iter(), part.producer.id);
                records.for_each(|record| self.groups.replay_in_transaction(producer, record));
            }
            Kind::Marker(marker) => {
                for group in self.groups.replay_marker(marker.producer.id, marker.outcome) {
                    self.groups.take_stock(&self.outbox, &group);
                }
            }
        }
    }

    fn follow_up(
        &mut self,
        now: Moment,
        then: Then,
        records: &[GroupRecord],
        outcome: Result<(), ErrorCode>,
    ) {
        let (groups, mut turn) = self.split(now);
        match (then, outcome) {
            (Then::Reply(token, reply), Ok(())) => turn.reply(token, reply),
            (Then::Reply(token, reply), Err(code)) => turn.reply(token, reply.failed(code)),
            (Then::FailLater(token), Err(code)) => turn.outbox.fail_later(token, code),
            (Then::FailLater(_), Ok(())) => {}
            (Then::AssignmentStored { group, generation }, _) => {
                let metadata = records.iter().find_map(|record| match record {
                    GroupRecord::Metadata { metadata, .. } => metadata.as_deref(),
                    GroupRecord::Offset { .. }
                    | GroupRecord::Consumer { .. }
                    | GroupRecord::Streams { .. } => None,
                });
                if let Some(membership) = groups.membership_mut(&group) {
                    membership.assignment_stored(&mut turn, generation, outcome, metadata);
                }
            }
            (Then::ComebacksStored { group, comebacks }, _) => {
                if let Some(membership) = groups.membership_mut(&group) {
                    membership.comebacks_stored(&mut turn, &comebacks, outcome);
                }
            }
            (Then::ConsumersStored { group, replies, conversion }, _) => {
                groups.consumers_stored(&mut turn, &group, replies, conversion, outcome);
            }
            (Then::Classic(request), Ok(())) => groups.classic_request(&mut turn, *request),
            (Then::Classic(request), Err(code)) => {
                turn.reply(request.token, request.body.refused(code));
            }
            (Then::DeleteTopics { group, topics }, _) => {
                groups.delete_topics_of_group(&mut turn, &group, &topics);
            }
            (Then::DeleteTopicsFrom { after, topics }, _) => {
                groups.delete_topics_from(&mut turn, Some(&after), &topics);
            }
            (Then::ExpireFrom { from }, Ok(())) => groups.expire_from(&mut turn, Some(&from)),
            (Then::ExpireFrom { .. }, Err(_)) => groups.stop_expiring(),
        }
    }

    fn fire(&mut self, now: Moment, timer: Timer) {
        let (groups, mut turn) = self.split(now);
        let group = match timer {
            Timer::Expiration => {
                groups.expire(&mut turn);
                return;
            }
            Timer::Join(group) => {
                if let Some(membership) = groups.membership_mut(&group) {
                    membership.join_expired(&mut turn);
                }
                group
            }
            Timer::Sync(group) => {
                if let Some(membership) = groups.membership_mut(&group) {
                    membership.sync_expired(&mut turn);
                }
                group
            }
            // Nobody waits for it.
            Timer::MissingTopics(_) | Timer::AskedForTopics(..) => return,
            Timer::Session(ref group, _)
                if groups.consumer(group).is_some()
                    || groups.streams(group).is_some()
                    || turn.outbox.has_consumer_group_in_flight(group) =>
            {
                let group = group.clone();
                groups.work_on_consumers(&mut turn, &group, Waiting::Timer(timer));
                group
            }
            Timer::Rebalance(ref group, _)
            | Timer::Assign(ref group)
            | Timer::FirstAssign(ref group) => {
                let group = group.clone();
                groups.work_on_consumers(&mut turn, &group, Waiting::Timer(timer));
                group
            }
            Timer::Session(group, member) => {
                if let Some(membership) = groups.membership_mut(&group) {
                    membership.session_expired(&mut turn, &member);
                }
                group
            }
        };
        self.groups.take_stock(&self.outbox, &group);
    }
}

/// Answers a request to a loaded shard, or begins to.
fn handle(groups: &mut Groups, turn: &mut Turn, request: Request) {
    match &request.body {
        RequestBody::ConsumerGroupHeartbeat { .. } => {
            return groups.consumer_heartbeat(turn, request);
        }
        RequestBody::StreamsGroupHeartbeat(_) => return groups.streams_heartbeat(turn, request),
        RequestBody::JoinGroup { .. }
        | RequestBody::SyncGroup(_)
        | RequestBody::Heartbeat(_)
        | RequestBody::LeaveGroup(_) => return groups.classic_in_turn(turn, request),
        _ => {}
    }
    let Request { token, version, body, .. } = request;
    match body {
        RequestBody::JoinGroup { .. }
        | RequestBody::SyncGroup(_)
        | RequestBody::Heartbeat(_)
        | RequestBody::LeaveGroup(_)
        | RequestBody::ConsumerGroupHeartbeat { .. }
        | RequestBody::StreamsGroupHeartbeat(_) => {}
        RequestBody::ConsumerGroupDescribe { groups: group_ids } => {
            let described = groups.describe_consumers(turn, &group_ids);
            turn.reply(token, Reply::ConsumerGroupDescribe(described));
        }
        RequestBody::StreamsGroupDescribe { groups: group_ids } => {
            let described = groups.describe_streams(turn, &group_ids);
            turn.reply(token, Reply::StreamsGroupDescribe(described));
        }
        RequestBody::OffsetCommit(request) => groups.commit(turn, token, version, &request),
        RequestBody::OffsetFetch(request) => groups.fetch(turn, token, &request, false),
        RequestBody::StableOffsetFetch(request) => groups.fetch(turn, token, &request, true),
        RequestBody::TxnOffsetCommit(commit) => groups.commit_in_transaction(turn, token, &commit),
        RequestBody::WriteMarker(marker) => groups.end_transaction(turn, token, marker),
        RequestBody::OffsetDelete(request) => groups.delete_offsets(turn, token, &request),
        RequestBody::DescribeGroups { groups: group_ids } => {
            let described = groups.describe(version, &group_ids);
            turn.reply(token, Reply::DescribeGroups(described));
        }
        RequestBody::ListGroups(request) => {
            let listed = groups.list(&request);
            turn.reply(token, Reply::ListGroups(listed));
        }
        RequestBody::DeleteGroups { groups: group_ids } => {
            groups.delete_groups(turn, token, &group_ids);
        }
    }
}

impl RequestBody {
    /// The group that may come into being, cease to be, or take more or less, by the request.
    fn group_id(&self) -> Option<&str> {
        match self {
            RequestBody::JoinGroup { request, .. } => Some(&request.group_id),
            RequestBody::SyncGroup(request) => Some(&request.group_id),
            RequestBody::LeaveGroup(request) => Some(&request.group_id),
            RequestBody::ConsumerGroupHeartbeat { request, .. } => Some(&request.group_id),
            RequestBody::StreamsGroupHeartbeat(request) => Some(&request.group_id),
            _ => None,
        }
    }
}
