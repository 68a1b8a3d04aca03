//! What a follower and its leader say to each other, in bytes.
//!
//! A follower asks one leader for all partitions that it follows there, in one request; the leader answers
//! about those of which it has something to say. All numbers are big-endian.
//!
//! A request:
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 1 | layout | 0 |
//! | 4 | follower | its broker number |
//! | 8 | broker epoch | which incarnation of it |
//! | 4 | max wait | ms; the leader answers no later |
//! | 4 | min bytes | … and no sooner than it has so much |
//! | 4 | max bytes | of records; the first batch may be larger |
//! | 4 | count | of partitions |
//!
//! and for each partition:
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 16 | topic id | |
//! | 4 | partition | |
//! | 4 | leader epoch | in which the follower follows |
//! | 8 | end | the follower holds everything before it |
//! | 4 | last epoch | of its last record; -1 for none |
//! | 8 | log start | of the follower's log |
//!
//! An answer:
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 1 | layout | 0 |
//! | 4 | count | of partitions |
//!
//! and for each partition:
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 4 | index | of the partition in the request |
//! | 2 | error | Kafka's code |
//! | 8 | high watermark | |
//! | 8 | log start | of the leader's log |
//! | 4 | diverging epoch | -1 if the follower's log is the beginning of the leader's |
//! | 8 | diverging end | |
//! | 4 | length | of the records |
//! | N | records | whole batches |

use std::fmt;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use logway_model::{BrokerId, ErrorCode, LeaderEpoch, Offset, PartitionId, TopicId, Uuid};

const LAYOUT: u8 = 0;

const REQUEST_HEADER_BYTES: usize = 29;
const REQUEST_PART_BYTES: usize = 44;
const ANSWER_HEADER_BYTES: usize = 5;
const ANSWER_PART_BYTES: usize = 38;

/// What a follower asks of one leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchFromLeader {
    /// Who asks.
    pub follower: BrokerId,
    /// Which incarnation of it.
    pub broker_epoch: i64,
    /// The leader answers after so many ms at the latest.
    pub max_wait_ms: u32,
    /// It waits until it has so much.
    pub min_bytes: u32,
    /// It sends no more records than this; the first batch may be larger.
    pub max_bytes: u32,
    /// The partitions, each once.
    pub partitions: Vec<FollowedPartition>,
}

/// One partition that a follower follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowedPartition {
    /// Its topic.
    pub topic: TopicId,
    /// Its number.
    pub partition: PartitionId,
    /// The epoch in which the follower follows.
    pub leader_epoch: LeaderEpoch,
    /// The follower holds everything before this.
    pub end: Offset,
    /// The epoch of its last record, or [`LeaderEpoch::NONE`].
    pub last_epoch: LeaderEpoch,
    /// Where its log begins.
    pub log_start: Offset,
}

/// What a leader says about one partition of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedPartition {
    /// Which one: its index in the request.
    pub index: u32,
    /// Whether the leader can serve it.
    pub error: ErrorCode,
    /// Its high watermark.
    pub high_watermark: Offset,
    /// Where its log begins.
    pub log_start: Offset,
    /// Where the logs part, if they do (KIP-595).
    pub diverging: Option<(LeaderEpoch, Offset)>,
    /// Whole batches.
    pub records: Bytes,
}

/// Bytes that are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidMessage(&'static str);

impl fmt::Display for InvalidMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a message between replicas that {}", self.0)
    }
}

impl std::error::Error for InvalidMessage {}

const CUT_SHORT: InvalidMessage = InvalidMessage("is cut short");
const OTHER_LAYOUT: InvalidMessage = InvalidMessage("has a layout of another version");
const TOO_LONG: InvalidMessage = InvalidMessage("goes on behind its end");
const NO_SUCH_ERROR: InvalidMessage = InvalidMessage("has an error code that does not exist");

impl FetchFromLeader {
    /// The request in bytes.
    pub fn encode(&self) -> Vec<u8> {
        let bytes = REQUEST_HEADER_BYTES + self.partitions.len() * REQUEST_PART_BYTES;
        let mut out = Vec::with_capacity(bytes);
        out.put_u8(LAYOUT);
        out.put_i32(self.follower.0);
        out.put_i64(self.broker_epoch);
        out.put_u32(self.max_wait_ms);
        out.put_u32(self.min_bytes);
        out.put_u32(self.max_bytes);
        out.put_u32(count(self.partitions.len()));
        for part in &self.partitions {
            out.put_slice(&part.topic.0.0);
            out.put_i32(part.partition.0);
            out.put_i32(part.leader_epoch.0);
            out.put_i64(part.end.0);
            out.put_i32(part.last_epoch.0);
            out.put_i64(part.log_start.0);
        }
        out
    }

    /// Reads a request. It takes no more memory than the bytes have, give or take.
    pub fn decode(mut bytes: &[u8]) -> Result<FetchFromLeader, InvalidMessage> {
        if bytes.len() < REQUEST_HEADER_BYTES {
            return Err(CUT_SHORT);
        }
        if bytes.get_u8() != LAYOUT {
            return Err(OTHER_LAYOUT);
        }
        let (follower, broker_epoch) = (BrokerId(bytes.get_i32()), bytes.get_i64());
        let (max_wait_ms, min_bytes) = (bytes.get_u32(), bytes.get_u32());
        let (max_bytes, count) = (bytes.get_u32(), bytes.get_u32() as usize);
        // Before anything is allocated for them.
        match bytes.len().cmp(&count.saturating_mul(REQUEST_PART_BYTES)) {
            std::cmp::Ordering::Less => return Err(CUT_SHORT),
            std::cmp::Ordering::Greater => return Err(TOO_LONG),
            std::cmp::Ordering::Equal => {}
        }
        let mut part = || FollowedPartition {
            topic: topic_id(&mut bytes),
            partition: PartitionId(bytes.get_i32()),
            leader_epoch: LeaderEpoch(bytes.get_i32()),
            end: Offset(bytes.get_i64()),
            last_epoch: LeaderEpoch(bytes.get_i32()),
            log_start: Offset(bytes.get_i64()),
        };
        let partitions = (0..count).map(|_| part()).collect();
        Ok(FetchFromLeader {
            follower,
            broker_epoch,
            max_wait_ms,
            min_bytes,
            max_bytes,
            partitions,
        })
    }
}

/// An answer in bytes.
pub fn encode_answer(partitions: &[LedPartition]) -> Bytes {
    let records: usize = partitions.iter().map(|part| part.records.len()).sum();
    let bytes = ANSWER_HEADER_BYTES + partitions.len() * ANSWER_PART_BYTES + records;
    let mut out = BytesMut::with_capacity(bytes);
    out.put_u8(LAYOUT);
    out.put_u32(count(partitions.len()));
    for part in partitions {
        let (epoch, end) = part.diverging.unwrap_or((LeaderEpoch::NONE, Offset::ZERO));
        out.put_u32(part.index);
        out.put_i16(part.error.code());
        out.put_i64(part.high_watermark.0);
        out.put_i64(part.log_start.0);
        out.put_i32(epoch.0);
        out.put_i64(end.0);
        out.put_u32(count(part.records.len()));
        out.put_slice(&part.records);
    }
    out.freeze()
}

/// Reads an answer. Records stay slices of `bytes`.
pub fn decode_answer(mut bytes: Bytes) -> Result<Vec<LedPartition>, InvalidMessage> {
    if bytes.len() < ANSWER_HEADER_BYTES {
        return Err(CUT_SHORT);
    }
    if bytes.get_u8() != LAYOUT {
        return Err(OTHER_LAYOUT);
    }
    let count = bytes.get_u32() as usize;
    if bytes.len() < count.saturating_mul(ANSWER_PART_BYTES) {
        return Err(CUT_SHORT);
    }
    let mut partitions = Vec::with_capacity(count);
    for _ in 0..count {
        if bytes.len() < ANSWER_PART_BYTES {
            return Err(CUT_SHORT);
        }
        let (index, error) = (bytes.get_u32(), bytes.get_i16());
        let (high_watermark, log_start) = (Offset(bytes.get_i64()), Offset(bytes.get_i64()));
        let (epoch, end) = (LeaderEpoch(bytes.get_i32()), Offset(bytes.get_i64()));
        let length = bytes.get_u32() as usize;
        if bytes.len() < length {
            return Err(CUT_SHORT);
        }
        partitions.push(LedPartition {
            index,
            error: ErrorCode::from_code(error).ok_or(NO_SUCH_ERROR)?,
            high_watermark,
            log_start,
            diverging: (epoch != LeaderEpoch::NONE).then_some((epoch, end)),
            records: bytes.split_to(length),
        });
    }
    if bytes.is_empty() { Ok(partitions) } else { Err(TOO_LONG) }
}

fn topic_id(bytes: &mut &[u8]) -> TopicId {
    let mut id = [0; 16];
    bytes.copy_to_slice(&mut id);
    TopicId(Uuid(id))
}

fn count(length: usize) -> u32 {
    u32::try_from(length).expect("a message between nodes has less than 4 GiB")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn followed() -> impl Strategy<Value = FollowedPartition> {
        let numbers = (any::<i32>(), any::<i32>(), any::<i64>(), any::<i32>(), any::<i64>());
        (any::<[u8; 16]>(), numbers).prop_map(|(topic, (partition, epoch, end, last, start))| {
            FollowedPartition {
                topic: TopicId(Uuid(topic)),
                partition: PartitionId(partition),
                leader_epoch: LeaderEpoch(epoch),
                end: Offset(end),
                last_epoch: LeaderEpoch(last),
                log_start: Offset(start),
            }
        })
    }

    fn led() -> impl Strategy<Value = LedPartition> {
        let diverging = prop::option::of((0..i32::MAX, any::<i64>()));
        let records = prop::collection::vec(any::<u8>(), 0..50);
        (any::<u32>(), any::<i64>(), any::<i64>(), diverging, records).prop_map(
            |(index, watermark, start, diverging, records)| LedPartition {
                index,
                error: ErrorCode::None,
                high_watermark: Offset(watermark),
                log_start: Offset(start),
                diverging: diverging.map(|(epoch, end)| (LeaderEpoch(epoch), Offset(end))),
                records: records.into(),
            },
        )
    }

    proptest! {
        #[test]
        fn a_request_is_read_as_it_was_written(
            partitions in prop::collection::vec(followed(), 0..20),
            numbers in any::<(i32, i64, u32, u32, u32)>(),
        ) {
            let (follower, broker_epoch, max_wait_ms, min_bytes, max_bytes) = numbers;
            let follower = BrokerId(follower);
            let request = FetchFromLeader {
                follower, broker_epoch, max_wait_ms, min_bytes, max_bytes, partitions,
            };
            let bytes = request.encode();
            prop_assert_eq!(FetchFromLeader::decode(&bytes), Ok(request));
            for end in 0..bytes.len() {
                prop_assert!(FetchFromLeader::decode(&bytes[..end]).is_err());
            }
        }

        #[test]
        fn an_answer_is_read_as_it_was_written(partitions in prop::collection::vec(led(), 0..20)) {
            let bytes = encode_answer(&partitions);
            prop_assert_eq!(decode_answer(bytes.clone()), Ok(partitions));
            for end in 0..bytes.len() {
                prop_assert!(decode_answer(bytes.slice(..end)).is_err());
            }
        }

        #[test]
        fn no_bytes_panic_or_take_more_than_they_are(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let _ = FetchFromLeader::decode(&bytes);
            let _ = decode_answer(bytes.into());
        }
    }

    #[test]
    fn a_count_takes_no_memory_before_its_bytes_are_there() {
        let empty = FetchFromLeader {
            follower: BrokerId(1),
            broker_epoch: 1,
            max_wait_ms: 500,
            min_bytes: 1,
            max_bytes: 1,
            partitions: Vec::new(),
        };
        let mut bytes = empty.encode();
        bytes[REQUEST_HEADER_BYTES - 4..].copy_from_slice(&u32::MAX.to_be_bytes());
        assert_eq!(FetchFromLeader::decode(&bytes), Err(CUT_SHORT));
        let mut bytes = encode_answer(&[]).to_vec();
        bytes[1..].copy_from_slice(&u32::MAX.to_be_bytes());
        assert_eq!(decode_answer(bytes.into()), Err(CUT_SHORT));
        let longer = [empty.encode(), vec![0]].concat();
        assert_eq!(FetchFromLeader::decode(&longer), Err(TOO_LONG));
    }
}
