//! Topics and partitions, as people write them.

use std::collections::BTreeSet;
use std::str::FromStr;

use logway_client::{ClientError, ClusterMetadata};
use logway_model::{PartitionId, TopicName, TopicPartition};

/// `TOPIC`, or `TOPIC:PARTITION,...` for only some of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct TopicFilter {
    /// The topic.
    pub(in crate::cli) name: TopicName,
    /// All partitions if there is none.
    pub(in crate::cli) partitions: BTreeSet<PartitionId>,
}

impl TopicFilter {
    /// Whether a partition is meant.
    pub(in crate::cli) fn contains(&self, partition: &TopicPartition) -> bool {
        let is_meant = |id| self.partitions.is_empty() || self.partitions.contains(id);
        partition.topic == self.name && is_meant(&partition.partition)
    }

    /// The partitions that are meant.
    ///
    /// # Errors
    ///
    /// [`ClientError::NoSuchPartition`] for one that does not exist.
    pub(in crate::cli) fn partitions(
        &self,
        metadata: &ClusterMetadata,
    ) -> Result<Vec<TopicPartition>, ClientError> {
        let topic = metadata.topics.get(&self.name);
        let existing = topic.map(|topic| topic.partitions.as_slice()).unwrap_or_default();
        let existing: BTreeSet<PartitionId> = existing.iter().map(|known| known.id).collect();
        if let Some(&partition) = self.partitions.difference(&existing).next() {
            let (topic, partitions) = (self.name.clone(), existing.len());
            return Err(ClientError::NoSuchPartition { topic, partition, partitions });
        }
        let meant = if self.partitions.is_empty() { &existing } else { &self.partitions };
        Ok(meant.iter().map(|&id| TopicPartition::new(self.name.clone(), id)).collect())
    }
}

impl FromStr for TopicFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<TopicFilter, String> {
        let (name, partitions) = match text.split_once(':') {
            Some((name, partitions)) => (name, partitions.split(',').map(partition).collect()),
            None => (text, Ok(BTreeSet::new())),
        };
        let name = TopicName::new(name).map_err(|error| error.to_string())?;
        Ok(TopicFilter { name, partitions: partitions? })
    }
}

fn partition(text: &str) -> Result<PartitionId, String> {
    let number = text.parse().ok().filter(|&number| number >= 0);
    number.map(PartitionId).ok_or_else(|| format!("'{text}' is not a partition's number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_come_with_or_without_partitions() {
        let name = TopicName::new("a.b").expect("a name");
        let partition = |id| TopicPartition::new(name.clone(), PartitionId(id));
        let all: TopicFilter = "a.b".parse().expect("a topic");
        assert!(all.contains(&partition(0)) && all.contains(&partition(7)));
        let some: TopicFilter = "a.b:0,7".parse().expect("a topic with partitions");
        assert!(some.contains(&partition(7)) && !some.contains(&partition(1)));
        for text in ["", ":0", "a:", "a:x", "a:-1", "a:1,", "a b"] {
            assert!(text.parse::<TopicFilter>().is_err(), "{text}");
        }
    }
}
