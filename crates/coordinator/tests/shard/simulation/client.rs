//! A consumer, with all its bad habits.

use bytes::Bytes;
use logway_coordinator::{Reply, RequestBody, RequestToken};
use logway_model::ErrorCode;
use logway_wire::WireString;
use logway_wire::messages::join_group_request::JoinGroupRequestProtocol;
use logway_wire::messages::leave_group_request::MemberIdentity;
use logway_wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use logway_wire::messages::sync_group_request::SyncGroupRequestAssignment;
use logway_wire::messages::{
    HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, OffsetCommitRequest, SyncGroupRequest,
};

use super::PARTITIONS;
use super::random::Random;
use crate::driver::{Driver, subscription};
use crate::story::error;

const HEARTBEAT_INTERVAL_MS: u64 = 2_000;

/// After so long without an answer a client asks again.
const REQUEST_TIMEOUT_MS: u64 = 40_000;

/// What a client is up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It has to join.
    Outside,
    Joining,
    /// It has joined, and has to ask for its assignment.
    Joined,
    Syncing,
    Member,
    Leaving,
    /// It is dead until it is started again.
    Dead,
}

/// One consumer.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) group: &'static str,
    pub(crate) name: String,
    pub(crate) instance_id: Option<String>,
    pub(crate) member_id: String,
    pub(crate) generation: i32,
    pub(crate) phase: Phase,
    pub(crate) owned: Vec<i32>,
    /// The members to assign to, if it leads.
    members: Vec<String>,
    /// The request that is open, and since when.
    open: Option<(RequestToken, u64)>,
    next_heartbeat_ms: u64,
    stalled_until_ms: u64,
    /// A part of its metadata, which makes a rebalance when it changes.
    userdata: usize,
    join_version: i16,
}

impl Client {
    pub(crate) fn new(group: &'static str, number: usize, random: &mut Random) -> Client {
        let name = format!("{group}-{number}");
        Client {
            group,
            instance_id: random.once_in(3).then(|| format!("static-{name}")),
            name,
            member_id: String::new(),
            generation: -1,
            phase: Phase::Outside,
            owned: Vec::new(),
            members: Vec::new(),
            open: None,
            next_heartbeat_ms: 0,
            stalled_until_ms: 0,
            userdata: 0,
            join_version: [5, 7, 9][random.below(3)],
        }
    }

    pub(crate) fn waits_for(&self, token: RequestToken) -> bool {
        self.open.is_some_and(|(open, _)| open == token)
    }

    pub(crate) fn sent(&mut self, token: RequestToken, now_ms: u64) {
        self.open = Some((token, now_ms));
    }

    /// All that was asked is lost.
    pub(crate) fn lose_connection(&mut self) {
        self.open = None;
        self.phase = match self.phase {
            Phase::Joining | Phase::Leaving => Phase::Outside,
            Phase::Syncing => Phase::Joined,
            other => other,
        };
    }

    /// Nothing is wrong with it any more.
    pub(crate) fn come_back(&mut self) {
        self.stalled_until_ms = 0;
        if self.phase == Phase::Dead {
            self.start();
        }
    }

    fn start(&mut self) {
        self.forget();
        self.open = None;
    }

    fn forget(&mut self) {
        self.member_id.clear();
        self.generation = -1;
        self.owned.clear();
        self.phase = Phase::Outside;
    }

    /// What it sends now, if anything.
    pub(crate) fn act(
        &mut self,
        driver: &mut Driver,
        random: &mut Random,
        is_calm: bool,
    ) -> Option<(i16, RequestBody)> {
        let now_ms = driver.elapsed_ms;
        if !is_calm {
            self.misbehave(now_ms, random);
        }
        if now_ms < self.stalled_until_ms {
            return None;
        }
        if let Some((_, since_ms)) = self.open {
            if now_ms - since_ms < REQUEST_TIMEOUT_MS && (is_calm || !random.once_in(60)) {
                return None;
            }
            self.lose_connection();
        }
        match self.phase {
            Phase::Outside => Some(self.join(driver)),
            Phase::Joined => Some(self.sync(random)),
            Phase::Member if !is_calm && random.once_in(80) => Some(self.leave()),
            Phase::Member if now_ms >= self.next_heartbeat_ms => {
                self.next_heartbeat_ms = now_ms + HEARTBEAT_INTERVAL_MS;
                Some(self.heartbeat())
            }
            Phase::Member if random.once_in(2) => self.commit(is_calm, random),
            Phase::Dead if random.once_in(30) => {
                self.start();
                None
            }
            _ => None,
        }
    }

    fn misbehave(&mut self, now_ms: u64, random: &mut Random) {
        match random.below(400) {
            0 => self.stalled_until_ms = now_ms + 1 + random.below(20_000) as u64,
            1 => self.phase = Phase::Dead,
            2 if self.phase == Phase::Member => {
                self.userdata += 1;
                self.phase = Phase::Outside;
            }
            // A restart: a static member comes back without its id.
            3 => self.start(),
            _ => {}
        }
    }

    fn instance_id(&self) -> Option<WireString> {
        self.instance_id.as_deref().map(WireString::copy_of)
    }

    fn join(&mut self, driver: &mut Driver) -> (i16, RequestBody) {
        self.phase = Phase::Joining;
        let mut metadata = subscription(&["t"]).to_vec();
        metadata.extend_from_slice(&self.userdata.to_be_bytes());
        let protocol = |name: &'static str| JoinGroupRequestProtocol {
            name: name.into(),
            metadata: Bytes::from(metadata.clone()),
            ..Default::default()
        };
        let request = JoinGroupRequest {
            group_id: self.group.into(),
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 30_000,
            member_id: self.member_id.clone().into(),
            group_instance_id: self.instance_id(),
            protocol_type: "consumer".into(),
            protocols: vec![protocol("range"), protocol("roundrobin")],
            ..Default::default()
        };
        let fresh_id = driver.fresh_id();
        (self.join_version, RequestBody::JoinGroup { request, fresh_id })
    }

    /// A leader deals the partitions out, one after the other, and not twice in the same way.
    fn sync(&mut self, random: &mut Random) -> (i16, RequestBody) {
        self.phase = Phase::Syncing;
        let first = random.below(self.members.len());
        let assignments = self.members.iter().enumerate().map(|(place, member_id)| {
            let own = (0..PARTITIONS as u8).filter(|partition| {
                (usize::from(*partition) + first) % self.members.len() == place
            });
            SyncGroupRequestAssignment {
                member_id: WireString::copy_of(member_id),
                assignment: own.collect::<Vec<u8>>().into(),
                ..Default::default()
            }
        });
        let request = SyncGroupRequest {
            group_id: self.group.into(),
            generation_id: self.generation,
            member_id: self.member_id.clone().into(),
            group_instance_id: self.instance_id(),
            assignments: assignments.collect(),
            ..Default::default()
        };
        (5, RequestBody::SyncGroup(request))
    }

    fn heartbeat(&self) -> (i16, RequestBody) {
        let request = HeartbeatRequest {
            group_id: self.group.into(),
            generation_id: self.generation,
            member_id: self.member_id.clone().into(),
            group_instance_id: self.instance_id(),
            ..Default::default()
        };
        (4, RequestBody::Heartbeat(request))
    }

    fn leave(&mut self) -> (i16, RequestBody) {
        self.phase = Phase::Leaving;
        let identity = MemberIdentity {
            member_id: self.member_id.clone().into(),
            group_instance_id: self.instance_id(),
            ..Default::default()
        };
        let request = LeaveGroupRequest {
            group_id: self.group.into(),
            members: vec![identity],
            ..Default::default()
        };
        (5, RequestBody::LeaveGroup(request))
    }

    /// Commits for one of its partitions; sometimes for a generation that is over.
    fn commit(&mut self, is_calm: bool, random: &mut Random) -> Option<(i16, RequestBody)> {
        let partition_index = *self.owned.get(random.below(self.owned.len()))?;
        let is_stale = !is_calm && random.once_in(8);
        let request = OffsetCommitRequest {
            group_id: self.group.into(),
            generation_id_or_member_epoch: self.generation - i32::from(is_stale),
            member_id: self.member_id.clone().into(),
            group_instance_id: self.instance_id(),
            topics: vec![OffsetCommitRequestTopic {
                name: "t".into(),
                partitions: vec![OffsetCommitRequestPartition {
                    partition_index,
                    // Filled in by the model: beyond all that were committed before.
                    committed_offset: 0,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        Some((9, RequestBody::OffsetCommit(request)))
    }

    /// Takes over what it is told.
    pub(crate) fn receive(&mut self, token: RequestToken, reply: Reply, now_ms: u64) {
        if !self.waits_for(token) {
            return;
        }
        self.open = None;
        if self.phase == Phase::Dead {
            return;
        }
        match reply {
            Reply::JoinGroup(response) => match error(response.error_code) {
                ErrorCode::None => {
                    self.member_id = response.member_id.as_str().to_owned();
                    self.generation = response.generation_id;
                    let assigns = !response.skip_assignment;
                    let members = response.members.iter().filter(|_| assigns);
                    self.members =
                        members.map(|member| member.member_id.as_str().to_owned()).collect();
                    self.phase = Phase::Joined;
                }
                ErrorCode::MemberIdRequired => {
                    self.member_id = response.member_id.as_str().to_owned();
                    self.phase = Phase::Outside;
                }
                code => self.fail(code),
            },
            Reply::SyncGroup(response) => match error(response.error_code) {
                ErrorCode::None => {
                    self.owned = response.assignment.iter().map(|byte| i32::from(*byte)).collect();
                    self.phase = Phase::Member;
                    self.next_heartbeat_ms = now_ms + HEARTBEAT_INTERVAL_MS;
                }
                code => self.fail(code),
            },
            Reply::Heartbeat(response) => self.fail(error(response.error_code)),
            Reply::LeaveGroup(_) => self.forget(),
            Reply::OffsetCommit(response) => {
                let code = error(response.topics[0].partitions[0].error_code);
                // It does not know that it sent an old generation.
                if code != ErrorCode::IllegalGeneration {
                    self.fail(code);
                }
            }
            other => panic!("a client does not ask for {other:?}"),
        }
    }

    fn fail(&mut self, code: ErrorCode) {
        match code {
            ErrorCode::None => {}
            ErrorCode::UnknownMemberId | ErrorCode::FencedInstanceId => self.forget(),
            ErrorCode::RebalanceInProgress
            | ErrorCode::IllegalGeneration
            | ErrorCode::CoordinatorNotAvailable
            | ErrorCode::NotCoordinator => {
                if self.phase != Phase::Leaving {
                    self.phase = Phase::Outside;
                }
            }
            other => panic!("{} is told {other}", self.name),
        }
    }
}
