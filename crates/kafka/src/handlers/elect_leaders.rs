//! ElectLeaders: makes preferred or any live replicas leaders (KIP-183, KIP-460).
//!
//! A partition has one replica, which leads whenever its log is open. So there is never anything to
//! elect: either the leader is the one that is asked for, or no replica can lead.

use logway_metadata::TopicImage;
use logway_model::{ErrorCode, PartitionId};
use logway_wire::WireString;
use logway_wire::messages::elect_leaders_response::{PartitionResult, ReplicaElectionResult};
use logway_wire::messages::{ElectLeadersRequest, ElectLeadersResponse};

use super::building::{ENTRY_BYTES, ENTRY_WITH_MESSAGE_BYTES, with_all};
use super::cluster_view::{ClusterView, PartitionView};
use crate::request::{RequestContext, refusal_text};
use logway_node::access::Operation;

/// From this version on there is a code for the request as a whole.
const WHOLE_ERROR_FROM: i16 = 1;

/// Which replica a client wants to lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Election {
    /// The first of the partition's replicas.
    Preferred,
    /// Any that lives, also one that is not in sync, where there is no leader.
    Unclean,
}

impl Election {
    fn from_code(code: i8) -> Option<Election> {
        match code {
            0 => Some(Election::Preferred),
            1 => Some(Election::Unclean),
            _ => None,
        }
    }

    fn outcome(self, partition: Option<&PartitionView<'_>>) -> ErrorCode {
        let Some(partition) = partition else { return ErrorCode::UnknownTopicOrPartition };
        let is_elected = match self {
            Election::Preferred => partition.leader == partition.image.replicas.first().copied(),
            Election::Unclean => partition.leader.is_some(),
        };
        match self {
            _ if is_elected => ErrorCode::ElectionNotNeeded,
            Election::Preferred => ErrorCode::PreferredLeaderNotAvailable,
            Election::Unclean => ErrorCode::EligibleLeadersNotAvailable,
        }
    }
}

/// One answer for each partition named. Without a list, one for each topic: its partitions are all
/// led, but for those whose logs are offline.
pub(crate) fn built_bytes(context: &RequestContext, request: &ElectLeadersRequest) -> usize {
    match &request.topic_partitions {
        Some(topics) => {
            let partitions = topics.iter().map(|topic| topic.partitions.len());
            topics.len() * ENTRY_WITH_MESSAGE_BYTES + partitions.sum::<usize>() * ENTRY_BYTES
        }
        None => {
            let sizes = context.sizes();
            let all = sizes.topic_count() + sizes.partition_count();
            with_all(context, 0, all * ENTRY_BYTES)
        }
    }
}

pub(crate) async fn handle(
    context: RequestContext,
    request: ElectLeadersRequest,
) -> ElectLeadersResponse {
    let cluster = match context.cluster(Operation::Alter) {
        Ok(cluster) => cluster,
        Err(code) => return refused(request, code, context.version),
    };
    let election = Election::from_code(request.election_type);
    let is_about_nothing = request.topic_partitions.as_ref().is_some_and(Vec::is_empty);
    let error_code = match election {
        None if !is_about_nothing => ErrorCode::InvalidRequest,
        _ => ErrorCode::None,
    };
    let view = ClusterView::of(&context);
    let replica_election_results = match (request.topic_partitions, election) {
        (Some(topics), _) => {
            let result = |name: &str, partitions: Vec<i32>| {
                let topic = view.by_name(&context, name, cluster.all_topics()).ok();
                let partition = |id| view.partition(topic?, id);
                let outcome = |id| (id, outcome(election, partition(id).as_ref()));
                result(name, partitions.into_iter().map(PartitionId).map(outcome))
            };
            topics.into_iter().map(|asked| result(&asked.topic, asked.partitions)).collect()
        }
        (None, Some(election)) => {
            let topics = view.topics_from(&context, "", cluster.all_topics());
            every_partition(&view, topics, election)
        }
        (None, None) => Vec::new(),
    };
    let error_code = error_code.code();
    ElectLeadersResponse { error_code, replica_election_results, ..Default::default() }
}

/// What a partition that is named is told. An unknown type of election is told to each one: clients look for the
/// results of the partitions that they have named, and some do not look at the error of the request.
fn outcome(election: Option<Election>, partition: Option<&PartitionView<'_>>) -> ErrorCode {
    election.map_or(ErrorCode::InvalidRequest, |election| election.outcome(partition))
}

/// The answer about all partitions names only those that do not have the leader that is asked for.
fn every_partition<'a>(
    view: &ClusterView,
    topics: impl Iterator<Item = &'a TopicImage>,
    election: Election,
) -> Vec<ReplicaElectionResult> {
    let topics = topics.map(|topic| {
        let outcomes = view.partitions_from(topic, 0).map(|partition| {
            let outcome = election.outcome(Some(&partition));
            (partition.id, outcome)
        });
        result(
            topic.name.as_str(),
            outcomes.filter(|(_, code)| *code != ErrorCode::ElectionNotNeeded),
        )
    });
    topics.collect()
}

/// The request as a whole, and each partition that it names, for a requester who may not.
fn refused(request: ElectLeadersRequest, code: ErrorCode, version: i16) -> ElectLeadersResponse {
    let results = request.topic_partitions.into_iter().flatten().map(|asked| {
        let partitions = asked.partitions.into_iter().map(PartitionId);
        result(&asked.topic, partitions.map(|id| (id, code)))
    });
    ElectLeadersResponse {
        error_code: if version < WHOLE_ERROR_FROM { 0 } else { code.code() },
        replica_election_results: results.collect(),
        ..Default::default()
    }
}

fn result(
    topic: &str,
    outcomes: impl Iterator<Item = (PartitionId, ErrorCode)>,
) -> ReplicaElectionResult {
    let partition = |(id, code): (PartitionId, ErrorCode)| PartitionResult {
        partition_id: id.0,
        error_code: code.code(),
        error_message: Some(explanation(code)),
        ..Default::default()
    };
    ReplicaElectionResult {
        topic: WireString::copy_of(topic),
        partition_result: outcomes.map(partition).collect(),
        ..Default::default()
    }
}

/// The reason, in memory that all answers share.
fn explanation(code: ErrorCode) -> WireString {
    WireString::from_static(match code {
        ErrorCode::ElectionNotNeeded => "the partition has the leader that is asked for",
        ErrorCode::UnknownTopicOrPartition => "the partition does not exist",
        ErrorCode::ClusterAuthorizationFailed => refusal_text(code),
        ErrorCode::InvalidRequest => "there is no such type of election",
        _ => "the log of the partition's only replica is offline",
    })
}

#[cfg(test)]
mod tests {
    use logway_metadata::PartitionImage;
    use logway_model::{BrokerId, LeaderEpoch};

    use super::*;

    #[test]
    fn an_election_is_needed_only_where_the_leader_is_gone() {
        let image = PartitionImage {
            replicas: vec![BrokerId(1)],
            directories: Vec::new(),
            isr: vec![BrokerId(1)],
            leader: Some(BrokerId(1)),
            leader_epoch: LeaderEpoch(0),
            partition_epoch: 0,
        };
        let outcome = |election: Election, leader| {
            let view = PartitionView {
                id: PartitionId(0),
                image: &image,
                leader,
                offline_replicas: Vec::new(),
            };
            election.outcome(Some(&view))
        };
        let online = Some(BrokerId(1));
        assert_eq!(outcome(Election::Preferred, online), ErrorCode::ElectionNotNeeded);
        assert_eq!(outcome(Election::Unclean, online), ErrorCode::ElectionNotNeeded);
        assert_eq!(outcome(Election::Preferred, None), ErrorCode::PreferredLeaderNotAvailable);
        assert_eq!(outcome(Election::Unclean, None), ErrorCode::EligibleLeadersNotAvailable);
        assert_eq!(Election::Preferred.outcome(None), ErrorCode::UnknownTopicOrPartition);
        assert_eq!(Election::from_code(2), None);
        assert_eq!(super::outcome(None, None), ErrorCode::InvalidRequest);
    }
}
