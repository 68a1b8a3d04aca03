//! Partitions that are moved between brokers (KIP-455), and elections of their leaders (KIP-460).

use std::collections::BTreeMap;
use std::sync::Arc;

use logway_model::{BrokerId, ErrorCode, PartitionId, TopicName, TopicPartition};
use logway_wire::WireString;
use logway_wire::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use logway_wire::messages::elect_leaders_request::TopicPartitions;
use logway_wire::messages::{
    AlterPartitionReassignmentsRequest, ElectLeadersRequest, ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
};

use super::{CHANGE_TIMEOUT_MS, by_topic};
use crate::error::check;
use crate::{Client, ClientError, ClusterMetadata};

/// A partition on its way to other brokers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OngoingMove {
    /// Which one.
    pub partition: TopicPartition,
    /// Everyone who has a replica meanwhile.
    pub replicas: Vec<BrokerId>,
    /// Those that get one.
    pub adding: Vec<BrokerId>,
    /// Those that have one no more afterwards.
    pub removing: Vec<BrokerId>,
}

/// Where partitions are, and which are on their way.
#[derive(Debug, Clone)]
pub struct Placement {
    /// Of all topics.
    pub metadata: Arc<ClusterMetadata>,
    /// What is moved.
    pub ongoing: Vec<OngoingMove>,
}

impl Client {
    /// Has partitions moved to other brokers, the preferred leader first; or cancels their moves, without any brokers. Gives
    /// what became of each.
    pub async fn reassign(
        &self,
        wanted: &BTreeMap<TopicPartition, Option<Vec<BrokerId>>>,
    ) -> Result<Vec<(TopicPartition, Result<(), ClientError>)>, ClientError> {
        let mut topics: BTreeMap<TopicName, Vec<ReassignablePartition>> = BTreeMap::new();
        for (partition, replicas) in wanted {
            let numbers = |ids: &Vec<BrokerId>| ids.iter().map(|id| id.0).collect();
            topics.entry(partition.topic.clone()).or_default().push(ReassignablePartition {
                partition_index: partition.partition.0,
                replicas: replicas.as_ref().map(numbers),
                ..ReassignablePartition::default()
            });
        }
        let topic = |(name, partitions): (TopicName, _)| ReassignableTopic {
            name: WireString::copy_of(name.as_str()),
            partitions,
            ..ReassignableTopic::default()
        };
        let request = AlterPartitionReassignmentsRequest {
            timeout_ms: CHANGE_TIMEOUT_MS,
            topics: topics.into_iter().map(topic).collect(),
            ..AlterPartitionReassignmentsRequest::default()
        };
        let response = self.change(&request, |response| vec![response.error_code]).await?;
        let what = || "move partitions".to_owned();
        check(what, response.error_code, response.error_message.as_ref())?;
        let mut outcomes = Vec::new();
        for topic in response.responses {
            let Ok(name) = TopicName::new(&topic.name) else { continue };
            for result in topic.partitions {
                let number = PartitionId(result.partition_index);
                let partition = TopicPartition::new(name.clone(), number);
                let what = || format!("move partition {partition}");
                let outcome = check(what, result.error_code, result.error_message.as_ref());
                outcomes.push((partition, outcome));
            }
        }
        Ok(outcomes)
    }

    /// Where all partitions are, and which are on their way to other brokers.
    ///
    /// One broker tells both, the moves first. It knows all that was decided before it was asked, so what is not on
    /// its way either has arrived, or its move was cancelled.
    pub async fn placement(&self) -> Result<Placement, ClientError> {
        let request = ListPartitionReassignmentsRequest {
            topics: None,
            timeout_ms: CHANGE_TIMEOUT_MS,
            ..Default::default()
        };
        let (response, broker) =
            self.change_at(&request, |response| vec![response.error_code]).await?;
        let ongoing = ongoing(response)?;
        let metadata = self.refresh_metadata_from(&broker).await?;
        Ok(Placement { metadata, ongoing })
    }

    /// Has the preferred leaders of partitions lead. One that leads already, or is not ready, is no error.
    pub async fn elect_preferred_leaders(
        &self,
        partitions: impl IntoIterator<Item = TopicPartition>,
    ) -> Result<(), ClientError> {
        let topic = |(name, partitions): (TopicName, _)| TopicPartitions {
            topic: WireString::copy_of(name.as_str()),
            partitions,
            ..TopicPartitions::default()
        };
        let request = ElectLeadersRequest {
            election_type: 0,
            topic_partitions: Some(by_topic(partitions).into_iter().map(topic).collect()),
            timeout_ms: CHANGE_TIMEOUT_MS,
            ..ElectLeadersRequest::default()
        };
        let response = self.change(&request, |response| vec![response.error_code]).await?;
        check(|| "elect leaders".to_owned(), response.error_code, None)?;
        let expected = [ErrorCode::ElectionNotNeeded, ErrorCode::PreferredLeaderNotAvailable];
        let expected = expected.map(ErrorCode::code);
        for topic in response.replica_election_results {
            for result in topic.partition_result {
                if !expected.contains(&result.error_code) {
                    let what =
                        || format!("elect a leader of {}-{}", topic.topic, result.partition_id);
                    check(what, result.error_code, result.error_message.as_ref())?;
                }
            }
        }
        Ok(())
    }
}

fn ongoing(response: ListPartitionReassignmentsResponse) -> Result<Vec<OngoingMove>, ClientError> {
    let what = || "list moves of partitions".to_owned();
    check(what, response.error_code, response.error_message.as_ref())?;
    let brokers = |ids: Vec<i32>| ids.into_iter().map(BrokerId).collect();
    let mut moves = Vec::new();
    for topic in response.topics {
        let Ok(name) = TopicName::new(&topic.name) else { continue };
        moves.extend(topic.partitions.into_iter().map(|it| OngoingMove {
            partition: TopicPartition::new(name.clone(), PartitionId(it.partition_index)),
            replicas: brokers(it.replicas),
            adding: brokers(it.adding_replicas),
            removing: brokers(it.removing_replicas),
        }));
    }
    Ok(moves)
}
