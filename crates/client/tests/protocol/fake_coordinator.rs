//! A coordinator of one group whose answers a test chooses, and that writes down what it was asked.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use logway_client::Client;
use logway_model::ErrorCode;
use logway_wire::messages::join_group_response::JoinGroupResponseMember;
use logway_wire::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use logway_wire::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use logway_wire::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};
use logway_wire::messages::{
    HeartbeatRequest, HeartbeatResponse, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest,
    LeaveGroupResponse, ListOffsetsRequest, ListOffsetsResponse, OffsetCommitRequest,
    OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse, SyncGroupRequest,
    SyncGroupResponse,
};
use logway_wire::{ApiKey, WireString};

use crate::fake_broker::{Action, Asked, FakeBroker, TOPIC};

/// How many records the topic's partition holds.
const END: i64 = 100;

/// The errors to answer with, one a request, before there are none.
#[derive(Default)]
pub(crate) struct Answers {
    pub(crate) joins: VecDeque<ErrorCode>,
    pub(crate) syncs: VecDeque<ErrorCode>,
    pub(crate) heartbeats: VecDeque<ErrorCode>,
    pub(crate) commits: VecDeque<ErrorCode>,
    /// What the group has committed.
    pub(crate) committed: Option<i64>,
    /// What is noted beside that.
    pub(crate) metadata: &'static str,
}

/// A broker with one topic, that coordinates all groups.
pub(crate) struct FakeCoordinator {
    broker: FakeBroker,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    answers: Answers,
    transcript: Vec<String>,
    look_ups: usize,
    members: u32,
    generation: i32,
    metadata: Vec<String>,
}

impl FakeCoordinator {
    pub(crate) async fn start(answers: Answers) -> FakeCoordinator {
        let state = Arc::new(Mutex::new(State { answers, ..State::default() }));
        let own_state = Arc::clone(&state);
        let broker =
            FakeBroker::start(move |asked| own_state.lock().expect("no panic").answer(asked)).await;
        FakeCoordinator { broker, state }
    }

    pub(crate) fn client(&self) -> Client {
        self.broker.client()
    }

    /// What it was asked, but for what members ask all the time.
    pub(crate) fn transcript(&self) -> Vec<String> {
        self.lock().transcript.clone()
    }

    /// What was noted beside the offsets that were committed.
    pub(crate) fn noted(&self) -> Vec<String> {
        self.lock().metadata.clone()
    }

    /// How often it was asked who coordinates the group.
    pub(crate) fn look_ups(&self) -> usize {
        self.lock().look_ups
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic")
    }
}

impl State {
    fn answer(&mut self, asked: &Asked) -> Action {
        match asked.api_key {
            ApiKey::FindCoordinator => {
                self.look_ups += 1;
                Action::Usual
            }
            ApiKey::JoinGroup => self.join(asked),
            ApiKey::SyncGroup => self.sync(asked),
            ApiKey::Heartbeat => self.heartbeat(asked),
            ApiKey::LeaveGroup => self.leave(asked),
            ApiKey::OffsetFetch => self.fetch_offsets(asked),
            ApiKey::OffsetCommit => self.commit(asked),
            ApiKey::ListOffsets => list_offsets(asked),
            // No records come.
            ApiKey::Fetch => Action::Ignore,
            _ => Action::Usual,
        }
    }

    fn note(&mut self, line: String) {
        self.transcript.push(line);
    }

    fn join(&mut self, asked: &Asked) -> Action {
        let request: JoinGroupRequest = asked.request();
        let code = self.answers.joins.pop_front().unwrap_or(ErrorCode::None);
        self.note(format!("join as '{}': {code}", request.member_id));
        let member_id = match request.member_id.is_empty() {
            true => {
                self.members += u32::from(!code.is_error() || code == ErrorCode::MemberIdRequired);
                WireString::from(format!("member-{}", self.members))
            }
            false => request.member_id,
        };
        if code.is_error() {
            // Only this one comes with an id (KIP-394).
            let is_given = code == ErrorCode::MemberIdRequired;
            let member_id = if is_given { member_id } else { WireString::new() };
            let error_code = code.code();
            return asked.answer(&JoinGroupResponse {
                error_code,
                member_id,
                ..Default::default()
            });
        }
        self.generation += 1;
        let protocol = &request.protocols[0];
        let member = JoinGroupResponseMember {
            member_id: member_id.clone(),
            metadata: protocol.metadata.clone(),
            ..JoinGroupResponseMember::default()
        };
        asked.answer(&JoinGroupResponse {
            generation_id: self.generation,
            protocol_type: Some(request.protocol_type),
            protocol_name: Some(protocol.name.clone()),
            leader: member_id.clone(),
            member_id,
            members: vec![member],
            ..JoinGroupResponse::default()
        })
    }

    fn sync(&mut self, asked: &Asked) -> Action {
        let request: SyncGroupRequest = asked.request();
        let code = self.answers.syncs.pop_front().unwrap_or(ErrorCode::None);
        let (member, generation) = (&request.member_id, request.generation_id);
        self.note(format!("sync as '{member}' in {generation}: {code}"));
        let own = request.assignments.iter().find(|given| given.member_id == request.member_id);
        let assignment = own.map(|own| own.assignment.clone()).unwrap_or_default();
        asked.answer(&SyncGroupResponse {
            error_code: code.code(),
            assignment,
            ..SyncGroupResponse::default()
        })
    }

    /// Heartbeats that go well are not worth a line.
    fn heartbeat(&mut self, asked: &Asked) -> Action {
        let request: HeartbeatRequest = asked.request();
        let code = self.answers.heartbeats.pop_front().unwrap_or(ErrorCode::None);
        if code.is_error() {
            self.note(format!("heartbeat of '{}': {code}", request.member_id));
        }
        asked.answer(&HeartbeatResponse { error_code: code.code(), ..Default::default() })
    }

    fn leave(&mut self, asked: &Asked) -> Action {
        let request: LeaveGroupRequest = asked.request();
        self.note(format!("leave as '{}'", request.members[0].member_id));
        asked.answer(&LeaveGroupResponse::default())
    }

    fn fetch_offsets(&mut self, asked: &Asked) -> Action {
        let request: OffsetFetchRequest = asked.request();
        assert!(request.require_stable, "a member waits for transactions");
        let partition = OffsetFetchResponsePartitions {
            committed_offset: self.answers.committed.unwrap_or(-1),
            metadata: Some(WireString::from_static(self.answers.metadata)),
            ..OffsetFetchResponsePartitions::default()
        };
        let name = WireString::from_static(TOPIC);
        let partitions = vec![partition];
        let topics = vec![OffsetFetchResponseTopics { name, partitions, ..Default::default() }];
        let groups = vec![OffsetFetchResponseGroup { topics, ..Default::default() }];
        asked.answer(&OffsetFetchResponse { groups, ..Default::default() })
    }

    fn commit(&mut self, asked: &Asked) -> Action {
        let request: OffsetCommitRequest = asked.request();
        let code = self.answers.commits.pop_front().unwrap_or(ErrorCode::None);
        let (member, generation) = (&request.member_id, request.generation_id_or_member_epoch);
        let partition = &request.topics[0].partitions[0];
        let offset = partition.committed_offset;
        self.metadata.push(partition.committed_metadata.as_deref().unwrap_or_default().to_owned());
        self.note(format!("commit {offset} as '{member}' in {generation}: {code}"));
        let partition =
            OffsetCommitResponsePartition { error_code: code.code(), ..Default::default() };
        let name = WireString::from_static(TOPIC);
        let partitions = vec![partition];
        let topics = vec![OffsetCommitResponseTopic { name, partitions, ..Default::default() }];
        asked.answer(&OffsetCommitResponse { topics, ..Default::default() })
    }
}

fn list_offsets(asked: &Asked) -> Action {
    let request: ListOffsetsRequest = asked.request();
    // -2 asks for the start.
    let is_start = request.topics[0].partitions[0].timestamp == -2;
    let offset = if is_start { 0 } else { END };
    let partition = ListOffsetsPartitionResponse { offset, ..Default::default() };
    let name = WireString::from_static(TOPIC);
    let topic =
        ListOffsetsTopicResponse { name, partitions: vec![partition], ..Default::default() };
    asked.answer(&ListOffsetsResponse { topics: vec![topic], ..Default::default() })
}
