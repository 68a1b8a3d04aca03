//! Which partition a record goes to.

use logway_model::PartitionId;

/// Chooses partitions as the Java client does: by the key's hash if there is a key, and otherwise
/// one partition for a while and then the next, so that batches grow large.
#[derive(Debug)]
pub struct Partitioner {
    partitions: u32,
    sticky: u32,
}

impl Partitioner {
    /// For a topic of that many partitions, 1 to `i32::MAX`.
    ///
    /// Records without a key start at `first % partitions`: many short-lived producers that each
    /// begin at their own place spread their records evenly.
    pub fn new(partitions: u32, first: u32) -> Partitioner {
        assert!(
            (1..=i32::MAX as u32).contains(&partitions),
            "a topic has 1 to 2^31 - 1 partitions"
        );
        Partitioner { partitions, sticky: first % partitions }
    }

    /// The partition of a key: that of Kafka's Java client, so that both agree on a key.
    pub fn for_key(&self, key: &[u8]) -> PartitionId {
        let positive = murmur2(key) & 0x7fff_ffff;
        partition_id(positive % self.partitions)
    }

    /// The partition that records without a key go to at present.
    pub fn sticky(&self) -> PartitionId {
        partition_id(self.sticky)
    }

    /// Moves on, because a batch for the present partition is complete: to the next partition
    /// that is available, or just to the next one if none is.
    pub fn advance(&mut self, is_available: impl Fn(PartitionId) -> bool) {
        let (present, partitions) = (u64::from(self.sticky), u64::from(self.partitions));
        // Less than 2^32, as the number of partitions is.
        let ahead = |steps| ((present + steps) % partitions) as u32;
        let mut others = (1..=partitions).map(ahead);
        let available = others.find(|&index| is_available(partition_id(index)));
        self.sticky = available.unwrap_or(ahead(1));
    }
}

fn partition_id(index: u32) -> PartitionId {
    PartitionId(i32::try_from(index).expect("a topic has at most 2^31 - 1 partitions"))
}

/// MurmurHash2 of Austin Appleby, 32 bits, with the seed that Kafka's default partitioner uses.
pub fn murmur2(data: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const MIX: u32 = 0x5bd1_e995;
    const SHIFT: u32 = 24;

    let (words, tail) = data.as_chunks::<4>();
    // The hash takes the length modulo 2^32.
    let mut hash = SEED ^ (data.len() as u32);
    for word in words {
        let mut mixed = u32::from_le_bytes(*word).wrapping_mul(MIX);
        mixed ^= mixed >> SHIFT;
        hash = hash.wrapping_mul(MIX) ^ mixed.wrapping_mul(MIX);
    }
    if !tail.is_empty() {
        for (index, &byte) in tail.iter().enumerate() {
            hash ^= u32::from(byte) << (8 * index);
        }
        hash = hash.wrapping_mul(MIX);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MIX);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hash and partition of 7 as kafka-clients 4.3.0 computes them (`Utils.murmur2`).
    const JAVA_CLIENT: [(&[u8], i32, i32); 9] = [
        (b"", 275_646_681, 2),
        (b"a", -1_563_381_124, 5),
        (b"ab", 316_155_434, 0),
        (b"abc", 479_470_107, 4),
        (b"abcd", -1_323_649_548, 5),
        (b"logway", 168_037_316, 6),
        (b"the quick brown fox", 2_136_040_129, 6),
        (b"\xff\x80\x00\x01\xfe", -173_560_464, 2),
        (&[0; 100], 518_425_432, 0),
    ];

    #[test]
    fn keys_go_where_the_java_client_sends_them() {
        let partitioner = Partitioner::new(7, 0);
        for (key, hash, partition) in JAVA_CLIENT {
            assert_eq!(murmur2(key), hash.cast_unsigned(), "{key:?}");
            assert_eq!(partitioner.for_key(key), PartitionId(partition), "{key:?}");
        }
    }

    #[test]
    fn keyless_records_take_turns() {
        let mut partitioner = Partitioner::new(3, 7);
        let mut visited = Vec::new();
        for _ in 0..4 {
            visited.push(partitioner.sticky().0);
            partitioner.advance(|_| true);
        }
        assert_eq!(visited, [1, 2, 0, 1]);
    }

    #[test]
    fn keyless_records_pass_over_what_is_not_available() {
        let mut partitioner = Partitioner::new(4, 0);
        let mut visited = Vec::new();
        for _ in 0..3 {
            partitioner.advance(|id| id.0 % 2 == 1);
            visited.push(partitioner.sticky().0);
        }
        assert_eq!(visited, [1, 3, 1]);
        partitioner.advance(|_| false);
        assert_eq!(partitioner.sticky(), PartitionId(2));
    }
}
