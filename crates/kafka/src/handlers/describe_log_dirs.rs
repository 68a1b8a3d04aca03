//! DescribeLogDirs: how large logs are and how full their disks are (KIP-113, KIP-827).

use std::collections::HashSet;
use std::path::Path;

use logway_log::checkpoint::{MoveState, ReplicaMove};
use logway_log::{Log, LogDir};
use logway_model::ErrorCode;
use logway_wire::WireString;
use logway_wire::messages::describe_log_dirs_request::DescribableLogDirTopic;
use logway_wire::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use logway_wire::messages::{DescribeLogDirsRequest, DescribeLogDirsResponse};

use super::building::{ENTRY_BYTES, with_all};
use crate::request::{Cluster, RequestContext};
use logway_node::access::Operation;
use logway_node::disk_space::DiskSpace;
use logway_node::log_dirs::ConfiguredDir;
use logway_node::tasks::off_thread;

/// The lag of a log whose partition is not served.
const UNKNOWN_LAG: i64 = -1;

/// One answer for each log asked for, or for all.
pub(crate) fn built_bytes(context: &RequestContext, request: &DescribeLogDirsRequest) -> usize {
    match &request.topics {
        Some(topics) => {
            topics.iter().map(|topic| topic.partitions.len()).sum::<usize>() * ENTRY_BYTES
        }
        None => with_all(context, 0, context.sizes().partition_count() * ENTRY_BYTES),
    }
}

pub(crate) async fn handle(
    context: RequestContext,
    request: DescribeLogDirsRequest,
) -> DescribeLogDirsResponse {
    let cluster = match context.cluster(Operation::Describe) {
        Ok(cluster) => cluster,
        Err(code) => {
            return DescribeLogDirsResponse { error_code: code.code(), ..Default::default() };
        }
    };
    // Asking the file system how full it is can take long where it is a remote one.
    off_thread(move || answer(&cluster, request)).await
}

fn answer(cluster: &Cluster, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse {
    let asked = request.topics.as_deref().map(partitions);
    let dirs = cluster.log_dirs().all().iter();
    let results = dirs.map(|dir| describe(cluster, dir, asked.as_ref()));
    // Those that nobody has given up are part of what there is, if offline.
    let missing = cluster.log_dirs().missing_paths().map(offline);
    DescribeLogDirsResponse { results: results.chain(missing).collect(), ..Default::default() }
}

fn describe(
    cluster: &Cluster,
    dir: &ConfiguredDir,
    asked: Option<&HashSet<(&str, i32)>>,
) -> DescribeLogDirsResult {
    let path = dir.path();
    let Some(online) = dir.online() else { return offline(path) };
    match DiskSpace::of(path) {
        Ok(space) => DescribeLogDirsResult {
            log_dir: name(path),
            topics: topics(cluster, &online, asked),
            total_bytes: space.total_bytes,
            usable_bytes: space.usable_bytes,
            ..Default::default()
        },
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "cannot tell how full the disk is");
            offline(path)
        }
    }
}

/// A directory that cannot be used.
fn offline(path: &Path) -> DescribeLogDirsResult {
    let error_code = ErrorCode::KafkaStorageError.code();
    DescribeLogDirsResult { log_dir: name(path), error_code, ..Default::default() }
}

fn name(path: &Path) -> WireString {
    WireString::from(path.to_string_lossy().into_owned())
}

/// The logs of a directory that are asked for, or all, by topic.
fn topics(
    cluster: &Cluster,
    dir: &LogDir,
    asked: Option<&HashSet<(&str, i32)>>,
) -> Vec<DescribeLogDirsTopic> {
    let is_asked = |log: &Log| {
        let partition = log.topic_partition();
        let key = (partition.topic.as_str(), partition.partition.0);
        asked.is_none_or(|asked| asked.contains(&key))
    };
    let mut topics: Vec<DescribeLogDirsTopic> = Vec::new();
    // Logs come in the order of their names, so those of a topic come together.
    for log in dir.logs().iter().filter(|log| is_asked(log)) {
        let name = log.topic_partition().topic.as_str();
        let Some(partition) = partition(cluster, dir, log) else { continue };
        match topics.last_mut() {
            Some(last) if last.name == name => last.partitions.push(partition),
            _ => topics.push(DescribeLogDirsTopic {
                name: WireString::copy_of(name),
                partitions: vec![partition],
                ..Default::default()
            }),
        }
    }
    topics
}

fn partitions(asked: &[DescribableLogDirTopic]) -> HashSet<(&str, i32)> {
    let topics = asked.iter();
    let partitions = topics.flat_map(|topic| {
        topic.partitions.iter().map(|&partition| (topic.topic.as_str(), partition))
    });
    partitions.collect()
}

fn partition(cluster: &Cluster, dir: &LogDir, log: &Log) -> Option<DescribeLogDirsPartition> {
    let topic_partition = log.topic_partition();
    let is_copy = |moved: ReplicaMove| moved.state == MoveState::Copying;
    let is_future_key = log.replica_move().is_some_and(is_copy);
    let table = cluster.served();
    let topic = table.by_id(log.topic_id()).ok();
    let served = topic.and_then(|topic| topic.replica(topic_partition.partition));
    let offset_lag = match served {
        None => UNKNOWN_LAG,
        Some(served) if is_future_key => {
            (served.log().log_end_offset() - log.log_end_offset()).max(0)
        }
        // A replica has just moved away from here.
        Some(served) if served.directory() != dir.directory_id() => return None,
        // A leader is never behind what is committed. A follower may be, by what it was told of that.
        Some(served) => (served.high_watermark().get() - log.log_end_offset()).max(0),
    };
    Some(DescribeLogDirsPartition {
        partition_index: topic_partition.partition.0,
        partition_size: i64::try_from(log.size_bytes()).unwrap_or(i64::MAX),
        offset_lag,
        is_future_key,
        ..Default::default()
    })
}
