//! A transaction that is open in a partition, as commands print it.

use logway_client::OpenTransaction;
use schemars::JsonSchema;
use serde::Serialize;

/// A transaction that is open in the log of a partition.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct OpenRow {
    pub(super) topic: String,
    pub(super) partition: i32,
    /// The offset of its first record
    pub(super) start_offset: i64,
    pub(super) producer_id: i64,
    pub(super) producer_epoch: i16,
    /// That of the coordinator that ended the producer's last transaction there; `null` if there was none
    pub(super) coordinator_epoch: Option<i32>,
    /// The time of its last record
    pub(super) last_timestamp_ms: i64,
}

impl From<&OpenTransaction> for OpenRow {
    fn from(open: &OpenTransaction) -> OpenRow {
        OpenRow {
            topic: open.partition.topic.to_string(),
            partition: open.partition.partition.0,
            start_offset: open.start.0,
            producer_id: open.producer_id.0,
            producer_epoch: open.producer_epoch.0,
            coordinator_epoch: open.coordinator_epoch,
            last_timestamp_ms: open.last_timestamp.0,
        }
    }
}
