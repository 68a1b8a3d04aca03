//! StreamsGroupHeartbeat of a member that joins or stays.

use std::sync::Arc;

use logway_model::ErrorCode;
use logway_wire::WireString;
use logway_wire::messages::streams_group_heartbeat_response::{Status, TaskIds};
use logway_wire::messages::{StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse};
use tracing::info;

use crate::consumer::{Draft, GroupEpoch, MemberState, Refusal};
use crate::ids::{MEMBER_ID_COPIES, MemberId};
use crate::request::{Client, Reply};
use crate::timers::Timer;
use crate::turn::Turn;

use super::check::{invalid, said};
use super::configured::{InternalTopic, StatusCode, status};
use super::group::StreamsGroup;
use super::member::{CurrentTasks, Endpoint, Member, StreamsMember};
use super::reconcile::Step;
use super::record::StreamsRecord;
use super::tasks::{SaidTasks, Tasks};
use super::topology::Topology;

/// What a member is answered, and the internal topics that its application misses.
pub(super) type Answer = (StreamsGroupHeartbeatResponse, Vec<InternalTopic>);

/// The answer to a heartbeat that is refused.
pub(crate) fn refusal(code: ErrorCode) -> Reply {
    refused(Refusal::from(code))
}

pub(super) fn refused(refusal: Refusal) -> Reply {
    let response = StreamsGroupHeartbeatResponse {
        error_code: refusal.code.code(),
        error_message: refusal.message.map(Into::into),
        ..StreamsGroupHeartbeatResponse::default()
    };
    Reply::StreamsGroupHeartbeat { response: Box::new(response), missing: Vec::new() }
}

impl Draft<StreamsGroup> {
    /// A member joins or stays.
    pub(super) fn heartbeat(
        &mut self,
        turn: &mut Turn,
        client: &Client,
        request: &StreamsGroupHeartbeatRequest,
    ) -> Result<Answer, Refusal> {
        let id = self.member_id(&request.member_id);
        let was_empty = self.is_empty();
        let former = self.find_member(&id, request)?;
        self.check_room(turn, &id)?;
        let is_changed = self.update_member(turn, &id, &former, client, request)?;
        let is_new = self.update_topology(turn, request)?;
        // Who joins, and who waits for topics, is told of what is missing.
        let looks_at_topics = is_changed || is_new || !self.is_ready() || request.member_epoch == 0;
        // Who runs another topology may not know of these.
        let (mut told, missing) = match looks_at_topics && self.runs_topology(&id) {
            true => self.look_at_topics(turn, &id)?,
            false => (Vec::new(), Vec::new()),
        };
        if let Some(said) = said(request).filter(|said| !said.is_empty()) {
            self.check_tasks(turn, &said)?;
        }
        match is_changed || is_new {
            true => self.bump_epoch(turn),
            false if looks_at_topics || self.are_settings_changed(turn) => {
                self.bump_if_changed(turn)
            }
            false => {}
        }
        if was_empty {
            self.await_more_members(turn);
        }
        told.splice(0..0, self.stale_status(&id));
        told.extend(self.assign(turn));
        self.reconcile(turn, &id, said(request), true)?;
        self.reset_session(turn, &id);
        if request.shutdown_application {
            info!(group = %self.id, member = %id, "asks for the end of the application");
            self.note(|group| group.ask_shutdown(&id));
        }
        told.extend(self.shutdown_status());
        Ok((self.answer(turn, &id, &former.current, request, told), missing))
    }

    fn check_room(&self, turn: &Turn, id: &MemberId) -> Result<(), Refusal> {
        let size_max = turn.settings.streams.size_max;
        if self.member_count() < size_max || self.member(id.as_str()).is_some() {
            return Ok(());
        }
        let message =
            format!("The streams group has reached its maximum capacity of {size_max} members.");
        Err(Refusal::new(ErrorCode::GroupMaxSizeReached, message))
    }

    /// The member of a request, as it was, or as it is when it joins.
    fn find_member(
        &self,
        id: &MemberId,
        request: &StreamsGroupHeartbeatRequest,
    ) -> Result<Member, Refusal> {
        match self.member(id.as_str()).cloned() {
            Some(member) => check_epoch(&member.current, request).map(|()| member),
            None if GroupEpoch(request.member_epoch) == GroupEpoch::JOINING => {
                Ok(Member::default())
            }
            None => Err(self.unknown_member(id)),
        }
    }

    pub(super) fn unknown_member(&self, id: &MemberId) -> Refusal {
        let message = format!("Member {id} is not a member of group {}.", self.id);
        Refusal::new(ErrorCode::UnknownMemberId, message)
    }

    /// Writes down who a member is; whether that is something new.
    fn update_member(
        &mut self,
        turn: &Turn,
        id: &MemberId,
        former: &Member,
        client: &Client,
        request: &StreamsGroupHeartbeatRequest,
    ) -> Result<bool, Refusal> {
        let about = updated(&former.about, client, request);
        let bytes_max = turn.settings.member_bytes_max;
        if about.held_bytes() + MEMBER_ID_COPIES * id.as_str().len() > bytes_max {
            let message = format!("What member {id} says takes more than {bytes_max} bytes.");
            return Err(Refusal::new(ErrorCode::PolicyViolation, message));
        }
        if self.member(id.as_str()).is_some() && about == *former.about {
            return Ok(false);
        }
        self.write(StreamsRecord::Member(id.clone(), Some(Arc::new(about))));
        Ok(true)
    }

    /// Takes over the topology of a member that joins, if the group has none; whether it had none.
    fn update_topology(
        &mut self,
        turn: &Turn,
        request: &StreamsGroupHeartbeatRequest,
    ) -> Result<bool, Refusal> {
        let present = self.topology().cloned();
        let Some(asked) = &request.topology else {
            return match present {
                Some(_) => Ok(false),
                // It says what it runs when it joins.
                None => Err(Refusal::new(
                    ErrorCode::FencedMemberEpoch,
                    "The streams group has no topology. The member must rejoin with its own.",
                )),
            };
        };
        let subtopologies_max = turn.settings.streams.subtopologies_max;
        let asked =
            Topology::from_request(asked, subtopologies_max, turn.settings.member_bytes_max)?;
        match present {
            Some(present) if present.epoch() > asked.epoch() => Ok(false),
            Some(present) if *present == asked => Ok(false),
            Some(_) => invalid("Topology updates are not supported yet."),
            None => {
                self.write(StreamsRecord::Topology(Some(Arc::new(asked))));
                Ok(true)
            }
        }
    }

    /// What members are told of the application's topics, and which of them are to be made.
    fn look_at_topics(
        &self,
        turn: &mut Turn,
        id: &MemberId,
    ) -> Result<(Vec<Status>, Vec<InternalTopic>), Refusal> {
        let Some(topology) = self.topology() else { return Ok((Vec::new(), Vec::new())) };
        let seen = topology.configure(turn.view, turn.settings.streams.tasks_max);
        match &seen.configured {
            Ok(configured) => {
                let told = configured.missing_status().into_iter().collect();
                let is_due = !configured.is_ready() && self.may_ask_for_topics(turn, id);
                Ok((told, if is_due { configured.missing.clone() } else { Vec::new() }))
            }
            Err(problem) => Ok((vec![problem.clone().status()?], Vec::new())),
        }
    }

    /// Whether missing topics are to be made now. One member asks for them in the time between two heartbeats: they are
    /// the same for all. Who has asked lets another one ask before it does so again: it may not be allowed to make them.
    fn may_ask_for_topics(&self, turn: &mut Turn, id: &MemberId) -> bool {
        let of_group = Timer::MissingTopics(self.id.clone());
        let of_member = Timer::AskedForTopics(self.id.clone(), id.clone());
        if turn.timers.is_set(&of_group) || turn.timers.is_set(&of_member) {
            return false;
        }
        let overrides = turn.streams_overrides(&self.id);
        let interval_ms = u64::from(turn.settings.streams.heartbeat_interval_ms(&overrides));
        turn.set_timer(of_group, interval_ms);
        if self.member_count() > 1 {
            turn.set_timer(of_member, interval_ms + interval_ms / 2);
        }
        true
    }

    /// A member has only tasks that there are, where it is known which there are.
    fn check_tasks(&self, turn: &Turn, said: &SaidTasks) -> Result<(), Refusal> {
        let topology = self.topology();
        let seen = topology.map(|it| it.configure(turn.view, turn.settings.streams.tasks_max));
        let configured = seen.as_ref().map(|seen| &seen.configured);
        let Some(Ok(configured)) = configured else { return Ok(()) };
        for of in said.all().filter(|_| configured.is_ready()) {
            let id = MemberId::from(&of.subtopology_id);
            let Some(&count) = configured.task_counts.get(of.subtopology_id.as_str()) else {
                return invalid(&format!("Subtopology {id} does not exist in the topology."));
            };
            if let Some(number) = of.partitions.iter().find(|number| !(0..count).contains(*number))
            {
                return invalid(&format!(
                    "Task {number} for subtopology {id} is invalid. Number of tasks for this subtopology: {count}"
                ));
            }
        }
        Ok(())
    }

    fn are_settings_changed(&self, turn: &Turn) -> bool {
        let overrides = turn.streams_overrides(&self.id);
        let replicas = turn.settings.streams.standby_replicas(&overrides);
        self.version().is_some_and(|version| version.standby_replicas != Some(replicas))
    }

    /// The first members of a group wait for others, so that not each of them has all tasks for a moment.
    fn await_more_members(&self, turn: &mut Turn) {
        let delay_ms = turn.settings.streams.initial_delay_ms(&turn.streams_overrides(&self.id));
        let timer = Timer::FirstAssign(self.id.clone());
        if delay_ms > 0 && !turn.timers.is_set(&timer) {
            turn.set_timer(timer, delay_ms.into());
        }
    }

    fn stale_status(&self, id: &MemberId) -> Option<Status> {
        let member = self.member(id.as_str())?.about.topology_epoch;
        let group = self.topology()?.epoch();
        let detail = format!(
            "The member's topology epoch {member} is behind the group's topology epoch {group}."
        );
        (member < group).then(|| status(StatusCode::StaleTopology, detail))
    }

    fn shutdown_status(&self) -> Option<Status> {
        let by = self.shutdown_by()?;
        let detail = format!(
            "Streams group member {by} encountered a fatal error and requested a shutdown for the entire application."
        );
        Some(status(StatusCode::ShutdownApplication, detail))
    }

    /// Takes a member one step towards what it shall have; if it `takes_more`, with what of that is free.
    pub(super) fn reconcile(
        &mut self,
        turn: &mut Turn,
        id: &MemberId,
        said: Option<SaidTasks>,
        takes_more: bool,
    ) -> Result<(), Refusal> {
        let target_epoch = self.assignment_epoch();
        let Some(member) = self.member(id.as_str()).cloned() else { return Ok(()) };
        if member.current.is_reconciled_to(target_epoch) {
            return Ok(());
        }
        let target = self.target(id.as_str()).cloned().unwrap_or_default();
        let process = &*member.about.process_id;
        let is_free = |task: &_, role| takes_more && self.is_free(task, role, id, process);
        let step = Step {
            current: &member.current,
            target_epoch,
            target: &target,
            said,
            is_free: &is_free,
        };
        let next = step.take()?;
        if next == *member.current {
            return Ok(());
        }
        if next.state == MemberState::UnrevokedPartitions {
            self.await_rebalance(turn, id);
        } else {
            turn.timers.clear(Timer::Rebalance(self.id.clone(), id.clone()));
        }
        self.write(StreamsRecord::Current(id.clone(), Some(Arc::new(next))));
        Ok(())
    }

    /// The member has its rebalance timeout to give up what it has to.
    pub(super) fn await_rebalance(&self, turn: &mut Turn, id: &MemberId) {
        let Some(member) = self.member(id.as_str()) else { return };
        let timeout_ms = member.about.rebalance_timeout_ms.max(0).unsigned_abs();
        turn.set_timer(Timer::Rebalance(self.id.clone(), id.clone()), timeout_ms.into());
    }

    /// Waits for the next sign of life.
    pub(super) fn reset_session(&self, turn: &mut Turn, id: &MemberId) {
        let overrides = turn.streams_overrides(&self.id);
        let timeout_ms = turn.settings.streams.session_timeout_ms(&overrides);
        turn.set_timer(Timer::Session(self.id.clone(), id.clone()), timeout_ms.into());
    }

    fn answer(
        &self,
        turn: &Turn,
        id: &MemberId,
        former: &CurrentTasks,
        request: &StreamsGroupHeartbeatRequest,
        told: Vec<Status>,
    ) -> StreamsGroupHeartbeatResponse {
        let current = self.member(id.as_str()).map(|member| &*member.current).unwrap_or(former);
        let overrides = turn.streams_overrides(&self.id);
        let interval_ms = turn.settings.streams.heartbeat_interval_ms(&overrides);
        let tells_tasks = GroupEpoch(request.member_epoch) == GroupEpoch::JOINING
            || current.assigned != former.assigned
            // An answer with its tasks is lost.
            || said(request).is_some_and(|said| !current.assigned.is_all_of(&said));
        let assigned = &current.assigned;
        let is_informed = self.endpoint_epoch() == request.endpoint_information_epoch;
        let endpoints = match !is_informed && self.runs_topology(id) {
            true => self.endpoints(turn.view),
            false => None,
        };
        // Who could not be told keeps its epoch, and asks again.
        let endpoint_epoch = match endpoints {
            Some(_) => self.endpoint_epoch(),
            None => request.endpoint_information_epoch,
        };
        StreamsGroupHeartbeatResponse {
            member_id: id.to_wire(),
            member_epoch: current.epoch.0,
            heartbeat_interval_ms: i32::try_from(interval_ms).unwrap_or(i32::MAX),
            status: Some(told),
            active_tasks: tells_tasks.then(|| {
                let of = assigned.active.iter();
                of.map(|(id, of)| task_ids(id, of.keys().map(|number| number.0).collect()))
                    .collect()
            }),
            standby_tasks: tells_tasks.then(|| all_task_ids(&assigned.standby)),
            warmup_tasks: tells_tasks.then(|| all_task_ids(&assigned.warmup)),
            endpoint_information_epoch: endpoint_epoch,
            partitions_by_user_endpoint: endpoints,
            ..StreamsGroupHeartbeatResponse::default()
        }
    }
}

fn task_ids(subtopology: &str, partitions: Vec<i32>) -> TaskIds {
    TaskIds { subtopology_id: WireString::copy_of(subtopology), partitions, ..TaskIds::default() }
}

fn all_task_ids(tasks: &Tasks) -> Vec<TaskIds> {
    let of = tasks.iter();
    of.map(|(id, of)| task_ids(id, of.iter().map(|number| number.0).collect())).collect()
}

/// Whether a member is where it says.
fn check_epoch(
    current: &CurrentTasks,
    request: &StreamsGroupHeartbeatRequest,
) -> Result<(), Refusal> {
    let (said_epoch, known) = (GroupEpoch(request.member_epoch), current.epoch);
    // Who was fenced begins anew with that, with nothing.
    if said_epoch == GroupEpoch::JOINING || said_epoch == known {
        return Ok(());
    }
    // The reply with the next epoch may have been lost.
    let has_only = said(request).is_some_and(|said| current.assigned.has_all(&said));
    if said_epoch < known && said_epoch == current.previous_epoch && has_only {
        return Ok(());
    }
    let side = if said_epoch > known { "greater" } else { "smaller" };
    Err(Refusal::new(
        ErrorCode::FencedMemberEpoch,
        format!(
            "The streams group member has a {side} member epoch ({said_epoch}) than the one known by the group \
             coordinator ({known}). The member must abandon all its partitions and rejoin."
        ),
    ))
}

/// Who a member is by its request. What it does not say stays as it was.
fn updated(
    former: &StreamsMember,
    client: &Client,
    request: &StreamsGroupHeartbeatRequest,
) -> StreamsMember {
    let mut about = former.clone();
    let shared = |text: &WireString| Arc::<str>::from(text.as_str());
    if let Some(rack) = &request.rack_id {
        about.rack_id = Some(shared(rack));
    }
    if request.rebalance_timeout_ms != -1 {
        about.rebalance_timeout_ms = request.rebalance_timeout_ms;
    }
    if let Some(topology) = &request.topology {
        about.topology_epoch = topology.epoch;
    }
    if let Some(process) = &request.process_id {
        about.process_id = shared(process);
    }
    if let Some(endpoint) = &request.user_endpoint {
        about.endpoint = Some(Endpoint { host: shared(&endpoint.host), port: endpoint.port });
    }
    if let Some(tags) = &request.client_tags {
        about.client_tags = tags.iter().map(|tag| (shared(&tag.key), shared(&tag.value))).collect();
    }
    about.client_id = client.id.as_str().into();
    about.client_host = client.host.as_str().into();
    about
}
