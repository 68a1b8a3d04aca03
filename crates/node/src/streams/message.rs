//! What a node asks of the leader of a partition for a client, or of another replica, in bytes.
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 1 | task | 1 append, 2 read, 3 search, 4 ask about a producer, 5 truncate, 6 append at an end, 7 read any replica, 8 ask for what a shard may do, 9 move the end |
//! | 16 | topic | its id |
//! | 4 | partition | big-endian, as all numbers |
//! | 8 | argument | append: the time to wait in ms; read: the offset; search: what for; a producer's id; the offset to truncate before, -1 for all; append at an end, move the end: the end; of a shard: 1 to write, 2 to read, 3 was read |
//! | 4 | bytes | read: at most so many; append: 0 to be committed, 1 to be flushed; was read: so many |
//! | 4 | wait | read, append at an end: for so long, in ms |
//! | N | batch | append, append at an end: the record batch; to read any replica, 4 bytes: how old what it shows may be, in ms; to write, 4 bytes for each record: its size |
//!
//! The reply begins with the code of an error, 0 for none. A byte whether a full disk is the reason, and a message follow an error. Else there are three numbers of
//! 8 bytes, and for a read the batches. What a shard may do has a byte for each part of the demand: 1 where that is met.

use bytes::{Buf, BufMut, Bytes};
use logway_model::{
    ErrorCode, Offset, PartitionId, ProducerEpoch, ProducerId, Sequence, TimestampMs, TopicId, Uuid,
};

use super::anywhere::{Appended, Met, PartitionRead, ProducerPosition, Search, Until};
use super::shard_meters::Demand;
use crate::failure::Failure;

const HEADER_BYTES: usize = 1 + 16 + 4 + 8 + 4 + 4;

/// What a leader is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) topic: TopicId,
    pub(super) partition: PartitionId,
    pub(super) task: Task,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Task {
    Append { wait_ms: u64, until: Until, batch: Bytes },
    AppendAt { end: Offset, wait_ms: u32, batch: Bytes },
    Read { offset: Offset, max_bytes: u32, wait_ms: u32 },
    ReadReplica { offset: Offset, max_bytes: u32, wait_ms: u32, staleness_max_ms: u32 },
    Search(Search),
    Producer(ProducerId),
    Truncate(Option<Offset>),
    Meter(Demand),
    Skip(Offset),
}

/// Found for [`Search::Start`] and [`Search::End`].
const START: i64 = -2;
const END: i64 = -1;

/// Truncates all that can be read.
const ALL: i64 = -1;

impl Request {
    pub(super) fn encode(&self) -> Vec<u8> {
        let (number, argument, max_bytes, wait_ms, batch) = match &self.task {
            Task::Append { wait_ms, until, batch } => {
                let until = u32::from(*until == Until::Flushed);
                (1, i64::try_from(*wait_ms).unwrap_or(i64::MAX), until, 0, batch.clone())
            }
            Task::Read { offset, max_bytes, wait_ms } => {
                (2, offset.0, *max_bytes, *wait_ms, Bytes::new())
            }
            Task::ReadReplica { offset, max_bytes, wait_ms, staleness_max_ms } => {
                let staleness = Bytes::copy_from_slice(&staleness_max_ms.to_be_bytes());
                (7, offset.0, *max_bytes, *wait_ms, staleness)
            }
            Task::Search(search) => {
                let argument = match search {
                    Search::Start => START,
                    Search::End => END,
                    Search::Time(time) => time.0.max(0),
                };
                (3, argument, 0, 0, Bytes::new())
            }
            Task::AppendAt { end, wait_ms, batch } => (6, end.0, 0, *wait_ms, batch.clone()),
            Task::Producer(id) => (4, id.0, 0, 0, Bytes::new()),
            Task::Meter(demand) => {
                let (argument, read, sizes) = meter_parts(demand);
                (8, argument, read, 0, sizes)
            }
            Task::Skip(to) => (9, to.0, 0, 0, Bytes::new()),
            Task::Truncate(before) => (5, before.map_or(ALL, |it| it.0), 0, 0, Bytes::new()),
        };
        let mut bytes = Vec::with_capacity(HEADER_BYTES + batch.len());
        bytes.put_u8(number);
        bytes.put_slice(&self.topic.0.0);
        bytes.put_i32(self.partition.0);
        bytes.put_i64(argument);
        bytes.put_u32(max_bytes);
        bytes.put_u32(wait_ms);
        bytes.put_slice(&batch);
        bytes
    }

    /// `None` for bytes that are no request of this version.
    pub(super) fn decode(bytes: &Bytes) -> Option<Request> {
        if bytes.len() < HEADER_BYTES {
            return None;
        }
        let mut rest = bytes.clone();
        let number = rest.get_u8();
        let mut id = [0; 16];
        rest.copy_to_slice(&mut id);
        let (topic, partition) = (TopicId(Uuid(id)), PartitionId(rest.get_i32()));
        let argument = rest.get_i64();
        let (max_bytes, wait_ms) = (rest.get_u32(), rest.get_u32());
        let task = match number {
            1 => {
                let until = match max_bytes {
                    0 => Until::Committed,
                    1 => Until::Flushed,
                    _ => return None,
                };
                Task::Append { wait_ms: u64::try_from(argument).ok()?, until, batch: rest }
            }
            2 => Task::Read { offset: Offset(argument), max_bytes, wait_ms },
            3 => Task::Search(match argument {
                START => Search::Start,
                END => Search::End,
                time => Search::Time(TimestampMs(time)),
            }),
            4 => Task::Producer(ProducerId(argument)),
            5 => Task::Truncate(Some(Offset(argument)).filter(|before| before.0 != ALL)),
            6 => Task::AppendAt { end: Offset(argument), wait_ms, batch: rest },
            7 => Task::ReadReplica {
                offset: Offset(argument),
                max_bytes,
                wait_ms,
                staleness_max_ms: rest.try_get_u32().ok()?,
            },
            8 => Task::Meter(demand_of(argument, max_bytes, &rest)?),
            9 => Task::Skip(Offset(argument)),
            _ => return None,
        };
        Some(Request { topic, partition, task })
    }
}

/// To write, to read, was read.
const WRITE: i64 = 1;
const READ: i64 = 2;
const WAS_READ: i64 = 3;

fn meter_parts(demand: &Demand) -> (i64, u32, Bytes) {
    match demand {
        Demand::Write(sizes) => {
            (WRITE, 0, sizes.iter().flat_map(|size| size.to_be_bytes()).collect())
        }
        Demand::Read => (READ, 0, Bytes::new()),
        Demand::WasRead(bytes) => {
            (WAS_READ, u32::try_from(*bytes).unwrap_or(u32::MAX), Bytes::new())
        }
    }
}

fn demand_of(argument: i64, read: u32, sizes: &[u8]) -> Option<Demand> {
    match argument {
        WRITE => {
            let (sizes, rest) = sizes.as_chunks();
            let sizes = sizes.iter().map(|size| u32::from_be_bytes(*size)).collect();
            rest.is_empty().then_some(Demand::Write(sizes))
        }
        READ => Some(Demand::Read),
        WAS_READ => Some(Demand::WasRead(read.into())),
        _ => None,
    }
}

/// What an answer has: three numbers, and bytes.
pub(super) trait Answer: Sized {
    fn parts(&self) -> ([i64; 3], Bytes);
    fn of_parts(numbers: [i64; 3], bytes: Bytes) -> Self;
}

impl Answer for Appended {
    fn parts(&self) -> ([i64; 3], Bytes) {
        ([self.base_offset.0, self.time.0, self.is_duplicate.into()], Bytes::new())
    }

    /// Older nodes say of nothing that it is a duplicate.
    fn of_parts([base_offset, time, duplicate]: [i64; 3], _bytes: Bytes) -> Appended {
        let (base_offset, time) = (Offset(base_offset), TimestampMs(time));
        Appended { base_offset, time, is_duplicate: duplicate != 0 }
    }
}

impl Answer for PartitionRead {
    fn parts(&self) -> ([i64; 3], Bytes) {
        ([self.start.0, self.end.0, self.next.0], self.batches.clone())
    }

    fn of_parts([start, end, next]: [i64; 3], batches: Bytes) -> PartitionRead {
        PartitionRead { start: Offset(start), end: Offset(end), next: Offset(next), batches }
    }
}

impl Answer for Option<ProducerPosition> {
    fn parts(&self) -> ([i64; 3], Bytes) {
        let parts = self
            .map(|known| [known.epoch.0.into(), known.last_sequence.0.into(), known.last_offset.0]);
        (parts.unwrap_or([-1; 3]), Bytes::new())
    }

    fn of_parts([epoch, sequence, offset]: [i64; 3], _bytes: Bytes) -> Option<ProducerPosition> {
        Some(ProducerPosition {
            epoch: ProducerEpoch(i16::try_from(epoch).ok().filter(|epoch| *epoch >= 0)?),
            last_sequence: Sequence(i32::try_from(sequence).ok()?),
            last_offset: Offset(offset),
        })
    }
}

impl Answer for Offset {
    fn parts(&self) -> ([i64; 3], Bytes) {
        ([self.0, 0, 0], Bytes::new())
    }

    fn of_parts([offset, ..]: [i64; 3], _bytes: Bytes) -> Offset {
        Offset(offset)
    }
}

impl Answer for Met {
    fn parts(&self) -> ([i64; 3], Bytes) {
        ([0; 3], self.0.iter().map(|met| u8::from(*met)).collect())
    }

    fn of_parts(_numbers: [i64; 3], bytes: Bytes) -> Met {
        Met(bytes.iter().map(|met| *met == 1).collect())
    }
}

pub(super) fn encode_answer<A: Answer>(answer: &Result<A, Failure>) -> Vec<u8> {
    let mut bytes = Vec::new();
    match answer {
        Ok(answer) => {
            let (numbers, batches) = answer.parts();
            bytes.reserve(26 + batches.len());
            bytes.put_i16(0);
            numbers.iter().for_each(|number| bytes.put_i64(*number));
            bytes.put_slice(&batches);
        }
        Err(failure) => {
            bytes.put_i16(failure.code.code());
            bytes.put_u8(failure.is_disk_full.into());
            bytes.put_slice(failure.message.as_bytes());
        }
    }
    bytes
}

pub(super) fn decode_answer<A: Answer>(mut bytes: Bytes) -> Result<A, Failure> {
    let malformed =
        || Failure::new(ErrorCode::UnknownServerError, "the leader's answer is cut off");
    let code = bytes.try_get_i16().map_err(|_| malformed())?;
    if code != 0 {
        let code = ErrorCode::from_code(code).unwrap_or(ErrorCode::UnknownServerError);
        let is_disk_full = bytes.try_get_u8().map_err(|_| malformed())? != 0;
        return Err(Failure {
            is_disk_full,
            ..Failure::new(code, String::from_utf8_lossy(&bytes))
        });
    }
    let mut numbers = [0; 3];
    for number in &mut numbers {
        *number = bytes.try_get_i64().map_err(|_| malformed())?;
    }
    Ok(A::of_parts(numbers, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position() -> ProducerPosition {
        ProducerPosition {
            epoch: ProducerEpoch(0),
            last_sequence: Sequence(i32::MAX),
            last_offset: Offset(9),
        }
    }

    #[test]
    fn requests_and_answers_come_back_whole() {
        let tasks = [
            Task::Append {
                wait_ms: 5,
                until: Until::Committed,
                batch: Bytes::from_static(b"batch"),
            },
            Task::Append { wait_ms: 5, until: Until::Flushed, batch: Bytes::new() },
            Task::AppendAt { end: Offset(8), wait_ms: 9, batch: Bytes::from_static(b"batch") },
            Task::Producer(ProducerId(4)),
            Task::Truncate(None),
            Task::Truncate(Some(Offset(3))),
            Task::Skip(Offset(i64::MAX)),
            Task::Read { offset: Offset(7), max_bytes: 8, wait_ms: 9 },
            Task::ReadReplica { offset: Offset(7), max_bytes: 8, wait_ms: 9, staleness_max_ms: 10 },
            Task::Search(Search::Start),
            Task::Search(Search::End),
            Task::Search(Search::Time(TimestampMs(11))),
            Task::Meter(Demand::Write(vec![1, 1 << 20])),
            Task::Meter(Demand::Read),
            Task::Meter(Demand::WasRead(12)),
        ];
        for task in tasks {
            let request =
                Request { topic: TopicId(Uuid([5; 16])), partition: PartitionId(6), task };
            let bytes = Bytes::from(request.encode());
            assert_eq!(Request::decode(&bytes), Some(request));
            for cut in 0..HEADER_BYTES {
                assert_eq!(Request::decode(&bytes.slice(..cut)), None);
            }
        }
        let read = PartitionRead {
            start: Offset(1),
            end: Offset(2),
            next: Offset(3),
            batches: Bytes::from_static(b"batches"),
        };
        assert_eq!(decode_answer(encode_answer(&Ok(read.clone())).into()), Ok(read));
        for is_duplicate in [false, true] {
            let (base_offset, time) = (Offset(4), TimestampMs(5));
            let appended = Appended { base_offset, time, is_duplicate };
            assert_eq!(decode_answer(encode_answer(&Ok(appended)).into()), Ok(appended));
        }
        let met = Met(vec![true, false, true]);
        assert_eq!(decode_answer(encode_answer(&Ok(met.clone())).into()), Ok(met));
        for known in [None, Some(position())] {
            assert_eq!(decode_answer(encode_answer(&Ok(known)).into()), Ok(known));
        }
        let failure = Failure::new(ErrorCode::PolicyViolation, "closed");
        let failure = Failure { is_disk_full: true, ..failure };
        let answer = encode_answer::<Offset>(&Err(failure.clone()));
        assert_eq!(decode_answer::<Offset>(answer.into()), Err(failure));
        assert!(decode_answer::<Offset>(Bytes::from_static(&[0, 0, 1])).is_err());
    }
}
