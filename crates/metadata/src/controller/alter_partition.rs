//! AlterPartition: a leader says who is in sync (KIP-497, KIP-841, KIP-903).

use std::collections::BTreeSet;

use logway_model::{BrokerId, ErrorCode, LeaderEpoch, PartitionId, TopicId};
use serde::{Deserialize, Serialize};

use super::broker_session::check_epoch;
use super::partition_change::PartitionChange;
use super::{Command, ControllerError, Decision};
use crate::image::{MetadataImage, PartitionImage};
use crate::record::{BrokerEpoch, BrokerState, MetadataRecord, PartitionRecord};
use crate::settings::BrokerSettings;

/// New in-sync replicas of partitions that one broker leads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlterPartition {
    /// The leader.
    pub broker: BrokerId,
    /// Its life.
    pub broker_epoch: BrokerEpoch,
    /// The partitions.
    pub partitions: Vec<IsrChange>,
}

/// The new in-sync replicas of one partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IsrChange {
    /// Its topic.
    pub topic_id: TopicId,
    /// Its number.
    pub partition: PartitionId,
    /// The epoch in which the broker leads it.
    pub leader_epoch: LeaderEpoch,
    /// The state of the partition that the broker knows.
    pub partition_epoch: i32,
    /// Who is in sync, each in the life in which the leader has seen that. A replica that came back with an
    /// empty disk is in another one (KAFKA-14617). Without the leader itself, another of these is to lead: the leader's
    /// disk hangs.
    pub isr: Vec<(BrokerId, BrokerEpoch)>,
}

/// A partition as the controller has it after that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlteredPartition {
    /// Who leads it.
    pub leader: Option<BrokerId>,
    /// In which epoch.
    pub leader_epoch: LeaderEpoch,
    /// Who is in sync.
    pub isr: Vec<BrokerId>,
    /// The state's number.
    pub partition_epoch: i32,
}

impl Command for AlterPartition {
    type Reply = Vec<Result<AlteredPartition, ControllerError>>;

    /// Without it a partition whose follower has a full disk would take no records.
    const MAKES_SPACE: bool = true;

    fn evaluate(
        self,
        image: &MetadataImage,
        settings: &BrokerSettings,
    ) -> Result<Decision<Self::Reply>, ControllerError> {
        check_epoch(image, self.broker, self.broker_epoch)?;
        let mut records = Vec::new();
        let mut seen = BTreeSet::new();
        let reply = self.partitions.iter().map(|change| {
            if !seen.insert((change.topic_id, change.partition)) {
                return Err(refused(
                    ErrorCode::InvalidRequest,
                    change,
                    "it is in the request twice",
                ));
            }
            let (record, altered) = alter(image, settings, self.broker, change)?;
            records.extend(record.map(MetadataRecord::partition));
            altered
        });
        let reply = reply.collect();
        Ok(Decision { records, reply })
    }
}

/// What a proposal makes of its partition, and what its leader is told. One that is refused can make something of it, too.
fn alter(
    image: &MetadataImage,
    settings: &BrokerSettings,
    broker: BrokerId,
    change: &IsrChange,
) -> Result<(Option<PartitionRecord>, Result<AlteredPartition, ControllerError>), ControllerError> {
    let Some(topic) = image.topic_by_id(change.topic_id) else {
        return Err(refused(ErrorCode::UnknownTopicId, change, "there is no such topic"));
    };
    let Some(partition) = topic.partition(change.partition) else {
        let code = ErrorCode::UnknownTopicOrPartition;
        return Err(refused(code, change, "there is no such partition"));
    };
    check_leader(partition, broker, change)?;
    if let Err(refusal) = check_isr(image, partition, broker, change) {
        return Ok((outdated(image, partition, change), Err(refusal)));
    }
    let isr = change.isr.iter().map(|(id, _)| *id).collect();
    let changed = PartitionChange::new(image, settings, topic, change.partition, partition);
    let changed = changed.with_isr(isr);
    let record = match change.isr.iter().any(|(id, _)| *id == broker) {
        true => changed.record(),
        false => changed.without_leader().record(),
    };
    let state = record.clone();
    let state = state.unwrap_or_else(|| partition.to_record(change.topic_id, change.partition));
    let PartitionRecord { leader, leader_epoch, isr, partition_epoch, .. } = state;
    let after = AlteredPartition { leader, leader_epoch, isr, partition_epoch };
    Ok((record, Ok(after)))
}

/// What makes a proposal an old one that is refused while a broker, in that life, may not join yet.
///
/// Its leader takes it back, and goes on without the broker. If a copy comes late, when the broker serves again, it must not
/// be taken: the broker would be in sync without what was committed meanwhile.
fn outdated(
    image: &MetadataImage,
    partition: &PartitionImage,
    change: &IsrChange,
) -> Option<PartitionRecord> {
    let may_join_later = |&(id, epoch): &(BrokerId, BrokerEpoch)| {
        let state = state_in_life(image, id, epoch);
        state.is_some_and(|it| it != BrokerState::Active) && !partition.isr.contains(&id)
    };
    let partition_epoch = partition.partition_epoch + 1;
    let record = partition.to_record(change.topic_id, change.partition);
    let outdated = PartitionRecord { partition_epoch, ..record };
    change.isr.iter().any(may_join_later).then_some(outdated)
}

/// The state of a broker that is in that life still.
fn state_in_life(image: &MetadataImage, id: BrokerId, epoch: BrokerEpoch) -> Option<BrokerState> {
    let session = image.broker_session(id).filter(|session| session.epoch == epoch);
    session.map(|session| session.state)
}

/// Only the leader, in its epoch, with the newest state in hand, changes the ISR. A leader that knows more
/// than this controller asks one that is none any more.
fn check_leader(
    partition: &PartitionImage,
    broker: BrokerId,
    change: &IsrChange,
) -> Result<(), ControllerError> {
    let refused = |code, reason: &str| Err(refused(code, change, reason));
    if change.leader_epoch < partition.leader_epoch {
        return refused(ErrorCode::FencedLeaderEpoch, "the leader's epoch is over");
    }
    let is_ahead = change.leader_epoch > partition.leader_epoch
        || change.partition_epoch > partition.partition_epoch;
    if is_ahead {
        return refused(ErrorCode::NotController, "the broker knows a later state");
    }
    if partition.leader != Some(broker) {
        return refused(ErrorCode::InvalidRequest, "the broker does not lead it");
    }
    if change.partition_epoch < partition.partition_epoch {
        return refused(ErrorCode::InvalidUpdateVersion, "the broker knows an older state");
    }
    Ok(())
}

fn check_isr(
    image: &MetadataImage,
    partition: &PartitionImage,
    broker: BrokerId,
    change: &IsrChange,
) -> Result<(), ControllerError> {
    let mut ids = BTreeSet::new();
    for &(id, epoch) in &change.isr {
        if !ids.insert(id) || !partition.replicas.contains(&id) {
            let reason = format!("broker {id} is no replica, or is in the ISR twice");
            return Err(refused(ErrorCode::InvalidRequest, change, &reason));
        }
        // Who is in the ISR may stay while it is fenced, if nobody else is left.
        let may_stay = partition.isr.contains(&id);
        let state = state_in_life(image, id, epoch);
        let is_eligible = state.is_some_and(|it| it == BrokerState::Active || may_stay);
        if !is_eligible {
            let reason = format!("broker {id} is fenced, about to stop, or in another life");
            return Err(refused(ErrorCode::IneligibleReplica, change, &reason));
        }
    }
    // A leader that names others gives the partition up to one of them.
    let is_led = ids.contains(&broker) || ids.iter().any(|id| image.is_active(*id));
    match is_led {
        true => Ok(()),
        false => Err(refused(ErrorCode::InvalidRequest, change, "nobody in the ISR could lead")),
    }
}

fn refused(code: ErrorCode, change: &IsrChange, reason: &str) -> ControllerError {
    let (topic, partition) = (change.topic_id, change.partition);
    ControllerError::new(code, format!("Partition {partition} of topic {topic}: {reason}."))
}
