//! Where partitions are stored and what they take.

use std::collections::{BTreeMap, BTreeSet};

use logway_model::{BrokerId, PartitionId, TopicName, TopicPartition};
use logway_wire::WireString;
use logway_wire::messages::DescribeLogDirsRequest;
use logway_wire::messages::describe_log_dirs_request::DescribableLogDirTopic;
use logway_wire::messages::describe_log_dirs_response::DescribeLogDirsResult;

use super::by_topic;
use crate::error::check;
use crate::{Client, ClientError};

/// A log directory of a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogDir {
    /// The path, on the broker's machine.
    pub path: String,
    /// The size of its file system, if the broker tells.
    pub total_bytes: Option<u64>,
    /// What is free there, if the broker tells.
    pub usable_bytes: Option<u64>,
    /// The partitions that were asked for and are here, with their sizes in bytes.
    pub partitions: BTreeMap<TopicPartition, u64>,
}

impl Client {
    /// The log directories of one broker with the sizes of the given partitions. A directory that is
    /// offline is an error of its own.
    pub async fn describe_log_dirs(
        &self,
        broker: BrokerId,
        partitions: &BTreeSet<TopicPartition>,
    ) -> Result<Vec<Result<LogDir, ClientError>>, ClientError> {
        let topics = by_topic(partitions.iter().cloned()).into_iter();
        let request = DescribeLogDirsRequest {
            topics: Some(topics.map(describable).collect()),
            ..DescribeLogDirsRequest::default()
        };
        let response = self.broker(broker).await?.call(&request).await?;
        let what = || format!("describe the log directories of broker {broker}");
        check(what, response.error_code, None)?;
        let described = response.results.iter().map(|dir| {
            let what = || format!("look into log directory '{}' of broker {broker}", dir.log_dir);
            check(what, dir.error_code, None).map(|()| log_dir(dir))
        });
        Ok(described.collect())
    }
}

fn describable((topic, partitions): (TopicName, Vec<i32>)) -> DescribableLogDirTopic {
    DescribableLogDirTopic {
        topic: WireString::copy_of(topic.as_str()),
        partitions,
        ..DescribableLogDirTopic::default()
    }
}

fn log_dir(dir: &DescribeLogDirsResult) -> LogDir {
    let mut partitions = BTreeMap::new();
    for topic in &dir.topics {
        let Ok(name) = TopicName::new(&topic.name) else { continue };
        for partition in topic.partitions.iter().filter(|partition| !partition.is_future_key) {
            let index = PartitionId(partition.partition_index);
            let size_bytes = u64::try_from(partition.partition_size).unwrap_or(0);
            partitions.insert(TopicPartition::new(name.clone(), index), size_bytes);
        }
    }
    LogDir {
        path: dir.log_dir.to_string(),
        total_bytes: u64::try_from(dir.total_bytes).ok(),
        usable_bytes: u64::try_from(dir.usable_bytes).ok(),
        partitions,
    }
}
