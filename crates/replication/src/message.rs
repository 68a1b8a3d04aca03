//! What a follower and its leader say to each other, in bytes.
//!
//! A follower asks one leader for all partitions that it follows there. Both remember what was said in a *fetch
//! session* (as KIP-227 has for clients): a request names only what has changed since the one before, and so does an
//! answer. A session is begun by request 0 and ends with the first request that is lost. All numbers are big-endian.
//!
//! A request:
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 1 | layout | 1 |
//! | 4 | follower | its broker number |
//! | 8 | broker epoch | which incarnation of it |
//! | 8 | session | grows with each session of the incarnation |
//! | 4 | number | of the request in the session, from 0 |
//! | 1 | wants | 1 if the leader answers when it has something to say; 0 if this only tells |
//! | 4 | max wait | ms; the leader answers no later |
//! | 4 | max bytes | of records; the first batch may be larger |
//! | 4 | begun | partitions that the follower follows from now on |
//! | 4 | told | ends and beginnings of partitions that it tells |
//! | 4 | ended | partitions that it does not follow any more |
//!
//! for each that is begun, which has the next slot of the session:
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 16 | topic id | |
//! | 4 | partition | |
//! | 4 | leader epoch | in which the follower follows |
//!
//! for each that is told, which is to be answered from then on:
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 4 | slot | |
//! | 8 | end | the follower holds everything before it |
//! | 4 | last epoch | of its last record; -1 for none |
//!
//! With the highest bit of the slot set, the end is where the follower's log begins. Leaders that know nothing of this find
//! no such slot, and pass over it.
//!
//! And for each that has ended its slot, 4 bytes. A slot is never used again.
//!
//! An answer:
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 1 | layout | 1 |
//! | 1 | verdict | 0 taken; 1 the request is not the next one of a session that is known here: begin another |
//! | 4 | count | of partitions |
//!
//! and for each partition:
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 4 | slot | |
//! | 2 | error | Kafka's code |
//! | 8 | high watermark | |
//! | 8 | log start | of the leader's log |
//! | 4 | diverging epoch | -1 if the follower's log is the beginning of the leader's |
//! | 8 | diverging end | |
//! | 4 | length | of the records |
//! | N | records | whole batches |
//!
//! After records, an error, or logs that part, the leader says nothing more of a partition until it is told again.

use std::fmt;

use bytes::{Buf, BufMut, Bytes};
use logway_model::{BrokerId, ErrorCode, LeaderEpoch, Offset, PartitionId, TopicId, Uuid};

const LAYOUT: u8 = 1;

/// Marks a slot of which it is told where the follower's log begins. No session has so many slots.
const OF_START: u32 = 1 << 31;

const REQUEST_HEADER_BYTES: usize = 46;
const BEGUN_BYTES: usize = 24;
const TOLD_BYTES: usize = 16;
const ENDED_BYTES: usize = 4;
const ANSWER_HEADER_BYTES: usize = 6;
const ANSWER_PART_BYTES: usize = 38;

/// What a follower says to one leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchFromLeader {
    /// Who asks.
    pub follower: BrokerId,
    /// Which incarnation of it.
    pub broker_epoch: i64,
    /// Which fetch session: each has a greater number than those that the incarnation had before with this leader.
    pub session: u64,
    /// Which request of the session, from 0.
    pub number: u32,
    /// What the leader is to answer; `None` if this only tells.
    pub wants: Option<Wants>,
    /// Partitions that the follower follows from now on. They have the next slots of the session.
    pub begun: Vec<FollowedPartition>,
    /// How far partitions are.
    pub told: Vec<FollowerEnd>,
    /// Where partitions begin, of those for which that is news.
    pub starts: Vec<FollowerStart>,
    /// The slots of those that it does not follow any more.
    pub ended: Vec<u32>,
}

/// When a leader answers, and with how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wants {
    /// The leader answers after so many ms at the latest.
    pub max_wait_ms: u32,
    /// It sends no more bytes of records than this; the first batch may be larger.
    pub max_bytes: u32,
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
}

/// How far a follower's log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowerEnd {
    /// Of which partition of the session.
    pub slot: u32,
    /// The follower holds everything before this; on a durable topic, on stable storage.
    pub end: Offset,
    /// The epoch of its last record, or [`LeaderEpoch::NONE`].
    pub last_epoch: LeaderEpoch,
}

/// Where a follower's log begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowerStart {
    /// Of which partition of the session.
    pub slot: u32,
    /// The follower holds nothing before this.
    pub start: Offset,
}

/// What a leader says to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaderReply {
    /// It has something to say about these, or about none.
    Taken(Vec<LedPartition>),
    /// The request is not the next one of a session that the leader knows. Nothing of it was taken.
    OtherSession,
}

/// What a leader says about one partition of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedPartition {
    /// Which one.
    pub slot: u32,
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

impl LedPartition {
    /// Nothing about a partition yet.
    pub fn of(slot: u32) -> LedPartition {
        LedPartition {
            slot,
            error: ErrorCode::None,
            high_watermark: Offset::ZERO,
            log_start: Offset::ZERO,
            diverging: None,
            records: Bytes::new(),
        }
    }

    /// Whether the leader says no more of the partition until it is told how far the follower is.
    pub fn awaits_follower(&self) -> bool {
        self.error != ErrorCode::None || self.diverging.is_some() || !self.records.is_empty()
    }
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
const NO_SUCH_CHOICE: InvalidMessage = InvalidMessage("has a choice that does not exist");

impl FetchFromLeader {
    /// The request in bytes.
    pub fn encode(&self) -> Vec<u8> {
        let bytes = REQUEST_HEADER_BYTES
            + self.begun.len() * BEGUN_BYTES
            + (self.told.len() + self.starts.len()) * TOLD_BYTES
            + self.ended.len() * ENDED_BYTES;
        let mut out = Vec::with_capacity(bytes);
        out.put_u8(LAYOUT);
        out.put_i32(self.follower.0);
        out.put_i64(self.broker_epoch);
        out.put_u64(self.session);
        out.put_u32(self.number);
        let Wants { max_wait_ms, max_bytes } =
            self.wants.unwrap_or(Wants { max_wait_ms: 0, max_bytes: 0 });
        out.put_u8(self.wants.is_some().into());
        out.put_u32(max_wait_ms);
        out.put_u32(max_bytes);
        out.put_u32(count(self.begun.len()));
        out.put_u32(count(self.told.len() + self.starts.len()));
        out.put_u32(count(self.ended.len()));
        for begun in &self.begun {
            out.put_slice(&begun.topic.0.0);
            out.put_i32(begun.partition.0);
            out.put_i32(begun.leader_epoch.0);
        }
        for told in &self.told {
            out.put_u32(told.slot);
            out.put_i64(told.end.0);
            out.put_i32(told.last_epoch.0);
        }
        for FollowerStart { slot, start } in &self.starts {
            out.put_u32(slot | OF_START);
            out.put_i64(start.0);
            out.put_i32(LeaderEpoch::NONE.0);
        }
        self.ended.iter().for_each(|slot| out.put_u32(*slot));
        out
    }

    /// Reads a request. It takes no more memory than the bytes have, give or take.
    pub fn decode(mut bytes: &[u8]) -> Result<FetchFromLeader, InvalidMessage> {
        if bytes.first().is_some_and(|layout| *layout != LAYOUT) {
            return Err(OTHER_LAYOUT);
        }
        if bytes.len() < REQUEST_HEADER_BYTES {
            return Err(CUT_SHORT);
        }
        bytes.advance(1);
        let (follower, broker_epoch) = (BrokerId(bytes.get_i32()), bytes.get_i64());
        let (session, number, wants) = (bytes.get_u64(), bytes.get_u32(), bytes.get_u8());
        let asked = Wants { max_wait_ms: bytes.get_u32(), max_bytes: bytes.get_u32() };
        let wants = match wants {
            0 => None,
            1 => Some(asked),
            _ => return Err(NO_SUCH_CHOICE),
        };
        let mut count = || bytes.get_u32() as usize;
        let (begun, told, ended) = (count(), count(), count());
        let announced = [(begun, BEGUN_BYTES), (told, TOLD_BYTES), (ended, ENDED_BYTES)];
        let announced = announced.map(|(count, bytes)| count.saturating_mul(bytes));
        let announced = announced.into_iter().fold(0, usize::saturating_add);
        // Before anything is allocated for them.
        match bytes.len().cmp(&announced) {
            std::cmp::Ordering::Less => return Err(CUT_SHORT),
            std::cmp::Ordering::Greater => return Err(TOO_LONG),
            std::cmp::Ordering::Equal => {}
        }
        let begin = |_| FollowedPartition {
            topic: topic_id(&mut bytes),
            partition: PartitionId(bytes.get_i32()),
            leader_epoch: LeaderEpoch(bytes.get_i32()),
        };
        let begun = (0..begun).map(begin).collect();
        let (mut ends, mut starts) = (Vec::new(), Vec::new());
        for _ in 0..told {
            let (slot, offset) = (bytes.get_u32(), Offset(bytes.get_i64()));
            let last_epoch = LeaderEpoch(bytes.get_i32());
            match slot & OF_START {
                0 => ends.push(FollowerEnd { slot, end: offset, last_epoch }),
                _ => starts.push(FollowerStart { slot: slot & !OF_START, start: offset }),
            }
        }
        let ended = (0..ended).map(|_| bytes.get_u32()).collect();
        Ok(FetchFromLeader {
            follower,
            broker_epoch,
            session,
            number,
            wants,
            begun,
            told: ends,
            starts,
            ended,
        })
    }
}

impl LeaderReply {
    /// The reply in bytes.
    pub fn encode(&self) -> Vec<u8> {
        let (verdict, partitions) = match self {
            LeaderReply::Taken(partitions) => (0, &partitions[..]),
            LeaderReply::OtherSession => (1, &[][..]),
        };
        let records: usize = partitions.iter().map(|part| part.records.len()).sum();
        let bytes = ANSWER_HEADER_BYTES + partitions.len() * ANSWER_PART_BYTES + records;
        let mut out = Vec::with_capacity(bytes);
        out.put_u8(LAYOUT);
        out.put_u8(verdict);
        out.put_u32(count(partitions.len()));
        for part in partitions {
            let (epoch, end) = part.diverging.unwrap_or((LeaderEpoch::NONE, Offset::ZERO));
            out.put_u32(part.slot);
            out.put_i16(part.error.code());
            out.put_i64(part.high_watermark.0);
            out.put_i64(part.log_start.0);
            out.put_i32(epoch.0);
            out.put_i64(end.0);
            out.put_u32(count(part.records.len()));
            out.put_slice(&part.records);
        }
        out
    }

    /// Reads a reply. Records stay slices of `bytes`.
    pub fn decode(mut bytes: Bytes) -> Result<LeaderReply, InvalidMessage> {
        if bytes.first().is_some_and(|layout| *layout != LAYOUT) {
            return Err(OTHER_LAYOUT);
        }
        if bytes.len() < ANSWER_HEADER_BYTES {
            return Err(CUT_SHORT);
        }
        bytes.advance(1);
        let (verdict, count) = (bytes.get_u8(), bytes.get_u32() as usize);
        if bytes.len() < count.saturating_mul(ANSWER_PART_BYTES) {
            return Err(CUT_SHORT);
        }
        let mut partitions = Vec::with_capacity(count);
        for _ in 0..count {
            partitions.push(led_partition(&mut bytes)?);
        }
        match verdict {
            _ if !bytes.is_empty() => Err(TOO_LONG),
            0 => Ok(LeaderReply::Taken(partitions)),
            1 if partitions.is_empty() => Ok(LeaderReply::OtherSession),
            _ => Err(NO_SUCH_CHOICE),
        }
    }
}

fn led_partition(bytes: &mut Bytes) -> Result<LedPartition, InvalidMessage> {
    if bytes.len() < ANSWER_PART_BYTES {
        return Err(CUT_SHORT);
    }
    let (slot, error) = (bytes.get_u32(), bytes.get_i16());
    let (high_watermark, log_start) = (Offset(bytes.get_i64()), Offset(bytes.get_i64()));
    let (epoch, end) = (LeaderEpoch(bytes.get_i32()), Offset(bytes.get_i64()));
    let length = bytes.get_u32() as usize;
    if bytes.len() < length {
        return Err(CUT_SHORT);
    }
    Ok(LedPartition {
        slot,
        error: ErrorCode::from_code(error).ok_or(NO_SUCH_ERROR)?,
        high_watermark,
        log_start,
        diverging: (epoch != LeaderEpoch::NONE).then_some((epoch, end)),
        records: bytes.split_to(length),
    })
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
        let numbers = (any::<i32>(), any::<i32>());
        (any::<[u8; 16]>(), numbers).prop_map(|(topic, (partition, epoch))| FollowedPartition {
            topic: TopicId(Uuid(topic)),
            partition: PartitionId(partition),
            leader_epoch: LeaderEpoch(epoch),
        })
    }

    fn slot() -> impl Strategy<Value = u32> {
        0..OF_START
    }

    fn start() -> impl Strategy<Value = FollowerStart> {
        let start = |(slot, start)| FollowerStart { slot, start: Offset(start) };
        (slot(), any::<i64>()).prop_map(start)
    }

    fn told() -> impl Strategy<Value = FollowerEnd> {
        (slot(), any::<(i64, i32)>()).prop_map(|(slot, (end, last))| FollowerEnd {
            slot,
            end: Offset(end),
            last_epoch: LeaderEpoch(last),
        })
    }

    prop_compose! {
        fn request()(
            begun in prop::collection::vec(followed(), 0..10),
            told in prop::collection::vec(told(), 0..10),
            starts in prop::collection::vec(start(), 0..10),
            ended in prop::collection::vec(any::<u32>(), 0..10),
            wants in prop::option::of(any::<(u32, u32)>()),
            (follower, broker_epoch, session, number) in any::<(i32, i64, u64, u32)>(),
        ) -> FetchFromLeader {
            let wants = wants.map(|(max_wait_ms, max_bytes)| Wants { max_wait_ms, max_bytes });
            let follower = BrokerId(follower);
            FetchFromLeader {
                follower, broker_epoch, session, number, wants, begun, told, starts, ended,
            }
        }
    }

    fn led() -> impl Strategy<Value = LedPartition> {
        let diverging = prop::option::of((0..i32::MAX, any::<i64>()));
        let records = prop::collection::vec(any::<u8>(), 0..50);
        (any::<u32>(), any::<i64>(), any::<i64>(), diverging, records).prop_map(
            |(slot, watermark, start, diverging, records)| LedPartition {
                slot,
                error: ErrorCode::None,
                high_watermark: Offset(watermark),
                log_start: Offset(start),
                diverging: diverging.map(|(epoch, end)| (LeaderEpoch(epoch), Offset(end))),
                records: records.into(),
            },
        )
    }

    fn reply() -> impl Strategy<Value = LeaderReply> {
        prop_oneof![
            prop::collection::vec(led(), 0..20).prop_map(LeaderReply::Taken),
            Just(LeaderReply::OtherSession),
        ]
    }

    proptest! {
        #[test]
        fn a_request_is_read_as_it_was_written(request in request()) {
            let bytes = request.encode();
            prop_assert_eq!(FetchFromLeader::decode(&bytes), Ok(request));
            for end in 0..bytes.len() {
                prop_assert_eq!(FetchFromLeader::decode(&bytes[..end]), Err(CUT_SHORT));
            }
        }

        #[test]
        fn a_reply_is_read_as_it_was_written(reply in reply()) {
            let bytes = Bytes::from(reply.encode());
            prop_assert_eq!(LeaderReply::decode(bytes.clone()), Ok(reply));
            for end in 0..bytes.len() {
                prop_assert!(LeaderReply::decode(bytes.slice(..end)).is_err());
            }
        }

        #[test]
        fn no_bytes_panic_or_take_more_than_they_are(
            mut bytes in prop::collection::vec(any::<u8>(), 0..200),
            has_layout in any::<bool>(),
        ) {
            if let Some(first) = bytes.first_mut().filter(|_| has_layout) {
                *first = LAYOUT;
            }
            let _ = FetchFromLeader::decode(&bytes);
            let _ = LeaderReply::decode(bytes.into());
        }
    }

    #[test]
    fn where_a_log_begins_is_told_of_a_slot_that_older_leaders_do_not_have() {
        let request = FetchFromLeader {
            follower: BrokerId(1),
            broker_epoch: 1,
            session: 1,
            number: 0,
            wants: None,
            begun: Vec::new(),
            told: Vec::new(),
            starts: vec![FollowerStart { slot: 7, start: Offset(40) }],
            ended: Vec::new(),
        };
        let bytes = request.encode();
        let told = &bytes[REQUEST_HEADER_BYTES..];
        assert_eq!(told[..4], (7_u32 | OF_START).to_be_bytes());
        assert_eq!(told[4..12], 40_i64.to_be_bytes());
        assert_eq!(FetchFromLeader::decode(&bytes), Ok(request));
    }

    #[test]
    fn a_count_takes_no_memory_before_its_bytes_are_there() {
        let empty = FetchFromLeader {
            follower: BrokerId(1),
            broker_epoch: 1,
            session: 1,
            number: 0,
            wants: None,
            begun: Vec::new(),
            told: Vec::new(),
            starts: Vec::new(),
            ended: Vec::new(),
        };
        for behind in [12, 8, 4] {
            let mut bytes = empty.encode();
            let at = REQUEST_HEADER_BYTES - behind;
            bytes[at..at + 4].copy_from_slice(&u32::MAX.to_be_bytes());
            assert_eq!(FetchFromLeader::decode(&bytes), Err(CUT_SHORT));
        }
        let mut bytes = LeaderReply::Taken(Vec::new()).encode();
        bytes[2..].copy_from_slice(&u32::MAX.to_be_bytes());
        assert_eq!(LeaderReply::decode(bytes.into()), Err(CUT_SHORT));
        let longer = [empty.encode(), vec![0]].concat();
        assert_eq!(FetchFromLeader::decode(&longer), Err(TOO_LONG));
    }
}
