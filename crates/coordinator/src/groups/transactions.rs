//! TxnOffsetCommit, and the ends of transactions (KIP-98, KIP-447).

use std::collections::BTreeSet;

use logway_model::{ErrorCode, ProducerEpoch, ProducerId, TopicId};
use logway_wire::messages::offset_commit_request::OffsetCommitRequestPartition;
use logway_wire::messages::txn_offset_commit_request::TxnOffsetCommitRequestPartition;
use logway_wire::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use logway_wire::messages::{OffsetCommitRequest, TxnOffsetCommitRequest, TxnOffsetCommitResponse};

use super::Groups;
use super::commit::StagedCommit;
use super::pending::{EndedOffset, pending_bytes};
use crate::effect::{InTransaction, Marker};
use crate::ids::{CommittedTopic, GroupId};
use crate::membership::GroupState;
use crate::memory::Growth;
use crate::outbox::Then;
use crate::record::GroupRecord;
use crate::request::{Reply, RequestToken, TxnOffsetCommit};
use crate::transactions::{Producer, TransactionOutcome};
use crate::turn::Turn;

/// The answer with one error for all partitions.
pub(crate) fn txn_commit_refusal(request: &TxnOffsetCommitRequest, code: ErrorCode) -> Reply {
    let topics = request.topics.iter().map(|topic| TxnOffsetCommitResponseTopic {
        name: topic.name.clone(),
        partitions: topic.partitions.iter().map(|it| told(it.partition_index, code)).collect(),
        ..TxnOffsetCommitResponseTopic::default()
    });
    Reply::TxnOffsetCommit(TxnOffsetCommitResponse {
        topics: topics.collect(),
        ..TxnOffsetCommitResponse::default()
    })
}

fn told(partition_index: i32, code: ErrorCode) -> TxnOffsetCommitResponsePartition {
    TxnOffsetCommitResponsePartition {
        partition_index,
        error_code: code.code(),
        ..TxnOffsetCommitResponsePartition::default()
    }
}

impl Groups {
    /// TxnOffsetCommit: answered when the offsets are durable. They count when their transaction is committed.
    pub(crate) fn commit_in_transaction(
        &mut self,
        turn: &mut Turn,
        token: RequestToken,
        commit: &TxnOffsetCommit,
    ) {
        let request = &commit.request;
        let group_id = GroupId::from(&request.group_id);
        if let Err(code) = self.check_txn_commit(turn, commit) {
            turn.reply(token, txn_commit_refusal(request, code));
            return;
        }
        if let Some(membership) = self.membership_mut(&group_id) {
            membership.note_commit(turn, &request.member_id);
        }
        // A commit that is part of nothing is staged by the same rules.
        let plain = OffsetCommitRequest { retention_time_ms: -1, ..OffsetCommitRequest::default() };
        let mut staged = StagedCommit::new(self, turn, &group_id, &plain);
        let topics = commit.topics().map(|(id, topic)| {
            let name = CommittedTopic::from(&topic.name);
            let partitions = topic.partitions.iter().map(|partition| {
                let added = staged.add_pending(&name, id, &as_asked(partition));
                told(partition.partition_index, added.err().unwrap_or(ErrorCode::None))
            });
            TxnOffsetCommitResponseTopic {
                name: topic.name.clone(),
                partitions: partitions.collect(),
                ..TxnOffsetCommitResponseTopic::default()
            }
        });
        let topics = topics.collect();
        let response = TxnOffsetCommitResponse { topics, ..TxnOffsetCommitResponse::default() };
        let reply = Reply::TxnOffsetCommit(response);
        let StagedCommit { records, held, .. } = staged;
        if records.is_empty() {
            turn.reply(token, reply);
            return;
        }
        let producer = Producer {
            id: ProducerId(request.producer_id),
            epoch: ProducerEpoch(request.producer_epoch),
        };
        let part = InTransaction { producer, guard: commit.guard };
        turn.outbox.append_in_transaction(part, records, Then::Reply(token, reply), held);
    }

    /// Whether the group takes offsets from who sends them, or the error. A consumer of the group may have been replaced
    /// while its producer was not (KIP-447); one that tells of no membership is not asked for it.
    fn check_txn_commit(&self, turn: &Turn, commit: &TxnOffsetCommit) -> Result<(), ErrorCode> {
        let request = &commit.request;
        let (generation, instance_id) =
            (request.generation_id, request.group_instance_id.as_deref());
        let Some(group) = self.by_id.get(request.group_id.as_str()) else {
            return match generation {
                ..0 if self.by_id.len() >= turn.settings.groups_max => {
                    Err(ErrorCode::PolicyViolation)
                }
                ..0 => Ok(()),
                _ => Err(ErrorCode::IllegalGeneration),
            };
        };
        if let Some(consumer) = &group.consumer {
            return consumer.check_txn_commit(commit);
        }
        if let Some(streams) = &group.streams {
            return streams.check_txn_commit(commit);
        }
        let membership = &group.membership;
        let tells_of_none = generation < 0 && request.member_id.is_empty() && instance_id.is_none();
        let is_empty = membership.state() == GroupState::Empty;
        if tells_of_none || generation < 0 && is_empty {
            return Ok(());
        }
        membership.check_generation(&request.member_id, instance_id, generation)
    }

    /// The end of a transaction, told when it is in the log.
    pub(crate) fn end_transaction(&mut self, turn: &mut Turn, token: RequestToken, marker: Marker) {
        turn.outbox.append_marker(marker, Then::Reply(token, Reply::WriteMarker(Ok(()))));
    }

    /// Takes over a record in the log that is part of a transaction.
    pub(crate) fn replay_in_transaction(&mut self, producer: ProducerId, record: &GroupRecord) {
        match record {
            GroupRecord::Offset { group, topic, partition, offset: Some(offset) } => {
                self.get_or_insert(group);
                self.pending.insert(producer, group, topic, *partition, offset);
            }
            // Nobody writes these as part of a transaction.
            other => self.replay(other),
        }
    }

    /// Takes over the end of a transaction; the groups that it concerns.
    pub(crate) fn replay_marker(
        &mut self,
        producer: ProducerId,
        outcome: TransactionOutcome,
    ) -> BTreeSet<GroupId> {
        let mut concerned = BTreeSet::new();
        for ended in self.pending.end(producer, outcome) {
            let EndedOffset { group: id, topic, partition, offset } = ended;
            if let Some(offset) = offset {
                let (group, topics) = self.get_or_insert(&id);
                group.offsets.insert(topics, &topic, partition, &offset);
            }
            concerned.insert(id);
        }
        concerned
    }
}

fn as_asked(partition: &TxnOffsetCommitRequestPartition) -> OffsetCommitRequestPartition {
    OffsetCommitRequestPartition {
        partition_index: partition.partition_index,
        committed_offset: partition.committed_offset,
        committed_leader_epoch: partition.committed_leader_epoch,
        committed_metadata: partition.committed_metadata.clone(),
        ..OffsetCommitRequestPartition::default()
    }
}

impl StagedCommit<'_> {
    /// Adds an offset that is pending, and counts what it takes as one.
    fn add_pending(
        &mut self,
        topic: &CommittedTopic,
        topic_id: TopicId,
        asked: &OffsetCommitRequestPartition,
    ) -> Result<(), ErrorCode> {
        let metadata = asked.committed_metadata.as_deref().unwrap_or_default();
        let bytes = pending_bytes(self.group_id, topic, metadata);
        match self.held.try_grow(bytes, Growth::New) {
            true => self.add(topic, topic_id, asked),
            false => Err(ErrorCode::CoordinatorLoadInProgress),
        }
    }
}
