//! Whom a load connects to.

use std::net::TcpStream;

use anyhow::Context;
use logway_client::{BrokerAddress, ClusterMetadata, InvalidAddress};
use logway_model::{PartitionId, TopicName, TopicPartition};
use serde::{Deserialize, Serialize};

use crate::generator::connect;

/// The address of each partition's leader, by the partition's number. They are looked up once: a leader that changes
/// within a run refuses, and that ends the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<String>", try_from = "Vec<String>")]
pub(crate) struct Leaders(Vec<BrokerAddress>);

impl Leaders {
    /// Those of a topic with so many partitions.
    ///
    /// # Errors
    ///
    /// A partition has none, or nothing is known of it.
    pub(super) fn of(
        metadata: &ClusterMetadata,
        topic: &TopicName,
        partitions: i32,
    ) -> anyhow::Result<Leaders> {
        let address = |number| {
            let partition = TopicPartition::new(topic.clone(), PartitionId(number));
            let leader = metadata.leader(&partition).and_then(|id| metadata.brokers.get(&id));
            let leader = leader.with_context(|| format!("nobody leads {partition}"))?;
            Ok(leader.address.clone())
        };
        (0..partitions).map(address).collect::<anyhow::Result<_>>().map(Leaders)
    }

    /// The same one for so many partitions.
    #[cfg(test)]
    pub(crate) fn only(address: BrokerAddress, partitions: usize) -> Leaders {
        Leaders(vec![address; partitions])
    }

    /// A connection to the leader of a partition. Blocks until it is there.
    ///
    /// # Errors
    ///
    /// Nobody listens at its address.
    pub(crate) fn connect(&self, partition: i32) -> anyhow::Result<TcpStream> {
        connect(&self.0[partition as usize])
    }

    /// Partitions, those of one leader together, in the order of their first ones.
    pub(super) fn groups(&self, partitions: impl IntoIterator<Item = i32>) -> Vec<Vec<i32>> {
        let mut groups: Vec<Vec<i32>> = Vec::new();
        let leader = |partition: i32| &self.0[partition as usize];
        for partition in partitions {
            match groups.iter_mut().find(|group| leader(group[0]) == leader(partition)) {
                Some(group) => group.push(partition),
                None => groups.push(vec![partition]),
            }
        }
        groups
    }
}

impl From<Leaders> for Vec<String> {
    fn from(Leaders(addresses): Leaders) -> Vec<String> {
        addresses.iter().map(ToString::to_string).collect()
    }
}

impl TryFrom<Vec<String>> for Leaders {
    type Error = InvalidAddress;

    fn try_from(addresses: Vec<String>) -> Result<Leaders, InvalidAddress> {
        addresses.iter().map(|address| address.parse()).collect::<Result<_, _>>().map(Leaders)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_of_one_leader_are_together() {
        let leaders = [1, 2, 3, 2, 1].map(|port| BrokerAddress::new("127.0.0.1", port));
        let leaders = Leaders(leaders.to_vec());
        assert_eq!(leaders.groups(0..5), [vec![0, 4], vec![1, 3], vec![2]]);
        assert_eq!(leaders.groups([3]), [[3]]);
        let told = serde_json::to_string(&leaders).expect("it is plain");
        assert_eq!(serde_json::from_str::<Leaders>(&told).expect("it is one"), leaders);
    }

    #[test]
    fn a_partition_without_a_leader_is_named() {
        let topic = TopicName::new("t").expect("a name");
        let error = Leaders::of(&ClusterMetadata::default(), &topic, 1);
        let error = error.expect_err("nothing is known").to_string();
        assert!(error.contains("t-0"), "{error}");
    }
}
