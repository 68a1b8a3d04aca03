//! What clients ask of a shard, and what they are answered.

use logway_model::{ErrorCode, TopicId, Uuid};
use logway_wire::WireString;
use logway_wire::messages::consumer_group_describe_response::DescribedGroup as DescribedConsumerGroup;
use logway_wire::messages::delete_groups_response::DeletableGroupResult;
use logway_wire::messages::describe_groups_response::DescribedGroup;
use logway_wire::messages::offset_fetch_request::OffsetFetchRequestGroup;
use logway_wire::messages::offset_fetch_response::OffsetFetchResponseGroup;
use logway_wire::messages::streams_group_describe_response::DescribedGroup as DescribedStreamsGroup;
use logway_wire::messages::txn_offset_commit_request::TxnOffsetCommitRequestTopic;
use logway_wire::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, HeartbeatRequest,
    HeartbeatResponse, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse,
    ListGroupsRequest, ListGroupsResponse, OffsetCommitRequest, OffsetCommitResponse,
    OffsetDeleteRequest, OffsetDeleteResponse, StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse, SyncGroupRequest, SyncGroupResponse, TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
};

use crate::consumer::{TopicSight, heartbeat_refusal};
use crate::effect::Marker;
use crate::groups::{commit_refusal, leave_refusal, offset_delete_refusal, txn_commit_refusal};
use crate::membership::{join_refusal, sync_refusal};
use crate::streams::{
    ENDPOINT_BYTES, InternalTopic, TOPIC_BYTES, heartbeat_refusal as streams_refusal,
};

/// The driver's name for a request, handed back with its one reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestToken(pub u64);

/// One request, or the part of one that concerns the shard's groups.
#[derive(Debug, Clone)]
pub struct Request<Body = RequestBody> {
    /// Unique among the requests that wait for a reply.
    pub token: RequestToken,
    /// The version of the API: some answers depend on it.
    pub version: i16,
    /// Who asks.
    pub client: Client,
    /// What for.
    pub body: Body,
}

/// Who sends a request.
#[derive(Debug, Clone, Default)]
pub struct Client {
    /// `client.id` as in the request's header; empty for none.
    pub id: WireString,
    /// The address, as Kafka writes it: `/127.0.0.1`.
    pub host: WireString,
}

/// The requests that a shard answers.
#[derive(Debug, Clone)]
pub enum RequestBody {
    /// Become or stay a member. The reply waits until the group has gathered.
    JoinGroup {
        /// As received.
        request: JoinGroupRequest,
        /// Random: becomes part of the member's id if it needs one.
        fresh_id: Uuid,
    },
    /// Ask for the assignment, or, from the leader, bring everybody's. The reply waits for the leader's.
    SyncGroup(SyncGroupRequest),
    /// Stay a member.
    Heartbeat(HeartbeatRequest),
    /// End memberships.
    LeaveGroup(LeaveGroupRequest),
    /// Become, stay or cease to be a member of a consumer group (KIP-848).
    ConsumerGroupHeartbeat {
        /// As received.
        request: ConsumerGroupHeartbeatRequest,
        /// Random: becomes the member's id if it has none.
        fresh_id: Uuid,
        /// The topics that the member may know of.
        sight: TopicSight,
    },
    /// Describe those of the shard's groups that are consumer groups.
    ConsumerGroupDescribe {
        /// The names.
        groups: Vec<WireString>,
    },
    /// Become, stay or cease to be a member of a streams group (KIP-1071).
    StreamsGroupHeartbeat(StreamsGroupHeartbeatRequest),
    /// Describe those of the shard's groups that are streams groups.
    StreamsGroupDescribe {
        /// The names.
        groups: Vec<WireString>,
    },
    /// Store offsets. Topics are known by name here: the driver fills in the names of version 10's ids, answers for
    /// ids and topics that do not exist itself, and had better fill in the ids of names as well, so that a topic
    /// made anew is not read from an old topic's offsets. Both come back in the reply.
    OffsetCommit(OffsetCommitRequest),
    /// Read offsets, of one group as version 8 and later ask for them: see [`crate::offset_fetch_groups`]. Names
    /// and ids as for OffsetCommit.
    ///
    /// A commit on its way makes nothing unstable: what it replaces stays true until it is durable.
    OffsetFetch(OffsetFetchRequestGroup),
    /// The same, of offsets that no open transaction may yet replace (KIP-447).
    StableOffsetFetch(OffsetFetchRequestGroup),
    /// Store offsets that count when a transaction is committed.
    TxnOffsetCommit(TxnOffsetCommit),
    /// End the transaction of a producer.
    WriteMarker(Marker),
    /// Forget offsets. Topics that do not exist are the driver's to answer for.
    OffsetDelete(OffsetDeleteRequest),
    /// Describe those of the shard's groups.
    DescribeGroups {
        /// The names.
        groups: Vec<WireString>,
    },
    /// List the shard's groups.
    ListGroups(ListGroupsRequest),
    /// Delete those of the shard's groups.
    DeleteGroups {
        /// The names.
        groups: Vec<WireString>,
    },
}

/// A TxnOffsetCommit whose partition of `__consumer_offsets` is known to be part of the transaction.
#[derive(Debug, Clone)]
pub struct TxnOffsetCommit {
    /// As received.
    pub request: TxnOffsetCommitRequest,
    /// The ids of its topics, in their order; zero for what has none.
    pub topic_ids: Vec<TopicId>,
    /// See [`InTransaction::guard`](crate::InTransaction::guard).
    pub guard: Option<u64>,
}

impl TxnOffsetCommit {
    /// Its topics with their ids.
    pub(crate) fn topics(&self) -> impl Iterator<Item = (TopicId, &TxnOffsetCommitRequestTopic)> {
        let id_of = |index| self.topic_ids.get(index).copied().unwrap_or_default();
        self.request.topics.iter().enumerate().map(move |(index, topic)| (id_of(index), topic))
    }

    /// Whether it names no member, as by producers whose client knows nothing of groups.
    pub(crate) fn is_of_no_member(&self) -> bool {
        let request = &self.request;
        let has_name = !request.member_id.is_empty() || request.group_instance_id.is_some();
        request.generation_id == -1 && !has_name
    }
}

/// The answer to a [`RequestBody`], each to the one of its name.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "each is the answer to the request of its name")]
pub enum Reply {
    JoinGroup(JoinGroupResponse),
    SyncGroup(SyncGroupResponse),
    Heartbeat(HeartbeatResponse),
    LeaveGroup(LeaveGroupResponse),
    ConsumerGroupHeartbeat(ConsumerGroupHeartbeatResponse),
    ConsumerGroupDescribe(Vec<DescribedConsumerGroup>),
    StreamsGroupHeartbeat {
        response: Box<StreamsGroupHeartbeatResponse>,
        /// The topics that the member's application needs for itself, and that there are not: for the front door to make,
        /// in the member's name.
        missing: Vec<InternalTopic>,
    },
    StreamsGroupDescribe(Vec<DescribedStreamsGroup>),
    OffsetCommit(OffsetCommitResponse),
    OffsetFetch(OffsetFetchResponseGroup),
    OffsetDelete(OffsetDeleteResponse),
    DescribeGroups(Vec<DescribedGroup>),
    ListGroups(ListGroupsResponse),
    DeleteGroups(Vec<DeletableGroupResult>),
    TxnOffsetCommit(TxnOffsetCommitResponse),
    WriteMarker(Result<(), ErrorCode>),
}

impl RequestBody {
    /// The group that a request of the classic protocol is about.
    pub(crate) fn member_of(&self) -> Option<&str> {
        match self {
            RequestBody::JoinGroup { request, .. } => Some(&request.group_id),
            RequestBody::SyncGroup(request) => Some(&request.group_id),
            RequestBody::Heartbeat(request) => Some(&request.group_id),
            RequestBody::LeaveGroup(request) => Some(&request.group_id),
            _ => None,
        }
    }

    /// The answer of a shard that cannot serve the request now.
    pub(crate) fn refused(&self, code: ErrorCode) -> Reply {
        let error_code = code.code();
        match self {
            RequestBody::JoinGroup { request, .. } => join_refusal(&request.member_id, code),
            // The rebalance that the member was in is forgotten, so that it has to join again.
            // It would take an error that says to wait for one that it cannot recover from, since
            // nobody ever answered so.
            RequestBody::SyncGroup(_) if code == ErrorCode::CoordinatorLoadInProgress => {
                sync_refusal(ErrorCode::RebalanceInProgress)
            }
            RequestBody::SyncGroup(_) => sync_refusal(code),
            // A member whose heartbeat fails might leave, where it only has to wait.
            RequestBody::Heartbeat(_) if code == ErrorCode::CoordinatorLoadInProgress => {
                Reply::Heartbeat(HeartbeatResponse::default())
            }
            RequestBody::Heartbeat(_) => {
                Reply::Heartbeat(HeartbeatResponse { error_code, ..Default::default() })
            }
            RequestBody::LeaveGroup(_) => leave_refusal(code),
            RequestBody::ConsumerGroupHeartbeat { .. } => heartbeat_refusal(code),
            RequestBody::ConsumerGroupDescribe { groups } => {
                let refused = groups.iter().cloned().map(|group_id| DescribedConsumerGroup {
                    group_id,
                    error_code,
                    ..DescribedConsumerGroup::default()
                });
                Reply::ConsumerGroupDescribe(refused.collect())
            }
            RequestBody::StreamsGroupHeartbeat(_) => streams_refusal(code),
            RequestBody::StreamsGroupDescribe { groups } => {
                let refused = groups.iter().cloned().map(|group_id| DescribedStreamsGroup {
                    group_id,
                    error_code,
                    ..DescribedStreamsGroup::default()
                });
                Reply::StreamsGroupDescribe(refused.collect())
            }
            RequestBody::OffsetCommit(request) => commit_refusal(request, code),
            RequestBody::TxnOffsetCommit(commit) => txn_commit_refusal(&commit.request, code),
            RequestBody::WriteMarker(_) => Reply::WriteMarker(Err(code)),
            RequestBody::OffsetFetch(request) | RequestBody::StableOffsetFetch(request) => {
                let group_id = request.group_id.clone();
                let refused =
                    OffsetFetchResponseGroup { group_id, error_code, ..Default::default() };
                Reply::OffsetFetch(refused)
            }
            RequestBody::OffsetDelete(_) => offset_delete_refusal(code),
            RequestBody::DescribeGroups { groups } => {
                let refused = groups.iter().cloned().map(|group_id| DescribedGroup {
                    group_id,
                    error_code,
                    ..DescribedGroup::default()
                });
                Reply::DescribeGroups(refused.collect())
            }
            RequestBody::ListGroups(_) => {
                Reply::ListGroups(ListGroupsResponse { error_code, ..Default::default() })
            }
            RequestBody::DeleteGroups { groups } => {
                let refused = groups.iter().cloned().map(|group_id| DeletableGroupResult {
                    group_id,
                    error_code,
                    ..DeletableGroupResult::default()
                });
                Reply::DeleteGroups(refused.collect())
            }
        }
    }
}

/// One member in a leader's answer, beside its texts and metadata.
const TOLD_MEMBER_BYTES: usize = 256;

/// One subtopology of a member, and one text, beside its bytes.
const TOLD_TASKS_BYTES: usize = 112;
const TOLD_TEXT_BYTES: usize = 64;

/// A text is in the answer, and again in its encoded form.
pub(crate) const COPIES: usize = 2;

impl Reply {
    /// What an answer that waited for other members, or that tells a member of all of them, takes beside a few hundred
    /// bytes, with its encoded form; 0 for others.
    pub fn waited_bytes(&self) -> usize {
        match self {
            Reply::JoinGroup(response) => {
                let members = response.members.iter().map(|member| {
                    let names = member.member_id.len() + length(&member.group_instance_id);
                    TOLD_MEMBER_BYTES + COPIES * (names + member.metadata.len())
                });
                let protocol = length(&response.protocol_type) + length(&response.protocol_name);
                let names = protocol + response.leader.len() + response.member_id.len();
                COPIES * names + members.sum::<usize>()
            }
            Reply::SyncGroup(response) => {
                let protocol = length(&response.protocol_type) + length(&response.protocol_name);
                COPIES * (protocol + response.assignment.len())
            }
            Reply::StreamsGroupHeartbeat { response, missing } => {
                streams_bytes(response) + missing.iter().map(internal_topic_bytes).sum::<usize>()
            }
            _ => 0,
        }
    }

    /// The same reply when the change that it tells of could not be made durable; errors that it tells stay.
    pub(crate) fn failed(mut self, code: ErrorCode) -> Reply {
        let or_failed = |error_code: &mut i16| {
            if *error_code == 0 {
                *error_code = code.code();
            }
        };
        match &mut self {
            Reply::JoinGroup(response) if response.error_code == 0 => {
                return join_refusal(&response.member_id, code);
            }
            Reply::LeaveGroup(_) => return leave_refusal(code),
            Reply::ConsumerGroupHeartbeat(response) if response.error_code == 0 => {
                return heartbeat_refusal(code);
            }
            Reply::StreamsGroupHeartbeat { response, .. } if response.error_code == 0 => {
                return streams_refusal(code);
            }
            Reply::WriteMarker(outcome) => *outcome = Err(code),
            Reply::TxnOffsetCommit(response) => {
                let topics = response.topics.iter_mut();
                let partitions = topics.flat_map(|topic| &mut topic.partitions);
                partitions.for_each(|partition| or_failed(&mut partition.error_code));
            }
            Reply::OffsetDelete(_) => return offset_delete_refusal(code),
            Reply::OffsetCommit(response) => {
                let topics = response.topics.iter_mut();
                let partitions = topics.flat_map(|topic| &mut topic.partitions);
                partitions.for_each(|partition| or_failed(&mut partition.error_code));
            }
            Reply::DeleteGroups(results) => {
                results.iter_mut().for_each(|result| or_failed(&mut result.error_code));
            }
            // The others tell of no change, or wait elsewhere.
            _ => {}
        }
        self
    }
}

/// What a streams heartbeat tells beside a few hundred bytes.
fn streams_bytes(response: &StreamsGroupHeartbeatResponse) -> usize {
    let statuses = response.status.iter().flatten();
    let statuses = statuses.map(|it| TOLD_TEXT_BYTES + COPIES * it.status_detail.len());
    let numbers_bytes = |partitions: &Vec<i32>| COPIES * partitions.len() * size_of::<i32>();
    let tasks = [&response.active_tasks, &response.standby_tasks, &response.warmup_tasks];
    let tasks = tasks.into_iter().flatten().flatten().map(|of| {
        TOLD_TASKS_BYTES + COPIES * of.subtopology_id.len() + numbers_bytes(&of.partitions)
    });
    let endpoints = response.partitions_by_user_endpoint.iter().flatten().map(|it| {
        let topics = it.active_partitions.iter().chain(&it.standby_partitions);
        let topics =
            topics.map(|of| TOPIC_BYTES + COPIES * of.topic.len() + numbers_bytes(&of.partitions));
        ENDPOINT_BYTES + COPIES * it.user_endpoint.host.len() + topics.sum::<usize>()
    });
    COPIES * response.member_id.len()
        + statuses.sum::<usize>()
        + tasks.sum::<usize>()
        + endpoints.sum::<usize>()
}

/// What asks for a topic takes: it is no part of what is encoded, but the front door makes as much of it again.
fn internal_topic_bytes(topic: &InternalTopic) -> usize {
    let configs = topic.configs.iter();
    let configs = configs.map(|(key, value)| 2 * TOLD_TEXT_BYTES + key.len() + value.len());
    COPIES * (TOLD_TASKS_BYTES + topic.name.len() + configs.sum::<usize>())
}

fn length(text: &Option<WireString>) -> usize {
    text.as_ref().map_or(0, |text| text.len())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use logway_wire::encode_response;
    use logway_wire::messages::join_group_response::JoinGroupResponseMember;
    use logway_wire::messages::streams_group_heartbeat_response::{
        Endpoint, EndpointToPartitions, Status, TaskIds, TopicPartition,
    };

    use super::*;

    /// What an answer may take that is not counted.
    const SMALL_BYTES: usize = 256;

    fn long(length: usize) -> WireString {
        "x".repeat(length).into()
    }

    #[test]
    fn all_that_can_be_long_in_an_answer_that_waited_is_counted() {
        let member = JoinGroupResponseMember {
            member_id: long(20_000),
            group_instance_id: Some(long(10_000)),
            metadata: Bytes::from(vec![0; 50_000]),
            ..Default::default()
        };
        let joined = JoinGroupResponse {
            protocol_type: Some(long(30_000)),
            protocol_name: Some(long(29_000)),
            leader: long(28_000),
            member_id: long(27_000),
            members: vec![member],
            ..Default::default()
        };
        let encoded_bytes = encode_response(1, 7, &joined).expect("encodes").bytes.len();
        let waited_bytes = Reply::JoinGroup(joined).waited_bytes();
        assert!(waited_bytes + SMALL_BYTES >= 2 * encoded_bytes, "{waited_bytes}");

        let synced = SyncGroupResponse {
            protocol_type: Some(long(30_000)),
            protocol_name: Some(long(29_000)),
            assignment: Bytes::from(vec![0; 50_000]),
            ..Default::default()
        };
        let encoded_bytes = encode_response(1, 5, &synced).expect("encodes").bytes.len();
        let waited_bytes = Reply::SyncGroup(synced).waited_bytes();
        assert!(waited_bytes + SMALL_BYTES >= 2 * encoded_bytes, "{waited_bytes}");

        let Reply::JoinGroup(refused) = join_refusal(&long(30_000), ErrorCode::PolicyViolation)
        else {
            panic!("is the answer to a JoinGroup")
        };
        assert!(Reply::JoinGroup(refused).waited_bytes() >= 60_000);
    }

    #[test]
    fn all_that_can_be_long_in_the_answer_to_a_streams_heartbeat_is_counted() {
        let tasks = || {
            let partitions = (0..5_000).collect();
            let subtopology_id = long(10_000);
            Some(vec![TaskIds { subtopology_id, partitions, ..Default::default() }; 3])
        };
        let partitions = (0..5_000).collect();
        let topics = vec![TopicPartition { topic: long(249), partitions, ..Default::default() }; 3];
        let endpoint = EndpointToPartitions {
            user_endpoint: Endpoint { host: long(255), port: 80, ..Default::default() },
            active_partitions: topics.clone(),
            standby_partitions: topics,
            ..Default::default()
        };
        let status = Status { status_detail: long(2_000), ..Default::default() };
        let response = StreamsGroupHeartbeatResponse {
            member_id: long(30_000),
            status: Some(vec![status; 2]),
            active_tasks: tasks(),
            standby_tasks: tasks(),
            warmup_tasks: tasks(),
            partitions_by_user_endpoint: Some(vec![endpoint; 10]),
            ..Default::default()
        };
        let encoded_bytes = encode_response(1, 0, &response).expect("encodes").bytes.len();
        let topic = InternalTopic {
            name: long(249),
            partitions: 1,
            replication_factor: -1,
            configs: vec![(long(1_000), long(1_000))],
        };
        let of = |missing| {
            let response = Box::new(response.clone());
            Reply::StreamsGroupHeartbeat { response, missing }.waited_bytes()
        };
        assert!(of(Vec::new()) + SMALL_BYTES >= 2 * encoded_bytes, "{}", of(Vec::new()));
        assert!(of(vec![topic; 10]) >= of(Vec::new()) + 10 * 2 * 2_249);
    }
}
