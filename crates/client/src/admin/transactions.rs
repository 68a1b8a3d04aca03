//! Transactions as their coordinators know them (KIP-664).

use std::collections::BTreeSet;

use logway_model::{
    BrokerId, PartitionId, ProducerEpoch, ProducerId, TimestampMs, TopicName, TopicPartition,
};
use logway_wire::messages::describe_transactions_response::TransactionState;
use logway_wire::messages::{DescribeTransactionsRequest, ListTransactionsRequest};
use logway_wire::{Request, WireString};

use crate::error::check;
use crate::{Client, ClientError, MissingTopic, TopicSelection};

/// Which transactional ids are listed: those that pass all of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TransactionFilter {
    /// Those in one of these states; none for all.
    pub states: Vec<String>,
    /// Those of these producers; none for all.
    pub producer_ids: Vec<ProducerId>,
}

/// A transactional id in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedTransaction {
    /// The id.
    pub transactional_id: String,
    /// The broker that coordinates it.
    pub coordinator: BrokerId,
    /// Its producer.
    pub producer_id: ProducerId,
    /// Where it is, such as `Ongoing`.
    pub state: String,
}

/// What its coordinator knows of a transactional id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedTransaction {
    /// The id.
    pub transactional_id: String,
    /// The broker that coordinates it.
    pub coordinator: BrokerId,
    /// Where it is, such as `Ongoing`.
    pub state: String,
    /// Its producer.
    pub producer_id: ProducerId,
    /// And that one's epoch.
    pub producer_epoch: ProducerEpoch,
    /// How long a transaction may take.
    pub timeout_ms: i32,
    /// When the transaction began; `None` if there is none.
    pub started: Option<TimestampMs>,
    /// What it has written to.
    pub partitions: Vec<TopicPartition>,
}

impl Client {
    /// Lists the transactional ids of all brokers, by id.
    ///
    /// # Errors
    ///
    /// That of any broker: a list that lacks ids would look like a complete one.
    pub async fn list_transactions(
        &self,
        filter: &TransactionFilter,
    ) -> Result<Vec<ListedTransaction>, ClientError> {
        let no_topics = BTreeSet::new();
        let selection = TopicSelection::Named(&no_topics);
        let metadata = self.refresh_metadata(selection, MissingTopic::Refuse).await?;
        let mut listed = Vec::new();
        for &broker in metadata.brokers.keys() {
            listed.extend(self.list_transactions_of(broker, filter).await?);
        }
        listed.sort_by(|a, b| a.transactional_id.cmp(&b.transactional_id));
        Ok(listed)
    }

    async fn list_transactions_of(
        &self,
        broker: BrokerId,
        filter: &TransactionFilter,
    ) -> Result<Vec<ListedTransaction>, ClientError> {
        self.backoff().repeat(|| self.list_transactions_once(broker, filter)).await
    }

    async fn list_transactions_once(
        &self,
        broker: BrokerId,
        filter: &TransactionFilter,
    ) -> Result<Vec<ListedTransaction>, ClientError> {
        let connection = self.broker(broker).await?;
        let states = filter.states.iter().map(|state| WireString::copy_of(state));
        let request = ListTransactionsRequest {
            state_filters: states.collect(),
            producer_id_filters: filter.producer_ids.iter().map(|id| id.0).collect(),
            ..Default::default()
        };
        let response = connection.call(&request).await?;
        let what = || format!("list the transactions of broker {broker}");
        check(what, response.error_code, None)?;
        let listed = response.transaction_states.into_iter().map(|state| ListedTransaction {
            transactional_id: state.transactional_id.into(),
            coordinator: broker,
            producer_id: ProducerId(state.producer_id),
            state: state.transaction_state.into(),
        });
        Ok(listed.collect())
    }

    /// What its coordinator knows of a transactional id.
    ///
    /// # Errors
    ///
    /// `TRANSACTIONAL_ID_NOT_FOUND`, and those of brokers that cannot be asked.
    pub async fn describe_transaction(
        &self,
        id: &str,
    ) -> Result<DescribedTransaction, ClientError> {
        self.backoff().repeat(|| self.describe_transaction_once(id)).await
    }

    async fn describe_transaction_once(
        &self,
        id: &str,
    ) -> Result<DescribedTransaction, ClientError> {
        let coordinator = self.find_transaction_coordinator(id).await?;
        let connection = self.connect(&coordinator.address).await?;
        let transactional_ids = vec![WireString::copy_of(id)];
        let request = DescribeTransactionsRequest { transactional_ids, ..Default::default() };
        let response = connection.call(&request).await?;
        let state = response.transaction_states.into_iter().next();
        let state = state.ok_or_else(|| ClientError::UnexpectedResponse {
            address: connection.address().clone(),
            api: DescribeTransactionsRequest::API_KEY.name(),
            problem: "no transaction".to_owned(),
        })?;
        check(|| format!("describe the transaction of '{id}'"), state.error_code, None)?;
        Ok(described(coordinator.id, state))
    }
}

fn described(coordinator: BrokerId, state: TransactionState) -> DescribedTransaction {
    let partitions = state.topics.iter().flat_map(|topic| {
        // A name that no topic can have would be a broker's mistake, and is left out.
        let name = TopicName::new(&topic.topic).ok();
        let partition =
            |number: &i32| name.clone().map(|name| TopicPartition::new(name, PartitionId(*number)));
        topic.partitions.iter().filter_map(partition).collect::<Vec<_>>()
    });
    DescribedTransaction {
        partitions: partitions.collect(),
        coordinator,
        producer_id: ProducerId(state.producer_id),
        producer_epoch: ProducerEpoch(state.producer_epoch),
        timeout_ms: state.transaction_timeout_ms,
        started: Some(TimestampMs(state.transaction_start_time_ms))
            .filter(|started| *started != TimestampMs::NONE),
        transactional_id: state.transactional_id.into(),
        state: state.transaction_state.into(),
    }
}
