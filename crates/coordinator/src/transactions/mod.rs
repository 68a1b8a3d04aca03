//! The coordinator of transactions, as a state machine.
//!
//! A [`TransactionShard`] has the transactional ids of one partition of `__transaction_state`: who their producers are,
//! which partitions their transactions have written to, how far their ends are. It follows Kafka 4.3 (KIP-98, 360, 588,
//! 664, 890) and is driven as a shard of groups is: see the [crate's documentation](crate). In addition it has
//! *errands*:
//!
//! 1. When the end of a transaction is durable, [`Effect::Errand`](crate::Effect::Errand) says which markers are to be
//!    written to which partitions. The client is told then: it need not wait for the markers.
//! 2. The driver's errand tries until each marker is written, or its partition is no more, and then calls
//!    [`TransactionShard::markers_written`].
//! 3. The shard writes down that the transaction is complete. Until then the producer of the id has to wait.
//!
//! A shard that is loaded begins the errands of transactions that have ended and are not complete. So each marker is
//! written at least once. A marker that is written twice changes nothing.
//!
//! One append of an id is on its way at a time; who asks meanwhile is told CONCURRENT_TRANSACTIONS, and asks again.

mod machine;
mod outbox;
mod record;
mod request;
mod settings;
mod shard;
mod transaction;

use std::sync::Arc;

use crate::effect::Effect;
use crate::ids::TransactionalId;

pub use logway_record::TransactionOutcome;
pub use record::{TRANSACTIONS_TOPIC, TransactionRecord};
pub use request::{ListedTransaction, TransactionFilter, TransactionReply, TransactionRequest};
pub use settings::TransactionSettings;
pub use shard::TransactionShard;
pub use transaction::{Producer, Transaction, TransactionPartitions, TransactionState};

/// An effect of a [`TransactionShard`].
pub type TransactionEffect = Effect<TransactionReply, TransactionRecord, MarkerOrder>;

/// Markers that are to be written: one to each partition of a transaction.
#[derive(Debug, Clone, PartialEq)]
pub struct MarkerOrder {
    /// Whose transaction has ended.
    pub transactional_id: TransactionalId,
    /// How: its state is PrepareCommit or PrepareAbort.
    pub transaction: Arc<Transaction>,
}

impl MarkerOrder {
    /// What the markers say.
    pub fn outcome(&self) -> TransactionOutcome {
        self.transaction.state.prepared().expect("markers are of transactions that have ended")
    }
}
