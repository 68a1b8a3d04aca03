//! Administering a cluster: each call is a method of [`crate::Client`].

mod acls;
mod cluster;
mod configs;
mod delegation_tokens;
mod events;
mod features;
mod log_dirs;
mod offsets;
mod open_transactions;
mod quorum;
mod reassignments;
mod topics;
mod transactions;
mod users;

use std::collections::{BTreeMap, BTreeSet};

pub use cluster::{ClusterDescription, DescribedBroker};
pub use configs::{ConfigChange, ConfigEntry, ConfigKind, ConfigResource, ConfigSource};
pub use delegation_tokens::{DescribedToken, NewToken};
pub use events::{ClusterChange, knows_no_changes};
pub use features::FeatureLevels;
pub use log_dirs::LogDir;
use logway_model::{BrokerId, ErrorCode, TopicName, TopicPartition};
use logway_wire::Request;
pub use offsets::{ListedOffset, ListedOffsets, OffsetAt};
pub use open_transactions::OpenTransaction;
pub use quorum::{QuorumDescription, QuorumNode, QuorumReplica};
pub use reassignments::{OngoingMove, Placement};
pub use topics::{CreatedTopic, NewTopic};
pub use transactions::{DescribedTransaction, ListedTransaction, TransactionFilter};
pub use users::DescribedUser;

use crate::{Client, ClientError, Connection, MissingTopic, TopicSelection};

/// What a call that is about several topics did with each.
pub type TopicOutcomes<T> = Vec<(TopicName, Result<T, ClientError>)>;

/// How long a broker may take to carry out a change of the cluster; less than the client waits for
/// the answer.
const CHANGE_TIMEOUT_MS: i32 = 20_000;

impl Client {
    /// Asks the controller for a change, which is not repeated unless the broker answered that it
    /// is not the controller and so did nothing.
    async fn change<R: Request>(
        &self,
        request: &R,
        codes: impl Fn(&R::Response) -> Vec<i16>,
    ) -> Result<R::Response, ClientError> {
        let (response, _controller) = self.change_at(request, codes).await?;
        Ok(response)
    }

    /// The same, with a connection to the broker that answered.
    async fn change_at<R: Request>(
        &self,
        request: &R,
        codes: impl Fn(&R::Response) -> Vec<i16>,
    ) -> Result<(R::Response, Connection), ClientError> {
        let mut backoff = self.backoff();
        loop {
            let controller = self.controller().await?;
            let response = controller.call(request).await?;
            let code = ErrorCode::NotController;
            if !codes(&response).contains(&code.code()) {
                return Ok((response, controller));
            }
            let what = "find the controller".to_owned();
            if !backoff.pause(&ClientError::Refused { what, code, message: None }).await {
                return Ok((response, controller));
            }
            self.refresh_metadata(TopicSelection::Named(&BTreeSet::new()), MissingTopic::Refuse)
                .await?;
        }
    }

    /// Which broker to ask about which of the partitions, after what is known at present.
    ///
    /// # Errors
    ///
    /// A partition that does not exist, or has no leader.
    pub(crate) fn by_leader(
        &self,
        partitions: impl IntoIterator<Item = TopicPartition>,
    ) -> Result<BTreeMap<BrokerId, Vec<TopicPartition>>, ClientError> {
        let metadata = self.metadata();
        let mut by_leader: BTreeMap<BrokerId, Vec<TopicPartition>> = BTreeMap::new();
        for partition in partitions {
            let Some(known) = metadata.partition(&partition) else {
                let topic = metadata.topics.get(&partition.topic);
                return Err(ClientError::NoSuchPartition {
                    partitions: topic.map_or(0, |topic| topic.partitions.len()),
                    topic: partition.topic,
                    partition: partition.partition,
                });
            };
            let leader = known
                .leader
                .ok_or_else(|| ClientError::NoLeader { partition: partition.clone() })?;
            by_leader.entry(leader).or_default().push(partition);
        }
        Ok(by_leader)
    }
}

/// Partitions grouped as requests want them: by topic.
pub(crate) fn by_topic(
    partitions: impl IntoIterator<Item = TopicPartition>,
) -> BTreeMap<TopicName, Vec<i32>> {
    let mut by_topic: BTreeMap<TopicName, Vec<i32>> = BTreeMap::new();
    for partition in partitions {
        by_topic.entry(partition.topic).or_default().push(partition.partition.0);
    }
    by_topic
}

/// The topics of some partitions.
pub(crate) fn topics_of<'a>(
    partitions: impl IntoIterator<Item = &'a TopicPartition>,
) -> BTreeSet<TopicName> {
    partitions.into_iter().map(|partition| partition.topic.clone()).collect()
}
