//! AlterPartitionReassignments: partitions are moved to other brokers (KIP-455).

use std::collections::BTreeSet;

use logway_model::{BrokerId, DirectoryId, ErrorCode, PartitionId, TopicId};
use serde::{Deserialize, Serialize};

use super::features::with_features;
use super::partition_change::PartitionChange;
use super::placement::{NewPartitions, check_replicas};
use super::{Command, ControllerError, Decision};
use crate::image::{MetadataImage, PartitionImage};
use crate::record::{MetadataRecord, PartitionRecord, Reassignment};
use crate::settings::BrokerSettings;

/// Begins, changes and cancels moves of partitions, each by itself.
///
/// While a partition is on its way it has the replicas that it had and those that it is to have. The new ones are filled by
/// its leader and join the ISR, and that commit takes the old ones out ([`Reassignment::is_complete`]).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlterPartitionReassignments {
    /// What is to be moved.
    pub moves: Vec<PartitionMove>,
    /// Whether a partition may get more or fewer replicas than it had (KIP-860).
    pub may_change_count: bool,
}

/// Where one partition is to go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionMove {
    /// Its topic.
    pub topic_id: TopicId,
    /// Its number.
    pub partition: PartitionId,
    /// The brokers that are to hold it, the preferred leader first; `None` to cancel its move.
    pub replicas: Option<Vec<BrokerId>>,
}

impl Command for AlterPartitionReassignments {
    type Reply = Vec<Result<(), ControllerError>>;

    /// A partition that is moved makes room where it was.
    const MAKES_SPACE: bool = true;

    fn evaluate(
        self,
        image: &MetadataImage,
        settings: &BrokerSettings,
    ) -> Result<Decision<Self::Reply>, ControllerError> {
        let mut records = Vec::new();
        let mut seen = BTreeSet::new();
        let mut places = NewPartitions::new(image);
        let reply = self.moves.iter().map(|asked| {
            if !seen.insert((asked.topic_id, asked.partition)) {
                return Err(refused(
                    ErrorCode::InvalidRequest,
                    asked,
                    "it is in the request twice",
                ));
            }
            let record = change(image, settings, &mut places, asked, self.may_change_count)?;
            records.extend(record.map(MetadataRecord::partition));
            Ok(())
        });
        let reply = reply.collect();
        Ok(with_features(Decision { records, reply }, image))
    }
}

fn change(
    image: &MetadataImage,
    settings: &BrokerSettings,
    places: &mut NewPartitions<'_>,
    asked: &PartitionMove,
    may_change_count: bool,
) -> Result<Option<PartitionRecord>, ControllerError> {
    let topic = image.topic_by_id(asked.topic_id);
    let known = topic.and_then(|topic| Some((topic, topic.partition(asked.partition)?)));
    let Some((topic, known)) = known else {
        let reason = "there is no such partition";
        return Err(refused(ErrorCode::UnknownTopicOrPartition, asked, reason));
    };
    let change = PartitionChange::new(image, settings, topic, asked.partition, known);
    let of_topic = |refusal: ControllerError| refusal.of_topic(&topic.name);
    let Some(target) = &asked.replicas else {
        return cancel(change, known, asked).map_err(of_topic);
    };
    check_target(image, known, asked, target, may_change_count).map_err(of_topic)?;
    let before = known.reassignment.as_ref();
    let original = before.map_or(&known.replicas, |before| &before.original);
    let reassignment = Reassignment { original: original.clone(), target: target.clone() };
    let replicas = reassignment.replicas();
    check_in_sync(known, asked, &replicas).map_err(of_topic)?;
    let wanted = (reassignment.original != reassignment.target).then_some(reassignment);
    Ok(change.on_the_way(wanted, replicas, |id| places.place(id)).record())
}

/// Puts everything back. What the new replicas have copied is deleted.
fn cancel(
    change: PartitionChange<'_>,
    known: &PartitionImage,
    asked: &PartitionMove,
) -> Result<Option<PartitionRecord>, ControllerError> {
    let Some(reassignment) = &known.reassignment else {
        let reason = "no reassignment of it is in progress";
        return Err(refused(ErrorCode::NoReassignmentInProgress, asked, reason));
    };
    check_in_sync(known, asked, &reassignment.original)?;
    // What it had, it has, each in its place.
    let place = |_| DirectoryId::UNASSIGNED;
    Ok(change.on_the_way(None, reassignment.original.clone(), place).record())
}

/// In Kafka's order: the brokers, and then their number.
fn check_target(
    image: &MetadataImage,
    known: &PartitionImage,
    asked: &PartitionMove,
    target: &[BrokerId],
    may_change_count: bool,
) -> Result<(), ControllerError> {
    let number = usize::try_from(asked.partition.0).unwrap_or_default();
    check_replicas(image, number, target)?;
    let count = known.target().len();
    if may_change_count || target.len() == count {
        return Ok(());
    }
    let reason = format!(
        "it has {count} replicas, would get {}, and the request does not allow another number",
        target.len()
    );
    Err(refused(ErrorCode::InvalidReplicationFactor, asked, &reason))
}

/// One of those that are left has to be in sync: else what was acknowledged would be lost.
fn check_in_sync(
    known: &PartitionImage,
    asked: &PartitionMove,
    replicas: &[BrokerId],
) -> Result<(), ControllerError> {
    if known.isr.iter().any(|id| replicas.contains(id)) {
        return Ok(());
    }
    let reason = "none of the replicas that it would have is in sync, and acknowledged records would be lost";
    Err(refused(ErrorCode::InvalidReplicaAssignment, asked, reason))
}

fn refused(code: ErrorCode, asked: &PartitionMove, reason: &str) -> ControllerError {
    ControllerError::new(code, format!("Partition {}: {reason}.", asked.partition))
}
