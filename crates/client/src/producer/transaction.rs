//! The transactions of a producer (KIP-98), in the way of KIP-890: each end raises the epoch, and partitions become part of
//! a transaction by being written to.

use std::time::Duration;

use logway_model::{ErrorCode, ProducerEpoch, ProducerId};
use logway_record::TransactionOutcome;
use logway_wire::WireString;
use logway_wire::messages::{EndTxnRequest, InitProducerIdRequest};

use super::identity::ProducerIdentity;
use crate::coordinator::{AfterBreak, CoordinatorKey};
use crate::error::check;
use crate::{Client, ClientError};

/// The first version of EndTxn that raises the producer's epoch. Without that a late record could become part of the
/// next transaction.
const EPOCH_BUMP_FROM: i16 = 5;

/// How a producer writes transactions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionOptions {
    /// The transactional id. Of several producers that have it the last one counts: the others are fenced.
    pub id: String,
    /// How long a transaction may be open before its coordinator aborts it (`transaction.timeout.ms`).
    pub timeout: Duration,
}

/// What has been committed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CommittedTransactions {
    /// How many transactions; none without records.
    pub transactions: u64,
    /// How many records they had.
    pub records: u64,
}

/// What a producer knows of its transactions.
#[derive(Debug)]
pub(super) struct Transactions {
    client: Client,
    options: TransactionOptions,
    /// Who writes: not in a transaction that has ended, but in the next.
    identity: ProducerIdentity,
    /// The records of the transaction that is open; it is if there are any.
    open_records: u64,
    /// How the open transaction ends, once a coordinator may have heard so. It cannot end otherwise then.
    ending: Option<TransactionOutcome>,
    committed: CommittedTransactions,
}

impl Transactions {
    /// Becomes the producer of a transactional id, and fences those before. A transaction that one of them has open is
    /// aborted.
    pub(super) async fn init(
        client: &Client,
        options: TransactionOptions,
    ) -> Result<Transactions, ClientError> {
        check_versions(client, &options.id).await?;
        let timeout_ms = i32::try_from(options.timeout.as_millis()).unwrap_or(i32::MAX);
        let request = |_| InitProducerIdRequest {
            transactional_id: Some(WireString::copy_of(&options.id)),
            transaction_timeout_ms: timeout_ms,
            ..InitProducerIdRequest::default()
        };
        let key = CoordinatorKey::TransactionalId(&options.id);
        // Who asks twice is told a later epoch.
        let response = client
            .call_coordinator(key, i16::MAX, AfterBreak::Repeat, request, |response| {
                response.error_code
            })
            .await?;
        let what = || format!("become the producer of transactional id '{}'", options.id);
        check(what, response.error_code, None)?;
        let identity = identity(response.producer_id, response.producer_epoch);
        Ok(Transactions {
            client: client.clone(),
            options,
            identity,
            open_records: 0,
            ending: None,
            committed: CommittedTransactions::default(),
        })
    }

    /// Who writes.
    pub(super) fn identity(&self) -> ProducerIdentity {
        self.identity
    }

    /// Counts a record that was taken. The first one begins a transaction.
    pub(super) fn took_record(&mut self) {
        self.open_records += 1;
    }

    /// What has been committed.
    pub(super) fn committed(&self) -> CommittedTransactions {
        self.committed
    }

    /// Ends the open transaction, and returns how it has ended; `None` without one. When a coordinator may have heard of
    /// a commit, an abort comes too late.
    pub(super) async fn end(
        &mut self,
        asked: TransactionOutcome,
    ) -> Result<Option<TransactionOutcome>, ClientError> {
        if self.open_records == 0 {
            return Ok(None);
        }
        let outcome = *self.ending.get_or_insert(asked);
        match self.ask_for_end(outcome).await {
            Ok(next) => self.identity = next,
            Err(error) => {
                let is_refused = error.code().is_some_and(|code| !code.is_retriable());
                if is_refused {
                    self.ending = None;
                }
                // Who has fenced this producer has ended its transaction.
                let is_over = outcome == TransactionOutcome::Abort && is_fenced(&error);
                if !is_over {
                    return Err(error);
                }
            }
        }
        if outcome == TransactionOutcome::Commit {
            self.committed.transactions += 1;
            self.committed.records += self.open_records;
        }
        self.ending = None;
        self.open_records = 0;
        Ok(Some(outcome))
    }

    /// Asks until the coordinator says that the transaction has ended, and who the producer is in the next one. A
    /// request that is sent again is known by its epoch.
    async fn ask_for_end(
        &self,
        outcome: TransactionOutcome,
    ) -> Result<ProducerIdentity, ClientError> {
        let request = |_| EndTxnRequest {
            transactional_id: WireString::copy_of(&self.options.id),
            producer_id: self.identity.id.0,
            producer_epoch: self.identity.epoch.0,
            committed: outcome == TransactionOutcome::Commit,
            ..EndTxnRequest::default()
        };
        let key = CoordinatorKey::TransactionalId(&self.options.id);
        let response = self
            .client
            .call_coordinator(key, i16::MAX, AfterBreak::Repeat, request, |response| {
                response.error_code
            })
            .await?;
        let verb = match outcome {
            TransactionOutcome::Commit => "commit",
            TransactionOutcome::Abort => "abort",
        };
        let what = || format!("{verb} the transaction of '{}'", self.options.id);
        check(what, response.error_code, None)?;
        Ok(identity(response.producer_id, response.producer_epoch))
    }
}

/// Refuses coordinators that do not raise epochs.
async fn check_versions(client: &Client, id: &str) -> Result<(), ClientError> {
    let coordinator = client.find_transaction_coordinator(id).await?;
    let connection = client.connect(&coordinator.address).await?;
    connection.version_between::<EndTxnRequest>(EPOCH_BUMP_FROM, i16::MAX).map(drop)
}

fn identity(id: i64, epoch: i16) -> ProducerIdentity {
    ProducerIdentity { id: ProducerId(id), epoch: ProducerEpoch(epoch), is_transactional: true }
}

/// Whether somebody else has the transactional id now, or its coordinator has aborted what took too long.
fn is_fenced(error: &ClientError) -> bool {
    let is_over =
        |code| matches!(code, ErrorCode::ProducerFenced | ErrorCode::InvalidProducerEpoch);
    error.code().is_some_and(is_over)
}
