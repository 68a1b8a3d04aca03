//! Transactions: what clients and other brokers ask of the coordinator.

pub(crate) mod add_offsets_to_txn;
pub(crate) mod add_partitions_to_txn;
pub(crate) mod end_txn;
pub(crate) mod init_producer_id;
pub(crate) mod membership;
pub(crate) mod txn_offset_commit;

pub(crate) mod describe_transactions;
pub(crate) mod list_transactions;

use logway_coordinator::transactions::Producer;
use logway_model::{ErrorCode, ProducerEpoch, ProducerId};

/// The producer of a request.
fn producer(id: i64, epoch: i16) -> Producer {
    Producer { id: ProducerId(id), epoch: ProducerEpoch(epoch) }
}

/// What a client is told who may not know that it is fenced (KIP-588), or what it can abort (KIP-1050).
fn known_code(code: ErrorCode, knows_fenced: bool, knows_abortable: bool) -> ErrorCode {
    match code {
        ErrorCode::ProducerFenced if !knows_fenced => ErrorCode::InvalidProducerEpoch,
        ErrorCode::TransactionAbortable if !knows_abortable => ErrorCode::InvalidTxnState,
        code => code,
    }
}

/// An empty id is no id.
fn check_id(id: &str) -> Result<(), ErrorCode> {
    match id.is_empty() {
        true => Err(ErrorCode::InvalidRequest),
        false => Ok(()),
    }
}
