//! ElectLeaders: the preferred leaders lead, or any that is left (KIP-460).

use logway_model::{BrokerId, ErrorCode, PartitionId, TopicId};
use serde::{Deserialize, Serialize};

use super::partition_change::{PartitionChange, has_replica, is_lost};
use super::{COMMAND_RECORDS_MAX, Command, ControllerError, Decision};
use crate::image::{Duty, MetadataImage, PartitionImage};
use crate::record::{MetadataRecord, PartitionRecord};
use crate::settings::BrokerSettings;

/// Who shall lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Election {
    /// The first of the replicas, if it is in sync.
    Preferred,
    /// Where nobody leads: one that is in sync or eligible, or else any that lives. With the latter, records that were
    /// acknowledged may be lost. So it is done only when somebody asks for it.
    Unclean,
    /// Another one that is in sync, where the leader is not there to lead ([`Duty`](crate::image::Duty)).
    Relieving,
}

/// Elects leaders of some partitions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ElectLeaders {
    /// Who shall lead.
    pub election: Election,
    /// Of which partitions.
    pub partitions: Vec<(TopicId, PartitionId)>,
}

impl Command for ElectLeaders {
    type Reply = Vec<Result<(), ControllerError>>;

    fn evaluate(
        self,
        image: &MetadataImage,
        settings: &BrokerSettings,
    ) -> Result<Decision<Self::Reply>, ControllerError> {
        let mut records: Vec<MetadataRecord> = Vec::new();
        let mut partitions = self.partitions.clone();
        partitions.sort_unstable();
        partitions.dedup();
        let asked_twice = partitions.len() < self.partitions.len();
        if asked_twice {
            let message = "A partition is in the request twice.";
            return Err(ControllerError::new(ErrorCode::InvalidRequest, message));
        }
        let reply = self.partitions.iter().map(|&(topic_id, partition)| {
            let record = elect(image, settings, self.election, topic_id, partition)?;
            records.push(MetadataRecord::partition(record));
            Ok(())
        });
        let reply = reply.collect();
        Ok(Decision { records, reply })
    }
}

impl ElectLeaders {
    /// The elections by which brokers lead no more that are not there to lead, no more than one command has.
    pub fn of_relieved(image: &MetadataImage) -> ElectLeaders {
        let partitions = match image.brokers().any(|broker| image.duty(broker.id) != Duty::All) {
            true => due(image, |known| could_be_relieved(image, known)),
            false => Vec::new(),
        };
        ElectLeaders { election: Election::Relieving, partitions }
    }

    /// The elections by which preferred leaders lead again that are ready and do not, no more than one command has.
    pub fn of_ready_preferred(image: &MetadataImage) -> ElectLeaders {
        let partitions = due(image, |known| {
            let ready = preferred_if_ready(image, known);
            ready.is_some() && ready != known.leader
        });
        ElectLeaders { election: Election::Preferred, partitions }
    }
}

/// The partitions that are due for an election, no more than one command has.
fn due(
    image: &MetadataImage,
    is_due: impl Fn(&PartitionImage) -> bool,
) -> Vec<(TopicId, PartitionId)> {
    let topics = image.topics();
    let all = topics.flat_map(|topic| topic.numbered_partitions().map(|it| (topic.id, it)));
    let due = all.filter(|(_, (_, known))| is_due(known));
    due.map(|(topic, (number, _))| (topic, number)).take(COMMAND_RECORDS_MAX).collect()
}

/// Whether a replica is in sync, and its broker is there to lead.
fn is_ready(image: &MetadataImage, known: &PartitionImage, id: BrokerId) -> bool {
    known.isr.contains(&id) && image.should_lead(id) && has_replica_of(image, known, id)
}

fn has_replica_of(image: &MetadataImage, known: &PartitionImage, id: BrokerId) -> bool {
    has_replica(image, id, known.directory_of(id), known.replicas.len())
}

/// The first of the replicas, if it could lead.
fn preferred_if_ready(image: &MetadataImage, known: &PartitionImage) -> Option<BrokerId> {
    known.replicas.first().copied().filter(|id| is_ready(image, known, *id))
}

/// Whether somebody leads who is not there to lead, and another could.
fn could_be_relieved(image: &MetadataImage, known: &PartitionImage) -> bool {
    let is_to_go = |id: BrokerId| !image.should_lead(id);
    known.leader.is_some_and(is_to_go) && known.isr.iter().any(|id| is_ready(image, known, *id))
}

fn elect(
    image: &MetadataImage,
    settings: &BrokerSettings,
    election: Election,
    topic_id: TopicId,
    partition: PartitionId,
) -> Result<PartitionRecord, ControllerError> {
    let refused = |code, reason: &str| {
        let message = format!("Partition {partition} of topic {topic_id}: {reason}.");
        ControllerError::new(code, message)
    };
    let topic = image.topic_by_id(topic_id);
    let known = topic.and_then(|topic| Some((topic, topic.partition(partition)?)));
    let Some((topic, known)) = known else {
        return Err(refused(ErrorCode::UnknownTopicOrPartition, "there is no such partition"));
    };
    let change = PartitionChange::new(image, settings, topic, partition, known);
    let not_needed = || refused(ErrorCode::ElectionNotNeeded, "it has the leader already");
    let leader: Option<BrokerId> = match election {
        Election::Preferred => {
            let preferred = known.replicas.first().copied();
            if known.leader == preferred {
                return Err(not_needed());
            }
            preferred_if_ready(image, known)
        }
        Election::Unclean if known.leader.is_some() => return Err(not_needed()),
        Election::Relieving if !could_be_relieved(image, known) => return Err(not_needed()),
        Election::Relieving => change.relief(&[]),
        Election::Unclean => {
            let alive = || known.replicas.iter().copied().filter(|id| image.is_active(*id));
            let has_some = |id: &BrokerId| has_replica_of(image, known, *id);
            // Its replica is made anew, where that of a directory that is not there is waited for.
            let has_none = |id: &BrokerId| is_lost(image, *id, known.directory_of(*id));
            let any = || alive().find(has_some).or_else(|| alive().find(has_none));
            change.candidate(&[]).or_else(any)
        }
    };
    let none = match election {
        Election::Preferred => ErrorCode::PreferredLeaderNotAvailable,
        Election::Unclean | Election::Relieving => ErrorCode::EligibleLeadersNotAvailable,
    };
    let record = leader.and_then(|leader| change.led_by(leader).record());
    record.ok_or_else(|| refused(none, "no replica can lead it now"))
}
