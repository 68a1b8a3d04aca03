//! Transactions as the logs of partitions know them, and those that no coordinator will ever end (KIP-664).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use logway_model::{
    BrokerId, ErrorCode, Offset, PartitionId, ProducerEpoch, ProducerId, TimestampMs, TopicName,
    TopicPartition,
};
use logway_wire::messages::describe_producers_request::TopicRequest;
use logway_wire::messages::describe_producers_response::ProducerState;
use logway_wire::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use logway_wire::messages::{DescribeProducersRequest, WriteTxnMarkersRequest};
use logway_wire::{Request, WireString};

use super::{TransactionFilter, by_topic, topics_of};
use crate::error::check;
use crate::{Client, ClientError, MissingTopic, TopicSelection};

/// How many partitions one request is about, so that no broker builds a giant answer. As Kafka's tool.
const PARTITIONS_PER_REQUEST: usize = 500;

/// Where coordinators keep transactional ids.
const TRANSACTIONS_TOPIC: &str = "__transaction_state";

/// A transaction that is open in the log of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenTransaction {
    /// The partition.
    pub partition: TopicPartition,
    /// Whose it is.
    pub producer_id: ProducerId,
    /// And that one's epoch.
    pub producer_epoch: ProducerEpoch,
    /// That of the coordinator that ended the producer's last transaction there; `None` if there was none.
    pub coordinator_epoch: Option<i32>,
    /// The offset of its first record.
    pub start: Offset,
    /// The time of its last record.
    pub last_timestamp: TimestampMs,
}

impl Client {
    /// The transactions that are open in the logs of partitions, by the word of their leaders.
    ///
    /// # Errors
    ///
    /// That of any partition, after the client's patience if a later attempt may succeed.
    pub async fn open_transactions(
        &self,
        partitions: &BTreeSet<TopicPartition>,
    ) -> Result<Vec<OpenTransaction>, ClientError> {
        let mut described = BTreeMap::new();
        let mut backoff = self.backoff();
        loop {
            let asked = partitions.iter().filter(|partition| !described.contains_key(*partition));
            let asked: BTreeSet<TopicPartition> = asked.cloned().collect();
            let error = match self.describe_producers_once(&asked, &mut described).await {
                Ok(()) => return Ok(described.into_values().flatten().collect()),
                Err(error) => error,
            };
            if !error.is_retriable() || !backoff.pause(&error).await {
                return Err(error);
            }
            let topics = topics_of(&asked);
            self.refresh_metadata(TopicSelection::Named(&topics), MissingTopic::Refuse).await?;
        }
    }

    async fn describe_producers_once(
        &self,
        partitions: &BTreeSet<TopicPartition>,
        described: &mut BTreeMap<TopicPartition, Vec<OpenTransaction>>,
    ) -> Result<(), ClientError> {
        for (leader, led) in self.by_leader(partitions.iter().cloned())? {
            for some in led.chunks(PARTITIONS_PER_REQUEST) {
                self.describe_producers_of(leader, some, described).await?;
            }
        }
        match partitions.iter().find(|partition| !described.contains_key(*partition)) {
            None => Ok(()),
            Some(partition) => Err(ClientError::NoLeader { partition: partition.clone() }),
        }
    }

    async fn describe_producers_of(
        &self,
        leader: BrokerId,
        partitions: &[TopicPartition],
        described: &mut BTreeMap<TopicPartition, Vec<OpenTransaction>>,
    ) -> Result<(), ClientError> {
        let topics = by_topic(partitions.iter().cloned()).into_iter();
        let topics = topics.map(|(name, partition_indexes)| TopicRequest {
            name: WireString::copy_of(name.as_str()),
            partition_indexes,
            ..TopicRequest::default()
        });
        let request = DescribeProducersRequest { topics: topics.collect(), ..Default::default() };
        let response = self.broker(leader).await?.call(&request).await?;
        for topic in &response.topics {
            let Ok(name) = TopicName::new(&topic.name) else { continue };
            for answer in &topic.partitions {
                let index = PartitionId(answer.partition_index);
                let partition = TopicPartition::new(name.clone(), index);
                let what = || format!("describe the producers of {partition}");
                check(what, answer.error_code, answer.error_message.as_ref())?;
                let open = answer.active_producers.iter();
                let open = open.filter_map(|producer| open_transaction(&partition, producer));
                let open = open.collect();
                described.insert(partition, open);
            }
        }
        Ok(())
    }

    /// Of transactions that are open in logs, those that hang: no coordinator knows of them, so that nobody will end
    /// them. Readers of committed records wait for them for ever.
    ///
    /// Transactional ids that the client may not describe are taken for unknown.
    ///
    /// # Errors
    ///
    /// Those of brokers that cannot be asked: what a coordinator does not tell would look as if it hung.
    pub async fn hanging_among(
        &self,
        open: Vec<OpenTransaction>,
    ) -> Result<Vec<OpenTransaction>, ClientError> {
        if open.is_empty() {
            return Ok(open);
        }
        self.check_coordinators().await?;
        let producers: BTreeSet<ProducerId> = open.iter().map(|open| open.producer_id).collect();
        let expected = self.partitions_of_producers(producers).await?;
        let is_expected = |open: &OpenTransaction| {
            expected.get(&open.producer_id).is_some_and(|known| known.contains(&open.partition))
        };
        let suspects: Vec<_> = open.into_iter().filter(|open| !is_expected(open)).collect();
        // A transaction that has ended since the logs were asked looks the same to its coordinator.
        let partitions = suspects.iter().map(|open| open.partition.clone()).collect();
        let still_open = self.open_transactions(&partitions).await?;
        let is_same = |a: &OpenTransaction, b: &OpenTransaction| {
            (&a.partition, a.producer_id, a.start) == (&b.partition, b.producer_id, b.start)
        };
        let hangs = |open: &OpenTransaction| still_open.iter().any(|still| is_same(still, open));
        Ok(suspects.into_iter().filter(hangs).collect())
    }

    /// Whether every coordinator can be asked.
    async fn check_coordinators(&self) -> Result<(), ClientError> {
        let name = TopicName::new(TRANSACTIONS_TOPIC).expect("a name");
        let names = BTreeSet::from([name.clone()]);
        let selection = TopicSelection::Named(&names);
        let metadata = self.refresh_metadata(selection, MissingTopic::Refuse).await?;
        // If there is no such topic, nobody has a transaction.
        let partitions = metadata.topics.get(&name).into_iter().flat_map(|it| &it.partitions);
        match partitions.into_iter().find(|partition| partition.leader.is_none()) {
            None => Ok(()),
            Some(leaderless) => {
                let partition = TopicPartition::new(name, leaderless.id);
                Err(ClientError::NoLeader { partition })
            }
        }
    }

    /// The partitions in which coordinators are going to end transactions of producers.
    async fn partitions_of_producers(
        &self,
        producer_ids: BTreeSet<ProducerId>,
    ) -> Result<HashMap<ProducerId, BTreeSet<TopicPartition>>, ClientError> {
        let producer_ids = producer_ids.into_iter().collect();
        let filter = TransactionFilter { producer_ids, ..TransactionFilter::default() };
        let mut of_producers: HashMap<_, BTreeSet<TopicPartition>> = HashMap::new();
        for listed in self.list_transactions(&filter).await? {
            match self.describe_transaction(&listed.transactional_id).await {
                Ok(described) => of_producers
                    .entry(described.producer_id)
                    .or_default()
                    .extend(described.partitions),
                // It was forgotten in between.
                Err(error) if error.code() == Some(ErrorCode::TransactionalIdNotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(of_producers)
    }

    /// Ends a transaction that hangs in a partition, so that its records are aborted there. Nobody is told: the
    /// partition must be part of no transaction that a coordinator knows.
    ///
    /// # Errors
    ///
    /// `INVALID_PRODUCER_EPOCH` and `TRANSACTION_COORDINATOR_FENCED` when the producer has gone on since.
    pub async fn abort_in_partition(&self, open: &OpenTransaction) -> Result<(), ClientError> {
        let mut backoff = self.backoff();
        loop {
            // A marker that is written twice does no harm.
            let error = match self.abort_in_partition_once(open).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            if !error.is_retriable() || !backoff.pause(&error).await {
                return Err(error);
            }
            let topics = topics_of([&open.partition]);
            self.refresh_metadata(TopicSelection::Named(&topics), MissingTopic::Refuse).await?;
        }
    }

    async fn abort_in_partition_once(&self, open: &OpenTransaction) -> Result<(), ClientError> {
        let partition = &open.partition;
        let no_leader = || ClientError::NoLeader { partition: partition.clone() };
        let leader = self.by_leader([partition.clone()])?.into_keys().next();
        let connection = self.broker(leader.ok_or_else(no_leader)?).await?;
        let request =
            WriteTxnMarkersRequest { markers: vec![abort_marker(open)], ..Default::default() };
        let response = connection.call(&request).await?;
        let topics = response.markers.iter().flat_map(|marker| &marker.topics);
        let result = topics.flat_map(|topic| &topic.partitions).next();
        let result = result.ok_or_else(|| ClientError::UnexpectedResponse {
            address: connection.address().clone(),
            api: WriteTxnMarkersRequest::API_KEY.name(),
            problem: "no partition".to_owned(),
        })?;
        let what = || format!("abort the transaction at offset {} of {partition}", open.start);
        check(what, result.error_code, None)
    }
}

/// The marker is of version 0 (KIP-1228): it has the epoch of the records, and ends what that epoch has open.
fn abort_marker(open: &OpenTransaction) -> WritableTxnMarker {
    let topic = WritableTxnMarkerTopic {
        name: WireString::copy_of(open.partition.topic.as_str()),
        partition_indexes: vec![open.partition.partition.0],
        ..WritableTxnMarkerTopic::default()
    };
    WritableTxnMarker {
        producer_id: open.producer_id.0,
        producer_epoch: open.producer_epoch.0,
        transaction_result: false,
        topics: vec![topic],
        // No coordinator has a lower epoch.
        coordinator_epoch: open.coordinator_epoch.unwrap_or(0),
        ..WritableTxnMarker::default()
    }
}

fn open_transaction(
    partition: &TopicPartition,
    producer: &ProducerState,
) -> Option<OpenTransaction> {
    let known = |number: i32| (number >= 0).then_some(number);
    Some(OpenTransaction {
        partition: partition.clone(),
        producer_id: ProducerId(producer.producer_id),
        producer_epoch: ProducerEpoch(i16::try_from(producer.producer_epoch).ok()?),
        coordinator_epoch: known(producer.coordinator_epoch),
        // Negative where none is open.
        start: Some(Offset(producer.current_txn_start_offset)).filter(|start| start.0 >= 0)?,
        last_timestamp: TimestampMs(producer.last_timestamp),
    })
}
