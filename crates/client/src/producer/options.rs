//! How a producer behaves.

use std::time::Duration;

use logway_record::Compression;

use super::TransactionOptions;

/// Whose acknowledgement a record needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acks {
    /// Nobody's: what is sent counts as stored, errors stay unknown.
    None,
    /// The leader's.
    Leader,
    /// That of all replicas in sync.
    All,
}

impl Acks {
    /// The number in a Produce request.
    pub fn to_wire(self) -> i16 {
        match self {
            Acks::None => 0,
            Acks::Leader => 1,
            Acks::All => -1,
        }
    }
}

/// How a producer behaves.
#[derive(Debug, Clone)]
pub struct ProducerOptions {
    /// Whose acknowledgement a record needs.
    pub acks: Acks,
    /// Whether requests may be repeated without storing records twice (KIP-98). It takes
    /// [`Acks::All`]; with less it is ignored, and only what was surely not stored is repeated.
    pub idempotence: bool,
    /// Whether to write by transactions, and how. It takes [`Acks::All`] and idempotence.
    pub transaction: Option<TransactionOptions>,
    /// How batches are compressed.
    pub compression: Compression,
    /// How large batches grow before compression, unless a single record is larger.
    pub batch_bytes: usize,
    /// How long an incomplete batch waits for more.
    pub linger: Duration,
    /// How much may wait for acknowledgement before [`super::Producer::send`] waits.
    pub buffer_bytes: usize,
    /// How many requests may be under way to one broker, and batches to one partition; at most 5
    /// with idempotence, as brokers remember that many.
    pub requests_in_flight_max: usize,
    /// How long to try to store a record, from its [`super::Producer::send`] on.
    pub delivery_timeout: Duration,
}

impl Default for ProducerOptions {
    fn default() -> ProducerOptions {
        ProducerOptions {
            acks: Acks::All,
            idempotence: true,
            transaction: None,
            compression: Compression::None,
            batch_bytes: 256 << 10,
            linger: Duration::from_millis(5),
            buffer_bytes: 32 << 20,
            requests_in_flight_max: BATCHES_REMEMBERED,
            delivery_timeout: Duration::from_secs(60),
        }
    }
}

/// How many of a producer's batches a broker remembers per partition, to know repetitions.
const BATCHES_REMEMBERED: usize = 5;

impl ProducerOptions {
    /// Whether the producer will be idempotent.
    pub fn is_idempotent(&self) -> bool {
        self.idempotence && self.acks == Acks::All
    }

    /// The bound on batches in flight that is kept to.
    pub(super) fn in_flight_max(&self) -> usize {
        let asked = self.requests_in_flight_max.max(1);
        if self.is_idempotent() { asked.min(BATCHES_REMEMBERED) } else { asked }
    }
}
