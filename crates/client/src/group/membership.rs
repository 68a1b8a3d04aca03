//! Joining a group, again and again, and leaving it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use logway_model::{ErrorCode, TopicName, TopicPartition};
use logway_wire::messages::join_group_request::JoinGroupRequestProtocol;
use logway_wire::messages::leave_group_request::MemberIdentity;
use logway_wire::messages::sync_group_request::SyncGroupRequestAssignment;
use logway_wire::messages::{
    HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, SyncGroupRequest,
};
use logway_wire::{Request, WireString};

use super::assignor::Assignor;
use super::consumer_protocol::{
    CONSUMER_PROTOCOL, decode_assignment, decode_subscription, encode_assignment,
    encode_subscription,
};
use super::offsets::Committer;
use crate::error::{check, error_code};
use crate::{Client, ClientError, ClusterMetadata, MissingTopic, TopicSelection};

/// The first version of LeaveGroup in which several members can leave (KIP-345).
const LEAVE_FIRST_WITH_MEMBERS: i16 = 3;

/// The times that a member and its coordinator go by.
#[derive(Debug, Clone, Copy)]
pub(super) struct MemberTimes {
    /// After so long without a heartbeat the coordinator takes the member for dead.
    pub(super) session_timeout: Duration,
    /// How long the coordinator waits for members to join again.
    pub(super) rebalance_timeout: Duration,
    /// How long to try to join while no coordinator can be asked.
    pub(super) patience: Duration,
}

/// A member as its coordinator knows it: who it is and which generation it belongs to.
///
/// Owned by one [`super::GroupConsumer`]; its heartbeats have a copy for as long as a generation
/// lasts.
#[derive(Debug, Clone)]
pub(super) struct Membership {
    client: Client,
    group: String,
    topics: BTreeSet<TopicName>,
    times: MemberTimes,
    /// Empty until the coordinator has given one.
    member_id: WireString,
    generation: i32,
}

/// A generation that the member belongs to.
#[derive(Debug, Clone)]
pub(super) struct Joined {
    /// What it is to read.
    pub(super) partitions: BTreeSet<TopicPartition>,
    /// How many partitions each topic had when they were assigned, if this member did it.
    pub(super) led: Option<BTreeMap<TopicName, usize>>,
}

impl Membership {
    /// Whoever wants to become a member. `client` is for this group alone: to join takes long, and
    /// what is behind it on the same connection waits.
    pub(super) fn new(
        client: Client,
        group: String,
        topics: BTreeSet<TopicName>,
        times: MemberTimes,
    ) -> Membership {
        let (member_id, generation) = (WireString::from_static(""), -1);
        Membership { client, group, topics, times, member_id, generation }
    }

    /// The connection to the cluster.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// The group's name.
    pub(super) fn group(&self) -> &str {
        &self.group
    }

    /// As whom this member commits.
    pub(super) fn committer(&self) -> Committer {
        Committer { generation: self.generation, member_id: self.member_id.clone() }
    }

    /// Forgets who it was: the coordinator does not know it any more.
    pub(super) fn forget(&mut self) {
        (self.member_id, self.generation) = (WireString::from_static(""), -1);
    }

    /// Joins the group's next generation, and waits for what is assigned to this member.
    ///
    /// # Errors
    ///
    /// What another attempt will not change, such as a group of members with other assignors; or
    /// what has kept it from asking a coordinator for longer than its patience.
    pub(super) async fn join(&mut self) -> Result<Joined, ClientError> {
        let mut backoff = self.client.backoff_within(self.times.patience);
        loop {
            let error = match self.join_once().await {
                Ok(joined) => return Ok(joined),
                Err(error) => error,
            };
            match error.code() {
                // The id to join with has come with the refusal (KIP-394).
                Some(ErrorCode::MemberIdRequired) => continue,
                // Another member has come or gone meanwhile: all join again.
                Some(ErrorCode::RebalanceInProgress) => {
                    backoff = self.client.backoff_within(self.times.patience);
                }
                Some(ErrorCode::UnknownMemberId | ErrorCode::IllegalGeneration) => self.forget(),
                _ if error.is_retriable() => {}
                _ => return Err(error),
            }
            if !backoff.pause(&error).await {
                return Err(error);
            }
        }
    }

    async fn join_once(&mut self) -> Result<Joined, ClientError> {
        let protocol = |assignor: Assignor| JoinGroupRequestProtocol {
            name: WireString::from_static(assignor.name()),
            metadata: encode_subscription(&self.topics),
            ..JoinGroupRequestProtocol::default()
        };
        let request = JoinGroupRequest {
            group_id: WireString::copy_of(&self.group),
            session_timeout_ms: wire_ms(self.times.session_timeout),
            rebalance_timeout_ms: wire_ms(self.times.rebalance_timeout),
            member_id: self.member_id.clone(),
            protocol_type: WireString::from_static(CONSUMER_PROTOCOL),
            protocols: Assignor::ALL.map(protocol).into(),
            ..JoinGroupRequest::default()
        };
        let response = self.ask(&request).await?;
        let joined = check(|| format!("join group '{}'", self.group), response.error_code, None);
        if matches!(error_code(response.error_code), ErrorCode::None | ErrorCode::MemberIdRequired)
        {
            self.member_id = response.member_id.clone();
            self.generation = response.generation_id;
        }
        joined?;
        let is_leader = response.leader == response.member_id;
        let metadata = match is_leader {
            true => Some(self.topics_of_all(&response).await?),
            false => None,
        };
        let led = metadata.as_deref().map(partition_counts);
        let assignments = match &led {
            Some(counts) if !response.skip_assignment => self.assign(&response, counts)?,
            _ => Vec::new(),
        };
        let partitions = self.sync(response.protocol_name, assignments).await?;
        Ok(Joined { partitions, led })
    }

    /// Hands in what this member has assigned, if it leads the group, and gets its own share.
    async fn sync(
        &self,
        protocol_name: Option<WireString>,
        assignments: Vec<SyncGroupRequestAssignment>,
    ) -> Result<BTreeSet<TopicPartition>, ClientError> {
        let request = SyncGroupRequest {
            group_id: WireString::copy_of(&self.group),
            generation_id: self.generation,
            member_id: self.member_id.clone(),
            protocol_type: Some(WireString::from_static(CONSUMER_PROTOCOL)),
            protocol_name,
            assignments,
            ..SyncGroupRequest::default()
        };
        let response = self.ask(&request).await?;
        let what = || format!("learn what to read as a member of group '{}'", self.group);
        check(what, response.error_code, None)?;
        // A leader may write nothing for a member that gets nothing.
        match response.assignment.is_empty() {
            true => Ok(BTreeSet::new()),
            false => decode_assignment(response.assignment)
                .ok_or_else(|| self.unreadable("an assignment that cannot be read")),
        }
    }

    /// Works out who reads what.
    fn assign(
        &self,
        response: &JoinGroupResponse,
        counts: &BTreeMap<TopicName, usize>,
    ) -> Result<Vec<SyncGroupRequestAssignment>, ClientError> {
        let name = response.protocol_name.as_deref().unwrap_or_default();
        let assignor = Assignor::named(name)
            .ok_or_else(|| self.unreadable("an assignor that this member did not offer"))?;
        let assigned = assignor.assign(&subscriptions(response), counts);
        let wire = |(member, partitions): (String, _)| SyncGroupRequestAssignment {
            member_id: member.into(),
            assignment: encode_assignment(&partitions),
            ..SyncGroupRequestAssignment::default()
        };
        Ok(assigned.into_iter().map(wire).collect())
    }

    /// What the topics are that any member wants.
    async fn topics_of_all(
        &self,
        response: &JoinGroupResponse,
    ) -> Result<Arc<ClusterMetadata>, ClientError> {
        let wanted = subscriptions(response).into_values().flatten().collect();
        let selection = TopicSelection::Named(&wanted);
        self.client.refresh_metadata(selection, MissingTopic::Refuse).await
    }

    /// How many partitions the wanted topics have by now.
    pub(super) async fn count_partitions(
        &self,
        topics: &BTreeSet<TopicName>,
    ) -> Result<BTreeMap<TopicName, usize>, ClientError> {
        let selection = TopicSelection::Named(topics);
        let metadata = self.client.refresh_metadata(selection, MissingTopic::Refuse).await?;
        Ok(partition_counts(&metadata))
    }

    /// Says that this member is alive.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::RebalanceInProgress`] when it is to join again, and
    /// [`ErrorCode::UnknownMemberId`] or [`ErrorCode::IllegalGeneration`] when it is no member any
    /// more.
    pub(super) async fn heartbeat(&self) -> Result<(), ClientError> {
        let request = HeartbeatRequest {
            group_id: WireString::copy_of(&self.group),
            generation_id: self.generation,
            member_id: self.member_id.clone(),
            ..HeartbeatRequest::default()
        };
        let coordinator = self.client.find_coordinator(&self.group).await?;
        let connection = self.client.connect(&coordinator.address).await?;
        let response = connection.call(&request).await?;
        check(|| format!("stay in group '{}'", self.group), response.error_code, None)
    }

    /// Tells the coordinator, so that the other members need not wait until it notices. Who has
    /// not joined need not leave.
    pub(super) async fn leave(&mut self) -> Result<(), ClientError> {
        if self.member_id.is_empty() {
            return Ok(());
        }
        // On the connection that is there a request to join may be waiting still.
        let client = self.client.fork();
        let coordinator = client.find_coordinator(&self.group).await?;
        let connection = client.connect(&coordinator.address).await?;
        let version = connection.version_for::<LeaveGroupRequest>(i16::MAX)?;
        let group_id = WireString::copy_of(&self.group);
        let mut request = LeaveGroupRequest { group_id, ..LeaveGroupRequest::default() };
        let member_id = self.member_id.clone();
        match version >= LEAVE_FIRST_WITH_MEMBERS {
            true => request.members.push(MemberIdentity { member_id, ..Default::default() }),
            false => request.member_id = member_id,
        }
        self.forget();
        let response = connection.send(&request, version).await?.response().await?;
        check(|| format!("leave group '{}'", self.group), response.error_code, None)
    }

    /// Asks the coordinator what may take until all members have joined.
    async fn ask<R: Request>(&self, request: &R) -> Result<R::Response, ClientError> {
        let coordinator = self.client.find_coordinator(&self.group).await?;
        let connection = self.client.connect(&coordinator.address).await?;
        let version = connection.version_for::<R>(i16::MAX)?;
        let pending = connection.send(request, version).await?;
        pending.with_extra_patience(self.times.rebalance_timeout).response().await
    }

    fn unreadable(&self, problem: &str) -> ClientError {
        ClientError::BadGroup { group: self.group.clone(), problem: problem.to_owned() }
    }
}

/// What each member wants; nothing if it says so in a way that we do not understand.
fn subscriptions(response: &JoinGroupResponse) -> BTreeMap<String, BTreeSet<TopicName>> {
    let topics = |metadata: &Bytes| decode_subscription(metadata.clone()).unwrap_or_default();
    let members = response.members.iter();
    members.map(|member| (member.member_id.to_string(), topics(&member.metadata))).collect()
}

fn partition_counts(metadata: &ClusterMetadata) -> BTreeMap<TopicName, usize> {
    let topics = metadata.topics.iter();
    topics.map(|(name, topic)| (name.clone(), topic.partitions.len())).collect()
}

fn wire_ms(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}
