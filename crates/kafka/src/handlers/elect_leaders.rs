//! ElectLeaders: makes preferred or any live replicas leaders (KIP-183, KIP-460).
//!
//! The controller judges who can lead. It does not know of logs that this node could not open: those have no leader for
//! clients, and no election gives them one.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use logway_metadata::TopicImage;
use logway_metadata::controller::{ElectLeaders, Election};
use logway_model::{ErrorCode, PartitionId, TopicId};
use logway_wire::WireString;
use logway_wire::messages::elect_leaders_request::TopicPartitions;
use logway_wire::messages::elect_leaders_response::{PartitionResult, ReplicaElectionResult};
use logway_wire::messages::{ElectLeadersRequest, ElectLeadersResponse};

use super::batched_command::{submit_in_parts, time_max};
use super::building::{ENTRY_BYTES, ENTRY_WITH_MESSAGE_BYTES, with_all};
use super::cluster_view::{ClusterView, PartitionView};
use crate::request::{RequestContext, TopicGrant, refusal_text};
use logway_node::access::Operation;

/// From this version on there is a code for the request as a whole.
const WHOLE_ERROR_FROM: i16 = 1;

/// Which replica a client wants to lead.
fn election_of(code: i8) -> Option<Election> {
    match code {
        0 => Some(Election::Preferred),
        1 => Some(Election::Unclean),
        _ => None,
    }
}

/// Whether a partition has not the leader that is asked for.
fn is_needed(election: Election, partition: &PartitionView<'_>) -> bool {
    match election {
        Election::Preferred => partition.leader != partition.image.replicas.first().copied(),
        Election::Unclean | Election::Relieving => partition.leader.is_none(),
    }
}

/// What is told of a partition that the controller has judged. One that has a leader for the controller and none for
/// clients has not got the leader that was asked for.
fn outcome(election: Election, partition: &PartitionView<'_>, judged: ErrorCode) -> ErrorCode {
    match (judged, election) {
        (ErrorCode::ElectionNotNeeded, _) if partition.leader.is_some() => judged,
        (ErrorCode::ElectionNotNeeded, Election::Preferred) => {
            ErrorCode::PreferredLeaderNotAvailable
        }
        (ErrorCode::ElectionNotNeeded, Election::Unclean | Election::Relieving) => {
            ErrorCode::EligibleLeadersNotAvailable
        }
        (judged, _) => judged,
    }
}

/// One answer for each partition named, or for all of them: each is judged by the controller, and told of.
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
    let Some(election) = election_of(request.election_type) else {
        return of_unknown_type(request);
    };
    let (view, grant) = (ClusterView::of(&context), cluster.all_topics());
    let time_max = time_max(request.timeout_ms);
    let replica_election_results = match request.topic_partitions {
        Some(topics) => elect_named(&context, &view, grant, election, topics, time_max).await,
        None => elect_all(&context, &view, grant, election, time_max).await,
    };
    ElectLeadersResponse { replica_election_results, ..Default::default() }
}

/// What the controller says of each partition.
type Judged = HashMap<(TopicId, PartitionId), ErrorCode>;

/// Has the controller elect leaders.
async fn elect(
    context: &RequestContext,
    election: Election,
    partitions: &[(TopicId, PartitionId)],
    time_max: Option<Duration>,
) -> Judged {
    let command = |partitions| ElectLeaders { election, partitions };
    let results = submit_in_parts(context, time_max, partitions, command).await;
    let codes = results
        .into_iter()
        .map(|result: Result<(), _>| result.err().map_or(ErrorCode::None, |failure| failure.code));
    partitions.iter().copied().zip(codes).collect()
}

/// Each mention of a partition has an answer. Each partition is elected a leader for once.
async fn elect_named(
    context: &RequestContext,
    view: &ClusterView,
    grant: TopicGrant,
    election: Election,
    topics: Vec<TopicPartitions>,
    time_max: Option<Duration>,
) -> Vec<ReplicaElectionResult> {
    let find = |name: &str| view.by_name(context, name, grant).ok();
    let mut seen = HashSet::new();
    let mut existing = Vec::new();
    for asked in &topics {
        let Some(topic) = find(&asked.topic) else { continue };
        let ids = asked.partitions.iter().copied().map(PartitionId);
        let new = ids.filter(|id| topic.partition(*id).is_some() && seen.insert((topic.id, *id)));
        existing.extend(new.map(|id| (topic.id, id)));
    }
    let judged = elect(context, election, &existing, time_max).await;
    let told = topics.into_iter().map(|asked| {
        let topic = find(&asked.topic);
        let outcomes = asked.partitions.into_iter().map(PartitionId).map(|id| {
            let code = topic.and_then(|topic| {
                let (partition, judged) =
                    (view.partition(topic, id)?, judged.get(&(topic.id, id))?);
                Some(outcome(election, &partition, *judged))
            });
            (id, code.unwrap_or(ErrorCode::UnknownTopicOrPartition))
        });
        result(&asked.topic, outcomes)
    });
    told.collect()
}

/// Those partitions are told of that did not have the leader that is asked for.
async fn elect_all(
    context: &RequestContext,
    view: &ClusterView,
    grant: TopicGrant,
    election: Election,
    time_max: Option<Duration>,
) -> Vec<ReplicaElectionResult> {
    let needy = |topic: &TopicImage| {
        let partitions = view.partitions_from(topic, 0);
        let needy = partitions.filter(|partition| is_needed(election, partition));
        needy.map(|partition| partition.id).collect::<Vec<_>>()
    };
    let topics = view.topics_from(context, "", grant).map(|topic| (topic, needy(topic)));
    let topics: Vec<(&TopicImage, Vec<PartitionId>)> = topics.collect();
    let partitions = topics.iter().flat_map(|(topic, ids)| ids.iter().map(|id| (topic.id, *id)));
    let partitions: Vec<(TopicId, PartitionId)> = partitions.collect();
    let judged = elect(context, election, &partitions, time_max).await;
    let told = topics.into_iter().map(|(topic, ids)| {
        let outcomes = ids.into_iter().filter_map(|id| {
            let (partition, judged) = (view.partition(topic, id)?, judged.get(&(topic.id, id))?);
            Some((id, outcome(election, &partition, *judged)))
        });
        let is_told = |(_, code): &(PartitionId, ErrorCode)| *code != ErrorCode::ElectionNotNeeded;
        result(topic.name.as_str(), outcomes.filter(is_told))
    });
    told.collect()
}

/// An unknown type of election is told to each partition. Clients look for the results of those that they have
/// named, and some do not look at the error of the request. A request about nothing is told of nothing.
fn of_unknown_type(request: ElectLeadersRequest) -> ElectLeadersResponse {
    let is_about_nothing = request.topic_partitions.as_ref().is_some_and(Vec::is_empty);
    let code = if is_about_nothing { ErrorCode::None } else { ErrorCode::InvalidRequest };
    refused(request, code, WHOLE_ERROR_FROM)
}

/// The request as a whole is refused, and each partition that it names.
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
        error_message: (code != ErrorCode::None).then(|| explanation(code)),
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
        ErrorCode::PreferredLeaderNotAvailable => {
            "the first replica is not in sync, or its broker or its log is not available"
        }
        ErrorCode::EligibleLeadersNotAvailable => {
            "of no replica are the broker and the log available"
        }
        ErrorCode::RequestTimedOut => "not done in time; it may still be done",
        code => code.name(),
    })
}

#[cfg(test)]
mod tests {
    use logway_metadata::PartitionImage;
    use logway_model::{BrokerId, LeaderEpoch};

    use super::*;

    const PREFERRED: BrokerId = BrokerId(1);
    const OTHER: BrokerId = BrokerId(2);

    /// Does something with a partition that clients see led by `leader`.
    fn with_leader<T>(leader: Option<BrokerId>, look: impl Fn(&PartitionView<'_>) -> T) -> T {
        let image = PartitionImage {
            replicas: vec![PREFERRED, OTHER],
            directories: Vec::new(),
            isr: vec![PREFERRED, OTHER],
            eligible: Vec::new(),
            reassignment: None,
            leader: Some(PREFERRED),
            leader_epoch: LeaderEpoch(0),
            partition_epoch: 0,
        };
        look(&PartitionView {
            id: PartitionId(0),
            image: &image,
            leader,
            offline_replicas: Vec::new(),
        })
    }

    #[test]
    fn an_election_is_needed_where_the_leader_is_gone_or_not_the_preferred_one() {
        let needed = |election, leader| with_leader(leader, |it| is_needed(election, it));
        assert!(!needed(Election::Preferred, Some(PREFERRED)));
        assert!(needed(Election::Preferred, Some(OTHER)));
        assert!(needed(Election::Preferred, None));
        assert!(!needed(Election::Unclean, Some(OTHER)));
        assert!(needed(Election::Unclean, None));
    }

    #[test]
    fn a_leader_that_does_not_serve_is_none_whatever_the_controller_says() {
        let told = |election, leader, judged| {
            with_leader(leader, |partition| outcome(election, partition, judged))
        };
        let not_needed = ErrorCode::ElectionNotNeeded;
        for (election, unavailable) in [
            (Election::Preferred, ErrorCode::PreferredLeaderNotAvailable),
            (Election::Unclean, ErrorCode::EligibleLeadersNotAvailable),
        ] {
            assert_eq!(told(election, Some(PREFERRED), not_needed), not_needed);
            assert_eq!(told(election, None, not_needed), unavailable);
            assert_eq!(told(election, None, ErrorCode::None), ErrorCode::None);
            assert_eq!(told(election, None, unavailable), unavailable);
        }
    }

    #[test]
    fn there_are_two_types_of_elections() {
        assert_eq!(election_of(0), Some(Election::Preferred));
        assert_eq!(election_of(1), Some(Election::Unclean));
        assert_eq!(election_of(2), None);
    }
}
