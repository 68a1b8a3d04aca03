//! What is asked of a shard of transactions, and what it says.

use std::sync::Arc;

use logway_model::{ErrorCode, ProducerId, TopicPartition, TransactionVersion};

use super::TransactionOutcome;
use super::transaction::{Producer, Transaction, TransactionState};
use crate::ids::TransactionalId;

/// The requests that a shard of transactions answers.
#[derive(Debug, Clone)]
pub enum TransactionRequest {
    /// Become the producer of a transactional id, and fence those before.
    InitProducerId {
        /// The id.
        transactional_id: TransactionalId,
        /// How long its transactions may take.
        timeout_ms: i32,
        /// Who the client believes to be, if it has had an error (KIP-360).
        expected: Option<Producer>,
        /// An id that no producer ever had, if the shard has said that it needs one.
        fresh_id: Option<ProducerId>,
    },
    /// Add partitions to the transaction, which begins with the first.
    AddPartitions {
        /// The id.
        transactional_id: TransactionalId,
        /// Its producer.
        producer: Producer,
        /// What is added.
        partitions: Vec<TopicPartition>,
        /// The protocol of the client.
        version: TransactionVersion,
    },
    /// Say of each partition whether it is part of the transaction.
    VerifyPartitions {
        /// The id.
        transactional_id: TransactionalId,
        /// Its producer.
        producer: Producer,
        /// What is asked about.
        partitions: Vec<TopicPartition>,
    },
    /// Commit or abort.
    EndTxn {
        /// The id.
        transactional_id: TransactionalId,
        /// Its producer.
        producer: Producer,
        /// Which.
        outcome: TransactionOutcome,
        /// The protocol of the client.
        version: TransactionVersion,
        /// An id that no producer ever had, if the shard has said that it needs one.
        fresh_id: Option<ProducerId>,
    },
    /// Describe those of the shard's ids.
    Describe(Vec<TransactionalId>),
    /// List the shard's ids.
    List(TransactionFilter),
}

/// Which transactions are listed: those that pass all of it.
#[derive(Debug, Clone, Default)]
pub struct TransactionFilter {
    /// Those of these producers; none for all.
    pub producer_ids: Vec<ProducerId>,
    /// Those in one of these states; `None` for all.
    pub states: Option<Vec<TransactionState>>,
    /// Those that began longer ago, in milliseconds.
    pub longer_than_ms: Option<i64>,
}

/// What a shard says: each to the request of its name, or that it needs an id first.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "each is the answer to the request of its name")]
pub enum TransactionReply {
    InitProducerId(Result<Producer, ErrorCode>),
    AddPartitions(Result<(), ErrorCode>),
    /// For each partition, in the order of the request.
    VerifyPartitions(Vec<Result<(), ErrorCode>>),
    /// Who the client is from now on.
    EndTxn(Result<Producer, ErrorCode>),
    Describe(Vec<Result<Arc<Transaction>, ErrorCode>>),
    List(Result<Vec<ListedTransaction>, ErrorCode>),
    /// The request is to be made again with an id that no producer ever had.
    NeedsProducerId,
}

/// A transactional id in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedTransaction {
    /// The id.
    pub transactional_id: TransactionalId,
    /// Its producer.
    pub producer_id: ProducerId,
    /// Its state.
    pub state: TransactionState,
}

impl TransactionRequest {
    /// The answer of a shard that cannot serve the request now.
    pub(crate) fn refused(&self, code: ErrorCode) -> TransactionReply {
        match self {
            TransactionRequest::InitProducerId { .. } => {
                TransactionReply::InitProducerId(Err(code))
            }
            TransactionRequest::AddPartitions { .. } => TransactionReply::AddPartitions(Err(code)),
            TransactionRequest::VerifyPartitions { partitions, .. } => {
                TransactionReply::VerifyPartitions(vec![Err(code); partitions.len()])
            }
            TransactionRequest::EndTxn { .. } => TransactionReply::EndTxn(Err(code)),
            TransactionRequest::Describe(ids) => {
                TransactionReply::Describe(vec![Err(code); ids.len()])
            }
            TransactionRequest::List(_) => TransactionReply::List(Err(code)),
        }
    }
}

impl TransactionReply {
    /// The same reply when the change that it tells of could not be made durable.
    pub(crate) fn failed(self, code: ErrorCode) -> TransactionReply {
        match self {
            TransactionReply::InitProducerId(_) => TransactionReply::InitProducerId(Err(code)),
            TransactionReply::AddPartitions(_) => TransactionReply::AddPartitions(Err(code)),
            TransactionReply::EndTxn(_) => TransactionReply::EndTxn(Err(code)),
            // They tell of no change.
            other => other,
        }
    }
}
