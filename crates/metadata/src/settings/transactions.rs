//! The broker settings of the transaction coordinator.

use super::broker::{PARTITIONS, REPLICAS};
use super::definition::{Kind, Setting};

/// By name.
pub(super) static TRANSACTION_SETTINGS: &[Setting] = &[
    Setting::at_start(
        "logway.transactions.max.bytes",
        Kind::long(1_048_576),
        Some("268435456"),
        "bytes",
        "The memory that all transactional ids share, with the partitions of their transactions. It has \
         room for some 300,000 ids. When an eighth of it is left, new ids are refused with \
         COORDINATOR_LOAD_IN_PROGRESS, at which clients try again.",
    ),
    Setting::at_start(
        "transaction.max.timeout.ms",
        Kind::int(1),
        Some("900000"),
        "ms",
        "The longest `transaction.timeout.ms` that a producer may ask for. A transaction that takes \
         longer than its producer's is aborted, so that `read_committed` consumers get on.",
    ),
    Setting::at_start(
        "transaction.state.log.min.isr",
        REPLICAS,
        None,
        "replicas",
        "`min.insync.replicas` of `__transaction_state` when it is made. Not set, that of any topic, which is 2 where \
         there are three replicas, as Kafka has it.",
    ),
    Setting::at_start(
        "transaction.state.log.num.partitions",
        PARTITIONS,
        Some("50"),
        "partitions",
        "The partitions of `__transaction_state`, which keeps the transactional ids; it is made when \
         the first producer asks for its coordinator.",
    ),
    Setting::at_start(
        "transaction.state.log.replication.factor",
        REPLICAS,
        None,
        "replicas",
        "How many replicas the partitions of `__transaction_state` get. Not set, as many as those of any topic \
         (`default.replication.factor`), where Kafka has 3.",
    ),
    Setting::at_start(
        "transaction.state.log.segment.bytes",
        Kind::int(1),
        Some("104857600"),
        "bytes",
        "The segment size of `__transaction_state`.",
    ),
    Setting::at_start(
        "transactional.id.expiration.ms",
        Kind::int(1),
        Some("604800000"),
        "ms",
        "How long a transactional id is remembered after its last transaction.",
    ),
];
