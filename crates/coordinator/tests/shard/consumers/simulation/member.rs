//! A client, as its library behaves: what it is told it takes over, and what it is to give up it stops reading before it
//! says so.

use std::collections::{BTreeMap, BTreeSet};

use logway_coordinator::Partitions;
use logway_model::{ErrorCode, PartitionId, TopicId};
use logway_wire::WireString;
use logway_wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use logway_wire::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use logway_wire::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, OffsetCommitRequest,
};

use super::super::story::reported;
use crate::simulation::random::Random;
use crate::story::error;

/// A partition.
pub(super) type Place = (TopicId, PartitionId);

pub(super) struct Member {
    pub(super) id: String,
    pub(super) instance: Option<String>,
    pub(super) pattern: Option<&'static str>,
    pub(super) assignor: Option<&'static str>,
    topics: Vec<&'static str>,
    pub(super) epoch: i32,
    old_epoch: i32,
    says_old_epoch: bool,
    /// What it reads, and where it is; unknown until it has asked.
    pub(super) positions: BTreeMap<Place, Option<i64>>,
    /// What it was told to read last.
    told: BTreeSet<Place>,
    pub(super) is_alive: bool,
    is_stalled: bool,
    is_waiting: bool,
    /// Grows when it joins: replies of a life before are not its own.
    pub(super) life: u64,
}

impl Member {
    pub(super) fn new(id: String) -> Member {
        Member {
            id,
            instance: None,
            pattern: None,
            assignor: None,
            topics: Vec::new(),
            epoch: 0,
            old_epoch: 0,
            says_old_epoch: false,
            positions: BTreeMap::new(),
            told: BTreeSet::new(),
            is_alive: true,
            is_stalled: false,
            is_waiting: false,
            life: 0,
        }
    }

    pub(super) fn wants(&mut self, topics: &[&'static str]) {
        self.topics = topics.to_vec();
    }

    pub(super) fn reads(&self, topic: &str) -> bool {
        // The worlds' only pattern matches every topic of theirs.
        self.pattern.is_some() || self.topics.contains(&topic)
    }

    /// Whether it believes to be a member.
    pub(super) fn is_in_group(&self) -> bool {
        self.is_alive && self.epoch > 0
    }

    pub(super) fn stall(&mut self) {
        self.is_stalled = true;
    }

    pub(super) fn wake(&mut self) {
        self.is_stalled = false;
        self.is_waiting = false;
        self.says_old_epoch = false;
    }

    pub(super) fn die(&mut self) {
        self.is_alive = false;
        self.positions.clear();
    }

    pub(super) fn say_old_epoch(&mut self) {
        self.says_old_epoch = true;
    }

    pub(super) fn next_heartbeat(&mut self, group: &str) -> Option<ConsumerGroupHeartbeatRequest> {
        if !self.is_alive || self.is_stalled {
            return None;
        }
        let is_joining = self.epoch == 0;
        if is_joining {
            self.life += 1;
            self.positions.clear();
        }
        let epoch = if self.says_old_epoch { self.old_epoch } else { self.epoch };
        if epoch == 0 {
            self.positions.clear();
        }
        let is_joining = epoch == 0;
        self.says_old_epoch = false;
        let mut owned = Partitions::new();
        for (topic, partition) in self.positions.keys().filter(|place| self.told.contains(place)) {
            owned.entry(*topic).or_default().insert(*partition);
        }
        let text = |text: &str| WireString::copy_of(text);
        let topics = self.topics.iter().map(|topic| text(topic)).collect();
        Some(ConsumerGroupHeartbeatRequest {
            group_id: text(group),
            member_id: text(&self.id),
            member_epoch: epoch,
            instance_id: self.instance.as_deref().map(text),
            rebalance_timeout_ms: if is_joining { 20_000 } else { -1 },
            subscribed_topic_names: is_joining.then_some(topics),
            subscribed_topic_regex: self.pattern.filter(|_| is_joining).map(text),
            server_assignor: self.assignor.filter(|_| is_joining).map(text),
            topic_partitions: Some(reported(&owned)),
            ..Default::default()
        })
    }

    pub(super) fn leaving(&mut self, group: &str) -> Option<ConsumerGroupHeartbeatRequest> {
        if !self.is_in_group() || self.is_stalled {
            return None;
        }
        self.is_alive = false;
        self.positions.clear();
        let instance_id = self.instance.as_deref().map(WireString::copy_of);
        Some(ConsumerGroupHeartbeatRequest {
            group_id: WireString::copy_of(group),
            member_id: WireString::copy_of(&self.id),
            member_epoch: if instance_id.is_some() { -2 } else { -1 },
            instance_id,
            ..Default::default()
        })
    }

    pub(super) fn take_reply(
        &mut self,
        life: u64,
        response: &ConsumerGroupHeartbeatResponse,
        keeps_revoked: bool,
    ) {
        if life != self.life || !self.is_alive {
            return;
        }
        match error(response.error_code) {
            ErrorCode::None => {
                if response.member_epoch != self.epoch {
                    self.old_epoch = self.epoch;
                }
                self.epoch = response.member_epoch;
                let Some(assignment) = &response.assignment else { return };
                let assigned = assignment.topic_partitions.iter().flat_map(|topic| {
                    let id = TopicId(topic.topic_id);
                    topic.partitions.iter().map(move |number| (id, PartitionId(*number)))
                });
                let former = std::mem::take(&mut self.positions);
                self.told = assigned.collect();
                let position = |it: &Place| (*it, former.get(it).copied().flatten());
                self.positions = self.told.iter().map(position).collect();
                if keeps_revoked {
                    self.positions.extend(former);
                }
            }
            ErrorCode::FencedMemberEpoch
            | ErrorCode::UnknownMemberId
            | ErrorCode::GroupIdNotFound => {
                self.epoch = 0;
                self.positions.clear();
            }
            // Another has its instance: it ends.
            ErrorCode::FencedInstanceId | ErrorCode::UnreleasedInstanceId => self.die(),
            _ => {}
        }
    }

    pub(super) fn begin_at(&mut self, life: u64, place: Place, offset: i64) {
        if life == self.life
            && let Some(position) = self.positions.get_mut(&place)
        {
            *position = Some(offset);
        }
    }

    pub(super) fn any_position(&mut self, random: &mut Random) -> Option<(Place, Option<i64>)> {
        let number = random.below(self.positions.len());
        self.positions.iter().nth(number).map(|(place, position)| (*place, *position))
    }

    pub(super) fn commit(
        &mut self,
        group: &str,
        topic: &str,
        place: Place,
        offset: i64,
    ) -> OffsetCommitRequest {
        self.positions.insert(place, Some(offset));
        OffsetCommitRequest {
            group_id: WireString::copy_of(group),
            generation_id_or_member_epoch: self.epoch,
            member_id: WireString::copy_of(&self.id),
            topics: vec![OffsetCommitRequestTopic {
                name: WireString::copy_of(topic),
                topic_id: place.0.0,
                partitions: vec![OffsetCommitRequestPartition {
                    partition_index: place.1.0,
                    committed_offset: offset,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        }
    }

    pub(super) fn fetch(&self, group: &str, topic: &str, place: Place) -> OffsetFetchRequestGroup {
        OffsetFetchRequestGroup {
            group_id: WireString::copy_of(group),
            member_id: Some(WireString::copy_of(&self.id)),
            member_epoch: self.epoch,
            topics: Some(vec![OffsetFetchRequestTopics {
                name: WireString::copy_of(topic),
                topic_id: place.0.0,
                partition_indexes: vec![place.1.0],
                ..Default::default()
            }]),
            ..Default::default()
        }
    }
}
