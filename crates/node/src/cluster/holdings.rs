//! What a broker's replicas take, and how full its disks are, in bytes.
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 1 | layout | 0 |
//! | 1 | fullest | how full the fullest disk of a log directory is, of 100 |
//! | 28 each | replicas | topic id (16), partition (4), size in bytes (8), big-endian |
//!
//! The question has no bytes.

use bytes::{Buf, BufMut};
use logway_model::{PartitionId, TopicId, Uuid};

use crate::Node;
use crate::tasks::off_thread;

const LAYOUT: u8 = 0;

const HEAD_BYTES: usize = 2;

const REPLICA_BYTES: usize = 28;

/// More are not told: a message has a bound.
const REPLICAS_MAX: usize = 1_000_000;

/// What a broker has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Holdings {
    /// How full the fullest disk is, of 100. 0 where no disk has answered.
    pub(super) fullest_percent: u8,
    /// The sizes of replicas, in bytes.
    pub(super) replicas: Vec<(TopicId, PartitionId, u64)>,
}

impl Holdings {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_BYTES + self.replicas.len() * REPLICA_BYTES);
        out.put_u8(LAYOUT);
        out.put_u8(self.fullest_percent);
        for (topic, partition, bytes) in &self.replicas {
            out.put_slice(&topic.0.0);
            out.put_i32(partition.0);
            out.put_u64(*bytes);
        }
        out
    }

    /// Reads what was told; `None` for bytes that are nothing of it, or of another version.
    pub(super) fn decode(mut bytes: &[u8]) -> Option<Holdings> {
        let is_whole =
            bytes.len() >= HEAD_BYTES && (bytes.len() - HEAD_BYTES).is_multiple_of(REPLICA_BYTES);
        if !is_whole || bytes.get_u8() != LAYOUT {
            return None;
        }
        let fullest_percent = bytes.get_u8();
        let replicas = bytes.chunks_exact(REPLICA_BYTES).map(|mut replica| {
            let mut topic = [0; 16];
            replica.copy_to_slice(&mut topic);
            (TopicId(Uuid(topic)), PartitionId(replica.get_i32()), replica.get_u64())
        });
        Some(Holdings { fullest_percent, replicas: replicas.collect() })
    }
}

impl Node {
    /// What this broker has now.
    pub(super) async fn holdings(&self) -> Holdings {
        self.refresh_disk_space().await;
        let fullest_percent = self.fullest_disk_percent();
        let dirs: Vec<_> = self.log_dirs.online().collect();
        let replicas = off_thread(move || {
            let logs = dirs.iter().flat_map(|dir| dir.logs());
            let sizes = logs
                .take(REPLICAS_MAX)
                .map(|log| (log.topic_id(), log.topic_partition().partition, log.size_bytes()));
            sizes.collect()
        });
        Holdings { fullest_percent, replicas: replicas.await }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holdings_are_read_as_they_were_written_and_nothing_else_is() {
        let replica =
            |id, partition, bytes| (TopicId(Uuid([id; 16])), PartitionId(partition), bytes);
        let holdings = Holdings {
            fullest_percent: 81,
            replicas: vec![replica(1, 0, 7), replica(2, 3, u64::MAX)],
        };
        let bytes = holdings.encode();
        assert_eq!(Holdings::decode(&bytes), Some(holdings.clone()));
        for end in 0..bytes.len() {
            let whole = end >= HEAD_BYTES && (end - HEAD_BYTES).is_multiple_of(REPLICA_BYTES);
            assert_eq!(Holdings::decode(&bytes[..end]).is_some(), whole, "{end}");
        }
        let mut other = bytes;
        other[0] = 1;
        assert_eq!(Holdings::decode(&other), None, "of another layout");
    }
}
