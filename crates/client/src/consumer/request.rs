//! Fetch requests and the answers to them, in our own terms.

use std::collections::BTreeMap;

use bytes::Bytes;
use logway_model::{Offset, PartitionId, TopicId, TopicName, TopicPartition};
use logway_wire::WireString;
use logway_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use logway_wire::messages::fetch_response::AbortedTransaction;
use logway_wire::messages::{FetchRequest, FetchResponse};

use super::ConsumerOptions;
use crate::{ClientError, ClusterMetadata, Connection};

/// The version that replaced topic names by topic ids (KIP-516), less one.
const LAST_VERSION_WITH_NAMES: i16 = 12;

/// Consumers take part in no session (KIP-227): each request stands for itself.
const NO_SESSION: i32 = 0;
const NO_SESSION_EPOCH: i32 = -1;

/// What to ask a broker: where to read on in some of its partitions.
#[derive(Debug, Clone)]
pub(super) struct Fetch {
    request: FetchRequest,
    names: BTreeMap<TopicId, TopicName>,
    has_topic_ids: bool,
}

/// The answer about one partition.
#[derive(Debug)]
pub(super) struct FetchedPartition {
    pub(super) partition: TopicPartition,
    /// `None` in versions that name topics.
    pub(super) topic_id: Option<TopicId>,
    pub(super) error_code: i16,
    pub(super) records: Bytes,
    /// The transactions that were aborted and have records there; none unless they matter to the reader.
    pub(super) aborted: Vec<AbortedTransaction>,
}

impl Fetch {
    /// Asks for partitions, in this order.
    pub(super) fn new(
        wanted: &[(TopicPartition, Offset)],
        metadata: &ClusterMetadata,
        options: &ConsumerOptions,
    ) -> Fetch {
        let mut names = BTreeMap::new();
        let mut has_topic_ids = true;
        let mut topics: Vec<FetchTopic> = Vec::new();
        for (partition, offset) in wanted {
            let entry = FetchPartition {
                partition: partition.partition.0,
                fetch_offset: offset.0,
                partition_max_bytes: wire_bytes(options.partition_bytes_max),
                ..FetchPartition::default()
            };
            let same = |topic: &&mut FetchTopic| topic.topic == partition.topic.as_str();
            if let Some(topic) = topics.iter_mut().find(same) {
                topic.partitions.push(entry);
                continue;
            }
            let id = metadata.topic_id(&partition.topic);
            has_topic_ids &= id.is_some();
            names.extend(id.map(|id| (id, partition.topic.clone())));
            topics.push(FetchTopic {
                // Each version writes the one of the two that it has.
                topic: WireString::copy_of(partition.topic.as_str()),
                topic_id: id.unwrap_or_default().0,
                partitions: vec![entry],
                ..FetchTopic::default()
            });
        }
        let request = FetchRequest {
            max_wait_ms: i32::try_from(options.wait_max.as_millis()).unwrap_or(i32::MAX),
            min_bytes: 1,
            max_bytes: wire_bytes(options.fetch_bytes_max),
            isolation_level: options.isolation.to_wire(),
            session_id: NO_SESSION,
            session_epoch: NO_SESSION_EPOCH,
            topics,
            ..FetchRequest::default()
        };
        Fetch { request, names, has_topic_ids }
    }

    /// Asks, and waits for what comes.
    pub(super) async fn run(
        self,
        connection: &Connection,
        options: &ConsumerOptions,
    ) -> Result<FetchResponse, ClientError> {
        let version_max = if self.has_topic_ids { i16::MAX } else { LAST_VERSION_WITH_NAMES };
        let version = connection.version_for::<FetchRequest>(version_max)?;
        let pending = connection.send(&self.request, version).await?;
        let mut response = pending.with_extra_patience(options.wait_max).response().await?;
        for topic in &mut response.responses {
            if let Some(name) = self.names.get(&TopicId(topic.topic_id)) {
                topic.topic = WireString::copy_of(name.as_str());
            }
        }
        Ok(response)
    }
}

/// The partitions in a response of [`Fetch::run`].
pub(super) fn partitions(response: FetchResponse) -> impl Iterator<Item = FetchedPartition> {
    response.responses.into_iter().flat_map(|topic| {
        let name = TopicName::new(&topic.topic).ok();
        let topic_id = Some(TopicId(topic.topic_id)).filter(|id| !id.0.is_zero());
        topic.partitions.into_iter().filter_map(move |partition| {
            let index = PartitionId(partition.partition_index);
            let records = partition.records.and_then(|records| records.into_bytes());
            Some(FetchedPartition {
                partition: TopicPartition::new(name.clone()?, index),
                topic_id,
                error_code: partition.error_code,
                records: records.unwrap_or_default(),
                aborted: partition.aborted_transactions.unwrap_or_default(),
            })
        })
    })
}

fn wire_bytes(bytes: u32) -> i32 {
    i32::try_from(bytes).unwrap_or(i32::MAX)
}
