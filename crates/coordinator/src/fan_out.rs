//! Requests that are about several groups, taken apart and put together.
//!
//! Groups of one request can belong to several shards. DescribeGroups and DeleteGroups are lists of names and ListGroups
//! goes to all; OffsetFetch, whose versions differ, is taken apart here.

use logway_wire::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use logway_wire::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use logway_wire::messages::{OffsetFetchRequest, OffsetFetchResponse};

/// From this version on, OffsetFetch is about several groups (KIP-709).
const BATCH_VERSION: i16 = 8;

/// From this version on, OffsetFetch has an error for the group.
const GROUP_ERROR_VERSION: i16 = 2;

/// What the request asks of each group: one only, before version 8.
pub fn offset_fetch_groups(
    request: &OffsetFetchRequest,
    version: i16,
) -> Vec<OffsetFetchRequestGroup> {
    if version >= BATCH_VERSION {
        return request.groups.clone();
    }
    let topics = request.topics.as_ref().map(|topics| {
        let topics = topics.iter().map(|topic| OffsetFetchRequestTopics {
            name: topic.name.clone(),
            partition_indexes: topic.partition_indexes.clone(),
            ..OffsetFetchRequestTopics::default()
        });
        topics.collect()
    });
    let group_id = request.group_id.clone();
    vec![OffsetFetchRequestGroup { group_id, topics, ..OffsetFetchRequestGroup::default() }]
}

/// The response out of the answers for each group.
pub fn offset_fetch_response(
    request: &OffsetFetchRequest,
    version: i16,
    mut groups: Vec<OffsetFetchResponseGroup>,
) -> OffsetFetchResponse {
    if version >= BATCH_VERSION {
        return OffsetFetchResponse { groups, ..OffsetFetchResponse::default() };
    }
    let group = groups.pop().unwrap_or_default();
    let topics = match group.error_code != 0 && version < GROUP_ERROR_VERSION {
        true => refused_partitions(request, group.error_code),
        false => group.topics.into_iter().map(single_group_topic).collect(),
    };
    OffsetFetchResponse { topics, error_code: group.error_code, ..OffsetFetchResponse::default() }
}

/// The one place for an error at version 1: every partition.
fn refused_partitions(
    request: &OffsetFetchRequest,
    error_code: i16,
) -> Vec<OffsetFetchResponseTopic> {
    let topics = request.topics.iter().flatten().map(|topic| {
        let partitions =
            topic.partition_indexes.iter().map(|&partition_index| OffsetFetchResponsePartition {
                partition_index,
                committed_offset: -1,
                error_code,
                ..OffsetFetchResponsePartition::default()
            });
        OffsetFetchResponseTopic {
            name: topic.name.clone(),
            partitions: partitions.collect(),
            ..OffsetFetchResponseTopic::default()
        }
    });
    topics.collect()
}

fn single_group_topic(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic {
    OffsetFetchResponseTopic {
        name: topic.name,
        partitions: topic.partitions.into_iter().map(single_group_partition).collect(),
        ..OffsetFetchResponseTopic::default()
    }
}

fn single_group_partition(
    partition: OffsetFetchResponsePartitions,
) -> OffsetFetchResponsePartition {
    OffsetFetchResponsePartition {
        partition_index: partition.partition_index,
        committed_offset: partition.committed_offset,
        committed_leader_epoch: partition.committed_leader_epoch,
        metadata: partition.metadata,
        error_code: partition.error_code,
        ..OffsetFetchResponsePartition::default()
    }
}
