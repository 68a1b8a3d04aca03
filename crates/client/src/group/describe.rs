//! A group and its members.

use std::collections::BTreeSet;

use logway_model::{ErrorCode, GroupType, TopicPartition};
use logway_wire::messages::consumer_group_describe_response::{
    Assignment as ConsumerAssignment, DescribedGroup as ConsumerGroup, Member as ConsumerMember,
};
use logway_wire::messages::describe_groups_response::{
    DescribedGroup as ClassicGroup, DescribedGroupMember as ClassicMember,
};
use logway_wire::messages::streams_group_describe_response::{
    Assignment as StreamsAssignment, DescribedGroup as StreamsGroup, Member as StreamsMember,
    Subtopology as StreamsSubtopology, TaskIds, TopicInfo, Topology,
};
use logway_wire::messages::{
    ConsumerGroupDescribeRequest, DescribeGroupsRequest, StreamsGroupDescribeRequest,
};
use logway_wire::{Request, WireString};

use super::consumer_protocol::{CONSUMER_PROTOCOL, decode_assignment, named};
use crate::coordinator::{AfterBreak, CoordinatorKey};
use crate::error::check;
use crate::{Client, ClientError, Coordinator};

/// The state in which a group's coordinator shows a group that does not exist.
const DEAD: &str = "Dead";

/// How the coordinator calls a member of a consumer group that speaks the protocol of JoinGroup.
const CLASSIC_MEMBER: i8 = 0;

/// What the members of a streams group are.
const STREAMS_PROTOCOL: &str = "streams";

/// A group as its coordinator describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupDescription {
    /// The group's name.
    pub name: String,
    /// Who assigns partitions.
    pub group_type: GroupType,
    /// Kafka's word for the state, such as `Stable` or `Empty`.
    pub state: String,
    /// What the members are, such as `consumer` or `connect`; empty for a group without any.
    pub protocol_type: String,
    /// How partitions are assigned, such as `range`; empty for a group without members.
    pub assignor: String,
    /// The group's coordinator.
    pub coordinator: Coordinator,
    /// How often what the group goes by has changed; `None` for a classic group.
    pub epochs: Option<GroupEpochs>,
    /// What a streams group processes, where a member has said so.
    pub topology: Option<StreamsTopology>,
    /// In the coordinator's order.
    pub members: Vec<GroupMember>,
}

/// The epochs of a group whose coordinator assigns (KIP-848). Where they differ an assignment is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupEpochs {
    /// That of the group: its members, their subscriptions and their topics.
    pub group: i32,
    /// That of the target assignment.
    pub assignment: i32,
}

/// What a stream-processing application consists of (KIP-1071).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamsTopology {
    /// Rises when the application changes.
    pub epoch: i32,
    /// Its parts, whose tasks are assigned.
    pub subtopologies: Vec<Subtopology>,
}

/// A part of an application. It has a task for each partition of its sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subtopology {
    /// Its name, which those of its tasks begin with.
    pub id: String,
    /// Topics that it reads.
    pub source_topics: Vec<String>,
    /// Topics that it reads, and that other parts write.
    pub repartition_source_topics: Vec<String>,
    /// Topics that it writes, and that other parts read.
    pub repartition_sink_topics: Vec<String>,
    /// Topics with the changes of its state.
    pub changelog_topics: Vec<String>,
}

/// A member of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMember {
    /// The id that the coordinator knows it by.
    pub id: String,
    /// The id that it keeps across restarts (KIP-345), if it has one.
    pub instance_id: Option<String>,
    /// What the client calls itself.
    pub client_id: String,
    /// Where it connects from.
    pub host: String,
    /// What it reads; nothing while partitions are being assigned, and for members that are not
    /// consumers.
    pub assignment: BTreeSet<TopicPartition>,
    /// Where it is, if it has said so.
    pub rack: Option<String>,
    /// The assignment epoch that it has come to; `None` in a classic group.
    pub epoch: Option<i32>,
    /// Whether it speaks the protocol of JoinGroup.
    pub is_classic: bool,
    /// The topics that it has named, as a member of a consumer group.
    pub subscribed_topics: Vec<String>,
    /// The regular expression that it has given, as a member of a consumer group.
    pub subscribed_pattern: Option<String>,
    /// What it is to read in the end; `None` in groups that are no consumer groups.
    pub target: Option<BTreeSet<TopicPartition>>,
    /// What it processes, as a member of a streams group.
    pub processing: Option<Processing>,
}

/// What a member of a streams group processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Processing {
    /// The process that it is a thread of.
    pub process_id: String,
    /// The tasks that it has.
    pub tasks: Tasks,
    /// Those that it is to have in the end.
    pub target: Tasks,
}

/// Tasks by the names that Kafka Streams gives them, such as `0_3`: the subtopology and the partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tasks {
    /// Tasks that it runs.
    pub active: Vec<String>,
    /// Tasks whose state it copies.
    pub standby: Vec<String>,
    /// Tasks whose state it catches up with, to run them then.
    pub warmup: Vec<String>,
}

impl Client {
    /// Describes a group of any of these types.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::GroupIdNotFound`] for a group that does not exist, or is of a type that no
    /// consumer joins, such as a share group.
    pub async fn describe_group(&self, group: &str) -> Result<GroupDescription, ClientError> {
        let coordinator = self.find_coordinator(group).await?;
        match self.describe_consumer_group(group, &coordinator).await {
            Err(error) if is_of_other_type(&error) => {}
            described => return described,
        }
        match self.describe_streams_group(group, &coordinator).await {
            Err(error) if is_of_other_type(&error) => {
                self.describe_classic_group(group, coordinator).await
            }
            described => described,
        }
    }

    /// Asks a group's coordinator for what can be asked twice.
    async fn ask_about<R: Request>(
        &self,
        group: &str,
        request: impl Fn(i16) -> R,
        code: impl Fn(&R::Response) -> i16,
    ) -> Result<R::Response, ClientError> {
        let key = CoordinatorKey::Group(group);
        self.call_coordinator(key, i16::MAX, AfterBreak::Repeat, request, code).await
    }

    async fn describe_streams_group(
        &self,
        group: &str,
        coordinator: &Coordinator,
    ) -> Result<GroupDescription, ClientError> {
        let request = |_| StreamsGroupDescribeRequest {
            group_ids: vec![WireString::copy_of(group)],
            ..StreamsGroupDescribeRequest::default()
        };
        let response = self
            .ask_about(group, request, |response| {
                response.groups.first().map_or(0, |group| group.error_code)
            })
            .await?;
        let described = response.groups.into_iter().next().ok_or_else(|| not_found(group))?;
        check(|| what(group), described.error_code, described.error_message.as_ref())?;
        Ok(from_streams_group(described, coordinator.clone()))
    }

    async fn describe_consumer_group(
        &self,
        group: &str,
        coordinator: &Coordinator,
    ) -> Result<GroupDescription, ClientError> {
        let request = |_| ConsumerGroupDescribeRequest {
            group_ids: vec![WireString::copy_of(group)],
            ..ConsumerGroupDescribeRequest::default()
        };
        let response = self
            .ask_about(group, request, |response| {
                response.groups.first().map_or(0, |group| group.error_code)
            })
            .await?;
        let described = response.groups.into_iter().next().ok_or_else(|| not_found(group))?;
        check(|| what(group), described.error_code, described.error_message.as_ref())?;
        Ok(from_consumer_group(described, coordinator.clone()))
    }

    async fn describe_classic_group(
        &self,
        group: &str,
        coordinator: Coordinator,
    ) -> Result<GroupDescription, ClientError> {
        let request = |_| DescribeGroupsRequest {
            groups: vec![WireString::copy_of(group)],
            ..DescribeGroupsRequest::default()
        };
        let response = self
            .ask_about(group, request, |response| {
                response.groups.first().map_or(0, |group| group.error_code)
            })
            .await?;
        let described = response.groups.into_iter().next().ok_or_else(|| not_found(group))?;
        check(|| what(group), described.error_code, described.error_message.as_ref())?;
        // Before version 6 a missing group is not an error but dead.
        match described.group_state == DEAD {
            true => Err(not_found(group)),
            false => Ok(from_classic_group(described, coordinator)),
        }
    }
}

/// Whether the coordinator does not know the type of group, or knows the group as another type.
fn is_of_other_type(error: &ClientError) -> bool {
    let codes = [ErrorCode::GroupIdNotFound, ErrorCode::UnsupportedVersion];
    matches!(error, ClientError::Unsupported { .. })
        || error.code().is_some_and(|code| codes.contains(&code))
}

fn what(group: &str) -> String {
    format!("describe group '{group}'")
}

fn not_found(group: &str) -> ClientError {
    ClientError::Refused { what: what(group), code: ErrorCode::GroupIdNotFound, message: None }
}

fn from_consumer_group(group: ConsumerGroup, coordinator: Coordinator) -> GroupDescription {
    GroupDescription {
        name: group.group_id.into(),
        group_type: GroupType::Consumer,
        state: group.group_state.into(),
        protocol_type: CONSUMER_PROTOCOL.to_owned(),
        assignor: group.assignor_name.into(),
        coordinator,
        epochs: Some(GroupEpochs { group: group.group_epoch, assignment: group.assignment_epoch }),
        topology: None,
        members: group.members.into_iter().map(from_consumer_member).collect(),
    }
}

fn from_consumer_member(member: ConsumerMember) -> GroupMember {
    let partitions = |assignment: ConsumerAssignment| {
        let topics = assignment.topic_partitions.iter();
        topics.flat_map(|topic| named(&topic.topic_name, &topic.partitions)).collect()
    };
    GroupMember {
        id: member.member_id.into(),
        instance_id: member.instance_id.map(String::from),
        client_id: member.client_id.into(),
        host: host(&member.client_host),
        assignment: partitions(member.assignment),
        rack: member.rack_id.map(String::from),
        epoch: Some(member.member_epoch),
        is_classic: member.member_type == CLASSIC_MEMBER,
        subscribed_topics: texts(member.subscribed_topic_names),
        // Coordinators say nothing, or an empty text.
        subscribed_pattern: member
            .subscribed_topic_regex
            .map(String::from)
            .filter(|pattern| !pattern.is_empty()),
        target: Some(partitions(member.target_assignment)),
        processing: None,
    }
}

fn from_streams_group(group: StreamsGroup, coordinator: Coordinator) -> GroupDescription {
    let topology = group.topology;
    let member = |member| from_streams_member(member, topology.as_ref());
    GroupDescription {
        name: group.group_id.into(),
        group_type: GroupType::Streams,
        state: group.group_state.into(),
        protocol_type: STREAMS_PROTOCOL.to_owned(),
        assignor: String::new(),
        coordinator,
        epochs: Some(GroupEpochs { group: group.group_epoch, assignment: group.assignment_epoch }),
        members: group.members.into_iter().map(member).collect(),
        topology: topology.map(|topology| StreamsTopology {
            epoch: topology.epoch,
            subtopologies: topology.subtopologies.into_iter().flatten().map(subtopology).collect(),
        }),
    }
}

/// What a member reads are the partitions of the sources of its active tasks.
fn from_streams_member(member: StreamsMember, topology: Option<&Topology>) -> GroupMember {
    let mut assignment = BTreeSet::new();
    for tasks in &member.assignment.active_tasks {
        let mut all = topology.iter().flat_map(|topology| &topology.subtopologies).flatten();
        let Some(of) = all.find(|of| of.subtopology_id == tasks.subtopology_id) else { continue };
        let repartition = of.repartition_source_topics.iter().map(|topic| &topic.name);
        for topic in of.source_topics.iter().chain(repartition) {
            assignment.extend(named(topic, &tasks.partitions));
        }
    }
    GroupMember {
        id: member.member_id.into(),
        instance_id: member.instance_id.map(String::from),
        client_id: member.client_id.into(),
        host: host(&member.client_host),
        assignment,
        rack: member.rack_id.map(String::from),
        epoch: Some(member.member_epoch),
        is_classic: member.is_classic,
        subscribed_topics: Vec::new(),
        subscribed_pattern: None,
        target: None,
        processing: Some(Processing {
            process_id: member.process_id.into(),
            tasks: tasks(&member.assignment),
            target: tasks(&member.target_assignment),
        }),
    }
}

fn tasks(assignment: &StreamsAssignment) -> Tasks {
    let named = |tasks: &[TaskIds]| {
        let names = tasks.iter().flat_map(|of| {
            of.partitions.iter().map(|partition| format!("{}_{partition}", of.subtopology_id))
        });
        names.collect()
    };
    Tasks {
        active: named(&assignment.active_tasks),
        standby: named(&assignment.standby_tasks),
        warmup: named(&assignment.warmup_tasks),
    }
}

fn subtopology(told: StreamsSubtopology) -> Subtopology {
    let names = |topics: Vec<TopicInfo>| topics.into_iter().map(|it| it.name.into()).collect();
    Subtopology {
        id: told.subtopology_id.into(),
        source_topics: texts(told.source_topics),
        repartition_source_topics: names(told.repartition_source_topics),
        repartition_sink_topics: texts(told.repartition_sink_topics),
        changelog_topics: names(told.state_changelog_topics),
    }
}

fn texts(told: Vec<WireString>) -> Vec<String> {
    told.into_iter().map(String::from).collect()
}

fn from_classic_group(group: ClassicGroup, coordinator: Coordinator) -> GroupDescription {
    let is_consumer = group.protocol_type == CONSUMER_PROTOCOL;
    let member = |member| from_classic_member(member, is_consumer);
    GroupDescription {
        name: group.group_id.into(),
        group_type: GroupType::Classic,
        state: group.group_state.into(),
        protocol_type: group.protocol_type.into(),
        assignor: group.protocol_data.into(),
        coordinator,
        epochs: None,
        topology: None,
        members: group.members.into_iter().map(member).collect(),
    }
}

fn from_classic_member(member: ClassicMember, is_consumer: bool) -> GroupMember {
    let assignment = is_consumer.then(|| decode_assignment(member.member_assignment));
    GroupMember {
        id: member.member_id.into(),
        instance_id: member.group_instance_id.map(String::from),
        client_id: member.client_id.into(),
        host: host(&member.client_host),
        assignment: assignment.flatten().unwrap_or_default(),
        rack: None,
        epoch: None,
        is_classic: true,
        subscribed_topics: Vec::new(),
        subscribed_pattern: None,
        target: None,
        processing: None,
    }
}

/// Kafka writes addresses as Java prints them, with a slash in front.
fn host(host: &str) -> String {
    host.trim_start_matches('/').to_owned()
}
