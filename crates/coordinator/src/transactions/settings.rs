//! What an operator can set.

use logway_model::ErrorCode;

/// The limits and times that a shard of transactions goes by.
///
/// Those that Kafka has keep its name (in the comments) and meaning. The others bound what Kafka leaves unbounded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionSettings {
    /// `transaction.max.timeout.ms`: InitProducerId asking for more gets INVALID_TRANSACTION_TIMEOUT. Kafka's default,
    /// 15 min.
    pub timeout_max_ms: i32,
    /// `transactional.id.expiration.ms`: how long an id is kept after its last transaction. Kafka's default, 7 days.
    pub id_expiration_ms: i64,
    /// How often ids are looked through for such, at most. Kafka's default, 1 h.
    pub id_expiration_check_interval_ms: u64,
    /// How long the coordinator waits before it tries again to write down what no client asks for. Default 1 s.
    pub retry_ms: u64,
    /// Partitions of a transaction. One more gets TRANSACTION_ABORTABLE. Default 20,000; Kafka has no limit.
    pub partitions_max: usize,
    /// Bytes of the record of a transaction's partitions, which is written anew with each that is added. Beyond it the
    /// same. Default 512 KiB; Kafka has the `max.message.bytes` of the topic.
    pub partitions_bytes_max: usize,
    /// Tombstones of one append. Default 1000.
    pub append_records_max: usize,
}

impl TransactionSettings {
    /// Whether a producer may have such a transaction timeout; else `INVALID_TRANSACTION_TIMEOUT`.
    pub fn check_timeout(&self, timeout_ms: i32) -> Result<(), ErrorCode> {
        match timeout_ms > 0 && timeout_ms <= self.timeout_max_ms {
            true => Ok(()),
            false => Err(ErrorCode::InvalidTransactionTimeout),
        }
    }
}

impl Default for TransactionSettings {
    fn default() -> TransactionSettings {
        TransactionSettings {
            timeout_max_ms: 15 * 60 * 1000,
            id_expiration_ms: 7 * 24 * 60 * 60 * 1000,
            id_expiration_check_interval_ms: 60 * 60 * 1000,
            retry_ms: 1_000,
            partitions_max: 20_000,
            partitions_bytes_max: 512 << 10,
            append_records_max: 1_000,
        }
    }
}
