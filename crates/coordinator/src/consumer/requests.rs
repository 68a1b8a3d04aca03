//! What works on a consumer group: requests of its members, timers, and news of the cluster, one after the other.
//!
//! While records about the members of a group are on their way to the log, all that would be worked on waits. What has
//! gathered then is worked on together, and its records are one append. So a group takes as many appends a second as
//! the log does, and each may be about many members.

use std::collections::{BTreeMap, VecDeque};

use logway_model::{ErrorCode, GroupType};
use logway_wire::messages::ConsumerGroupHeartbeatRequest;
use logway_wire::messages::consumer_group_heartbeat_request::TopicPartitions as Reported;

use crate::groups::Groups;
use crate::ids::{GroupId, MemberId};
use crate::memory::{Growth, HeldMemory};
use crate::outbox::Then;
use crate::request::{Reply, Request, RequestBody, RequestToken};
use crate::timers::Timer;
use crate::turn::Turn;

use super::GroupEpoch;
use super::departure::is_revoking;
use super::draft::{Conversion, Draft, Drafted};
use super::group::ConsumerGroup;
use super::heartbeat::{Heartbeat, check, check_assignor, refused};
use super::reconcile::has_any;
use super::refusal::Refusal;

/// Requests that are worked on together at most.
const TOGETHER_MAX: usize = 100;

/// Something that waits until the group can be worked on. Requests hold memory of the driver's budgets: see
/// [`Groups::keeps_request`].
#[derive(Debug)]
pub(crate) enum Waiting {
    /// A request of a member.
    Request(Box<Request>),
    /// A time that is over.
    Timer(Timer),
    /// The cluster has changed.
    Refresh,
}

/// What waits, by group.
pub(crate) type WaitingByGroup = BTreeMap<GroupId, VecDeque<Waiting>>;

/// What is told when the records are durable.
type Replies = Vec<(RequestToken, Reply)>;

impl Groups {
    /// ConsumerGroupHeartbeat.
    pub(crate) fn consumer_heartbeat(&mut self, turn: &mut Turn, request: Request) {
        let RequestBody::ConsumerGroupHeartbeat { request: heartbeat, .. } = &request.body else {
            return;
        };
        let checked = check(heartbeat, request.version)
            .and_then(|()| check_assignor(heartbeat, &turn.settings.consumer.assignors));
        if let Err(refusal) = checked {
            turn.reply(request.token, refused(refusal));
            return;
        }
        let group = GroupId::from(&heartbeat.group_id);
        self.work_on_consumers(turn, &group, Waiting::Request(Box::new(request)));
    }

    /// Whether the newest request waits as it came.
    pub(crate) fn keeps_request(&self, token: RequestToken) -> bool {
        let newest = self.waiting.values().filter_map(VecDeque::back);
        newest.into_iter().any(|work| matches!(work, Waiting::Request(it) if it.token == token))
    }

    /// Works on something, now or when what is on its way to the log has arrived.
    pub(crate) fn work_on_consumers(&mut self, turn: &mut Turn, group: &GroupId, work: Waiting) {
        self.waiting.entry(group.clone()).or_default().push_back(work);
        self.work_on_waiting(turn, group);
    }

    /// Works on what waits, if nothing is on its way to the log.
    pub(crate) fn work_on_waiting(&mut self, turn: &mut Turn, group: &GroupId) {
        while self.waiting.contains_key(group) && !turn.outbox.has_members_in_flight(group) {
            self.work_on_some(turn, group);
        }
    }

    /// Works on what waits of one kind: of classic requests one, of others as many as may be.
    fn work_on_some(&mut self, turn: &mut Turn, group: &GroupId) {
        // What no member asks for is a matter of the kind that the group is of.
        let present = match self.streams(group) {
            Some(_) => GroupType::Streams,
            None if self.consumer(group).is_some() => GroupType::Consumer,
            None => GroupType::Classic,
        };
        let Some(queue) = self.waiting.get_mut(group) else { return };
        let kind_of = |work: &Waiting| work.kind().unwrap_or(present);
        let Some(kind) = queue.front().map(kind_of) else { return };
        let count_max = if kind == GroupType::Classic { 1 } else { TOGETHER_MAX };
        let mut together = Vec::new();
        while together.len() < count_max
            && let Some(next) = queue.pop_front_if(|next| kind_of(next) == kind)
        {
            together.push(next);
        }
        if queue.is_empty() {
            self.waiting.remove(group);
        }
        match kind {
            GroupType::Consumer => self.work_on_together(turn, group, together),
            GroupType::Streams => self.work_on_streams(turn, group, together),
            GroupType::Classic => {
                let requests = together.into_iter().filter_map(Waiting::into_request);
                requests.for_each(|(_, request)| self.classic_request(turn, request));
            }
        }
    }

    fn work_on_together(&mut self, turn: &mut Turn, group: &GroupId, together: Vec<Waiting>) {
        let is_known = self.has_group(group);
        let growth = if is_known { Growth::OfGroup } else { Growth::New };
        let draft = match self.draft(turn, group) {
            Ok(draft) => draft,
            Err(refusal) => {
                for (token, _) in together.into_iter().filter_map(Waiting::into_request) {
                    turn.reply(token, refused(refusal.clone()));
                }
                return;
            }
        };
        let mut work = Work::new(draft, turn, growth);
        let mut together = VecDeque::from(together);
        while !work.draft.is_classic()
            && let Some(next) = together.pop_front()
        {
            match next {
                Waiting::Timer(timer) => work.draft.time_is_over(turn, &timer),
                Waiting::Refresh => work.draft.refresh(turn),
                Waiting::Request(request) => {
                    let reply = work.judge(turn, &request);
                    work.replies.push((request.token, reply));
                }
            }
            work.draft.keep();
        }
        // What is left is for the classic group that it is now.
        let queue = self.waiting.entry(group.clone()).or_default();
        together.into_iter().rev().for_each(|left| queue.push_front(left));
        if queue.is_empty() {
            self.waiting.remove(group);
        }
        self.finish_work(turn, group, work);
    }

    /// Sends the records to the log, and the replies when they are there.
    pub(crate) fn finish_work<G: Drafted>(
        &mut self,
        turn: &mut Turn,
        group: &GroupId,
        work: Work<G>,
    ) {
        let Work { draft, replies, held, .. } = work;
        let conversion = draft.conversion();
        let records = draft.into_records();
        if records.is_empty() {
            replies.into_iter().for_each(|(token, reply)| turn.reply(token, reply));
            return;
        }
        if conversion.is_some() {
            self.begin_conversion(turn, group);
        }
        let then = Then::ConsumersStored { group: group.clone(), replies, conversion };
        turn.append_held(records, then, held);
    }

    /// The group as the log knows it, or a new one in its place.
    fn draft(&mut self, turn: &mut Turn, id: &GroupId) -> Result<Draft, Refusal> {
        match self.consumer(id) {
            Some(group) => Ok(Draft::new(id.clone(), group.clone())),
            None => self.draft_in_place_of_classic(turn, id),
        }
    }

    /// What members of a consumer group were told is durable, or could not be made so.
    pub(crate) fn consumers_stored(
        &mut self,
        turn: &mut Turn,
        group: &GroupId,
        replies: Replies,
        conversion: Option<Conversion>,
        outcome: Result<(), ErrorCode>,
    ) {
        for (token, reply) in replies {
            match outcome {
                Ok(()) => turn.reply(token, reply),
                Err(code) => turn.reply(token, reply.failed(code)),
            }
        }
        // After a failure, timers that have run out did nothing: they go on.
        if outcome.is_err() || conversion == Some(Conversion::Upgrade) {
            self.start_consumer_timers(turn, group);
            self.start_streams_timers(turn, group);
        }
        if let (Err(_), Some(streams)) = (outcome, self.streams(group)) {
            Draft::new(group.clone(), streams.clone()).try_again_later(turn);
        }
        if let (Err(_), Some(consumer)) = (outcome, self.consumer(group)) {
            Draft::new(group.clone(), consumer.clone()).try_again_later(turn);
        }
        if conversion.is_some() {
            self.end_conversion(turn, group, outcome.is_ok());
        }
    }

    /// Waits for signs of life of all members, as far as that is not done.
    pub(crate) fn start_consumer_timers(&mut self, turn: &mut Turn, id: &GroupId) {
        let Some(group) = self.consumer(id) else { return };
        let draft = Draft::new(id.clone(), group.clone());
        draft.start_timers(turn);
    }

    /// The cluster has changed: groups that read one of the topics, or all groups, look whether there is something new to
    /// assign.
    pub(crate) fn refresh_consumers(
        &mut self,
        turn: &mut Turn,
        reads_changed: impl Fn(&ConsumerGroup) -> bool,
    ) {
        for id in self.consumer_groups(reads_changed) {
            self.refresh(turn, &id);
        }
    }

    /// The same for one group.
    pub(crate) fn refresh(&mut self, turn: &mut Turn, id: &GroupId) {
        let waiting = self.waiting.get(id).into_iter().flatten();
        // What it will see then is what there is then.
        if !waiting.into_iter().any(|work| matches!(work, Waiting::Refresh)) {
            self.work_on_consumers(turn, id, Waiting::Refresh);
        }
    }
}

impl Waiting {
    /// The protocol of a request.
    fn kind(&self) -> Option<GroupType> {
        match self {
            Waiting::Request(request) => Some(match request.body {
                RequestBody::ConsumerGroupHeartbeat { .. } => GroupType::Consumer,
                RequestBody::StreamsGroupHeartbeat(_) => GroupType::Streams,
                _ => GroupType::Classic,
            }),
            Waiting::Timer(_) | Waiting::Refresh => None,
        }
    }

    /// The token of a request and the request.
    pub(crate) fn into_request(self) -> Option<(RequestToken, Request)> {
        match self {
            Waiting::Request(request) => Some((request.token, *request)),
            Waiting::Timer(_) | Waiting::Refresh => None,
        }
    }
}

/// A draft, with what is told when its records are durable.
pub(crate) struct Work<G = ConsumerGroup> {
    pub(crate) draft: Draft<G>,
    pub(crate) replies: Replies,
    /// What the records will make the group take.
    held: HeldMemory,
    growth: Growth,
}

/// Whether somebody was refused because there is no memory, and not for what it is or says.
pub(crate) fn is_for_room(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::GroupMaxSizeReached | ErrorCode::CoordinatorLoadInProgress)
}

/// The refusal of somebody who is a member already. Clients give up when they are told that a group is full: its partitions would
/// go to the others, for which there is no more room. So it asks again later.
pub(crate) fn of_member(refusal: Refusal) -> Refusal {
    match refusal.code {
        ErrorCode::GroupMaxSizeReached => {
            Refusal { code: ErrorCode::CoordinatorLoadInProgress, ..refusal }
        }
        _ => refusal,
    }
}

impl<G: Drafted> Work<G> {
    pub(crate) fn new(draft: Draft<G>, turn: &Turn, growth: Growth) -> Work<G> {
        Work { draft, replies: Replies::new(), held: turn.memory.hold(0), growth }
    }

    /// Takes memory for a reply until the records are durable, if there is room.
    pub(crate) fn hold(&mut self, bytes: usize) -> bool {
        self.held.try_grow(bytes, self.growth)
    }

    /// Works on a request in the draft. If it is refused, also for want of memory, draft and timers stay as they were.
    pub(crate) fn attempt<T>(
        &mut self,
        turn: &mut Turn,
        request: impl FnOnce(&mut Draft<G>, &mut Turn) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        turn.timers.mark();
        let said = request(&mut self.draft, turn)
            .and_then(|answer| self.check_memory(turn).map(|()| answer));
        match said.is_ok() {
            true => turn.timers.keep(),
            false => {
                self.draft.take_back();
                turn.timers.take_back();
            }
        }
        said
    }

    /// Takes memory for what the present request makes the group larger.
    fn check_memory(&mut self, turn: &Turn) -> Result<(), Refusal> {
        let grown = self.draft.growth_bytes();
        let bytes_max = turn.settings.group_bytes_max;
        if grown > 0 && self.draft.held_bytes() > bytes_max {
            let message = format!("The {} would take more than {bytes_max} bytes.", G::KIND);
            return Err(Refusal::new(ErrorCode::GroupMaxSizeReached, message));
        }
        match self.held.try_grow(grown, self.growth) {
            true => Ok(()),
            false => Err(ErrorCode::CoordinatorLoadInProgress.into()),
        }
    }
}

impl Work {
    /// Works on a request. The draft stays as it was if the request is refused.
    fn judge(&mut self, turn: &mut Turn, request: &Request) -> Reply {
        let RequestBody::ConsumerGroupHeartbeat { request: asked, fresh_id, sight } = &request.body
        else {
            unreachable!("classic requests are worked on elsewhere")
        };
        let client = &request.client;
        let heartbeat = Heartbeat { request: asked, client, fresh_id: *fresh_id, sight };
        let said = self.attempt(turn, |draft, turn| {
            check_group(draft, asked)?;
            match asked.member_epoch {
                ..0 => draft.leave(turn, asked),
                0.. => draft.heartbeat(turn, &heartbeat),
            }
        });
        match said {
            Ok(response) => Reply::ConsumerGroupHeartbeat(response),
            Err(refusal) => {
                let id = self.draft.member_id(&asked.member_id);
                if is_for_room(refusal.code) {
                    self.free_given_up(turn, &id, asked.topic_partitions.as_deref());
                }
                refused(self.told(turn, &id, refusal))
            }
        }
    }

    /// There was no room for what a member asked, or is to get. What it has given up is for others all the same, and it is not
    /// late.
    fn free_given_up(&mut self, turn: &mut Turn, id: &MemberId, reported: Option<&[Reported]>) {
        let Some(member) = self.draft.member(id.as_str()) else { return };
        if is_revoking(&member.current) && !has_any(reported, &member.current.revoking) {
            // If there is no room for that, either, its time goes on.
            _ = self.attempt(turn, |draft, turn| draft.reconcile(turn, id, false, reported, false));
        }
    }

    /// What somebody is told whose request was refused. A member lives on, though there is no room for what it asks.
    pub(super) fn told(&self, turn: &mut Turn, id: &MemberId, refusal: Refusal) -> Refusal {
        if !is_for_room(refusal.code) || self.draft.member(id.as_str()).is_none() {
            return refusal;
        }
        self.draft.reset_session(turn, id);
        of_member(refusal)
    }
}

/// Only who joins can do so in a group that there is not.
fn check_group(draft: &Draft, request: &ConsumerGroupHeartbeatRequest) -> Result<(), Refusal> {
    let is_joining = GroupEpoch(request.member_epoch) == GroupEpoch::JOINING;
    if is_joining || draft.has_version() && draft.conversion().is_none() {
        return Ok(());
    }
    let message = match request.member_epoch {
        ..0 => format!("Group {} not found.", draft.id),
        0.. => format!("Consumer group {} not found.", draft.id),
    };
    Err(Refusal::new(ErrorCode::GroupIdNotFound, message))
}
