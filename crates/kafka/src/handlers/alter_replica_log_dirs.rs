//! AlterReplicaLogDirs: moves partitions between the log directories of one broker (KIP-113).
//!
//! The answer says that moves have begun; DescribeLogDirs says how far they have come.

use std::collections::BTreeMap;
use std::path::Path;

use logway_model::{ErrorCode, PartitionId, Uuid};
use logway_wire::WireString;
use logway_wire::messages::alter_replica_log_dirs_response::{
    AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult,
};
use logway_wire::messages::{AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse};

use super::building::ENTRY_BYTES;
use crate::request::{Cluster, RequestContext};
use logway_node::access::Operation;
use logway_node::log_dirs::ConfiguredDir;

/// One answer for each partition named.
pub(crate) fn built_bytes(
    _context: &RequestContext,
    request: &AlterReplicaLogDirsRequest,
) -> usize {
    let topics = request.dirs.iter().flat_map(|dir| &dir.topics);
    topics.map(|topic| (1 + topic.partitions.len()) * ENTRY_BYTES).sum()
}

pub(crate) async fn handle(
    context: RequestContext,
    request: AlterReplicaLogDirsRequest,
) -> AlterReplicaLogDirsResponse {
    // A partition that is asked for twice is answered once, as in Kafka.
    let mut outcomes: BTreeMap<WireString, BTreeMap<i32, ErrorCode>> = BTreeMap::new();
    let cluster = context.cluster(Operation::Alter);
    for dir in request.dirs {
        let target = cluster.as_ref().ok().and_then(|cluster| find(cluster, &dir.path));
        for topic in dir.topics {
            for index in topic.partitions {
                let outcome = match &cluster {
                    Ok(cluster) => begin(cluster, target, &topic.name, index).await,
                    Err(code) => Err(*code),
                };
                let why = |code| {
                    let id = PartitionId(index);
                    why_not_moved(context.absence_here(code, &topic.name, Uuid::ZERO, id))
                };
                let code = outcome.err().map_or(ErrorCode::None, why);
                outcomes.entry(topic.name.clone()).or_default().insert(index, code);
            }
        }
    }
    let results = outcomes.into_iter().map(|(name, partitions)| topic_result(name, partitions));
    AlterReplicaLogDirsResponse { results: results.collect(), ..Default::default() }
}

fn find<'a>(cluster: &'a Cluster, path: &str) -> Option<&'a ConfiguredDir> {
    let mut dirs = cluster.log_dirs().all().iter();
    dirs.find(|ours| is_same_directory(Path::new(path), ours.path()))
}

/// Whether a client that was told of our directory means it.
fn is_same_directory(asked: &Path, ours: &Path) -> bool {
    asked.is_absolute() && asked.components().eq(ours.components())
}

async fn begin(
    cluster: &Cluster,
    target: Option<&ConfiguredDir>,
    topic: &str,
    index: i32,
) -> Result<(), ErrorCode> {
    let target = target.ok_or(ErrorCode::LogDirNotFound)?;
    let target = target.online().ok_or(ErrorCode::KafkaStorageError)?;
    cluster.move_replica(topic, PartitionId(index), &target).await
}

/// As in Kafka, whose tools know no other code for a replica that is not here to be moved.
fn why_not_moved(code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::NotLeaderOrFollower => ErrorCode::ReplicaNotAvailable,
        code => code,
    }
}

fn topic_result(
    topic_name: WireString,
    partitions: BTreeMap<i32, ErrorCode>,
) -> AlterReplicaLogDirTopicResult {
    let partition = |(partition_index, code): (i32, ErrorCode)| AlterReplicaLogDirPartitionResult {
        partition_index,
        error_code: code.code(),
        ..Default::default()
    };
    let partitions = partitions.into_iter().map(partition).collect();
    AlterReplicaLogDirTopicResult { topic_name, partitions, ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_known_by_its_absolute_path() {
        let is_ours = |asked: &str| is_same_directory(Path::new(asked), Path::new("/data/logway"));
        assert!(is_ours("/data/logway"));
        assert!(is_ours("/data/logway/"));
        assert!(!is_ours("/data/other"));
        assert!(!is_ours("data/logway"));
        assert!(!is_ours(""));
    }
}
