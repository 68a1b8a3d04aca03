//! What nodes ask each other about transactions, in bytes.
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 1 | task | 1 add partitions, 2 verify partitions, 3 write markers |
//!
//! To add or verify, the coordinator is asked about one transaction:
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 10 | producer | id and epoch; big-endian, as all numbers |
//! | 2 + N | transactional id | with its length |
//! | 4 | count | of partitions |
//! | each 2 + N + 4 | partition | the topic's name with its length, and the number |
//!
//! To write markers, the leader of partitions is asked about many transactions: a count of 4 bytes, and each time
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 10 | producer | as above |
//! | 1 | outcome | 0 abort, 1 commit |
//! | 4 | coordinator epoch | |
//! | 2 | version | of the transaction |
//! | 2 + N + 4 | partition | as above |
//!
//! The reply has the code of an error for each partition, 0 for none, in 2 bytes. That of a coordinator has its epoch before
//! them, in 4.

use bytes::{Buf, BufMut, Bytes};
use logway_coordinator::Marker;
use logway_coordinator::transactions::{Producer, TransactionOutcome};
use logway_model::{
    ErrorCode, PartitionId, ProducerEpoch, ProducerId, TopicName, TopicPartition,
    TransactionVersion,
};

const ADD: u8 = 1;
const VERIFY: u8 = 2;
const MARKERS: u8 = 3;

/// What a node is asked.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Request {
    /// The coordinator: are these partitions part of the transaction, or may they become that?
    Join(Join),
    /// The leader of partitions: write these.
    Markers(Vec<(TopicPartition, Marker)>),
}

/// Partitions of one transaction.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Join {
    pub(super) transactional_id: String,
    pub(super) producer: Producer,
    /// Whether they are added.
    pub(super) adds: bool,
    pub(super) partitions: Vec<TopicPartition>,
}

impl Request {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            Request::Join(join) => {
                bytes.put_u8(if join.adds { ADD } else { VERIFY });
                put_producer(&mut bytes, join.producer);
                put_text(&mut bytes, &join.transactional_id);
                put_count(&mut bytes, join.partitions.len());
                join.partitions.iter().for_each(|it| put_partition(&mut bytes, it));
            }
            Request::Markers(markers) => {
                bytes.put_u8(MARKERS);
                put_count(&mut bytes, markers.len());
                for (partition, marker) in markers {
                    put_producer(&mut bytes, marker.producer);
                    bytes.put_u8(u8::from(marker.outcome == TransactionOutcome::Commit));
                    bytes.put_i32(marker.coordinator_epoch);
                    bytes.put_i16(marker.version.0);
                    put_partition(&mut bytes, partition);
                }
            }
        }
        bytes
    }

    /// `None` for bytes that are no request of this version.
    pub(super) fn decode(bytes: &Bytes) -> Option<Request> {
        let mut rest = bytes.clone();
        let request = match rest.try_get_u8().ok()? {
            task @ (ADD | VERIFY) => {
                let producer = take_producer(&mut rest)?;
                let transactional_id = take_text(&mut rest)?;
                let count = rest.try_get_u32().ok()?;
                let partitions = (0..count).map(|_| take_partition(&mut rest));
                let partitions = partitions.collect::<Option<_>>()?;
                Request::Join(Join { transactional_id, producer, adds: task == ADD, partitions })
            }
            MARKERS => {
                let count = rest.try_get_u32().ok()?;
                let markers = (0..count).map(|_| take_marker(&mut rest));
                Request::Markers(markers.collect::<Option<_>>()?)
            }
            _ => return None,
        };
        rest.is_empty().then_some(request)
    }
}

pub(super) fn encode_codes(outcomes: &[Result<(), ErrorCode>]) -> Vec<u8> {
    let code = |outcome: &Result<(), ErrorCode>| outcome.err().map_or(0, ErrorCode::code);
    outcomes.iter().flat_map(|outcome| code(outcome).to_be_bytes()).collect()
}

/// What a coordinator says of partitions.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Joined {
    /// The leader epoch in which it said so, or an earlier one.
    pub(super) coordinator_epoch: i32,
    /// As many as were asked about.
    pub(super) outcomes: Vec<Result<(), ErrorCode>>,
}

impl Joined {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = self.coordinator_epoch.to_be_bytes().to_vec();
        bytes.extend(encode_codes(&self.outcomes));
        bytes
    }

    /// `None` if there are not as many as were asked for.
    pub(super) fn decode(bytes: &Bytes, count: usize) -> Option<Joined> {
        let mut rest = bytes.clone();
        let coordinator_epoch = rest.try_get_i32().ok()?;
        Some(Joined { coordinator_epoch, outcomes: decode_codes(&rest, count)? })
    }
}

/// `None` if there are not as many as were asked for.
pub(super) fn decode_codes(bytes: &Bytes, count: usize) -> Option<Vec<Result<(), ErrorCode>>> {
    if bytes.len() != 2 * count {
        return None;
    }
    let outcome = |code: &[u8]| match i16::from_be_bytes([code[0], code[1]]) {
        0 => Ok(()),
        code => Err(ErrorCode::from_code(code).unwrap_or(ErrorCode::UnknownServerError)),
    };
    Some(bytes.chunks_exact(2).map(outcome).collect())
}

fn put_producer(bytes: &mut Vec<u8>, producer: Producer) {
    bytes.put_i64(producer.id.0);
    bytes.put_i16(producer.epoch.0);
}

fn put_count(bytes: &mut Vec<u8>, count: usize) {
    bytes.put_u32(u32::try_from(count).expect("a request has fewer"));
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.put_u16(u16::try_from(text.len()).expect("it came over the wire, and is short"));
    bytes.put_slice(text.as_bytes());
}

fn put_partition(bytes: &mut Vec<u8>, partition: &TopicPartition) {
    put_text(bytes, partition.topic.as_str());
    bytes.put_i32(partition.partition.0);
}

fn take_producer(rest: &mut Bytes) -> Option<Producer> {
    let id = ProducerId(rest.try_get_i64().ok()?);
    let epoch = ProducerEpoch(rest.try_get_i16().ok()?);
    Some(Producer { id, epoch })
}

fn take_text(rest: &mut Bytes) -> Option<String> {
    let length = usize::from(rest.try_get_u16().ok()?);
    if rest.len() < length {
        return None;
    }
    String::from_utf8(rest.split_to(length).to_vec()).ok()
}

fn take_partition(rest: &mut Bytes) -> Option<TopicPartition> {
    let topic = TopicName::new(&take_text(rest)?).ok()?;
    Some(TopicPartition::new(topic, PartitionId(rest.try_get_i32().ok()?)))
}

fn take_marker(rest: &mut Bytes) -> Option<(TopicPartition, Marker)> {
    let producer = take_producer(rest)?;
    let outcome = match rest.try_get_u8().ok()? {
        0 => TransactionOutcome::Abort,
        1 => TransactionOutcome::Commit,
        _ => return None,
    };
    let coordinator_epoch = rest.try_get_i32().ok()?;
    let version = TransactionVersion(rest.try_get_i16().ok()?);
    let marker = Marker { producer, outcome, coordinator_epoch, version };
    Some((take_partition(rest)?, marker))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(topic: &str, number: i32) -> TopicPartition {
        TopicPartition::new(TopicName::new(topic).expect("a legal name"), PartitionId(number))
    }

    #[test]
    fn requests_come_back_whole_and_no_part_of_one_is_a_request() {
        let producer = Producer { id: ProducerId(7), epoch: ProducerEpoch(3) };
        let marker = Marker {
            producer,
            outcome: TransactionOutcome::Commit,
            coordinator_epoch: 5,
            version: TransactionVersion::EPOCH_BUMP,
        };
        let join = Join {
            transactional_id: "t".to_owned(),
            producer,
            adds: true,
            partitions: vec![partition("a", 1), partition("bb", 2)],
        };
        let requests = [
            Request::Join(join.clone()),
            Request::Join(Join { adds: false, ..join }),
            Request::Markers(vec![(partition("a", 1), marker)]),
        ];
        for request in requests {
            let bytes = Bytes::from(request.encode());
            assert_eq!(Request::decode(&bytes), Some(request));
            for cut in 0..bytes.len() {
                assert_eq!(Request::decode(&bytes.slice(..cut)), None, "{cut}");
            }
        }
    }

    #[test]
    fn codes_come_back_whole() {
        let outcomes = vec![Ok(()), Err(ErrorCode::ProducerFenced)];
        let bytes = Bytes::from(encode_codes(&outcomes));
        assert_eq!(decode_codes(&bytes, 2), Some(outcomes.clone()));
        assert_eq!(decode_codes(&bytes, 1), None);
        let joined = Joined { coordinator_epoch: 7, outcomes };
        let bytes = Bytes::from(joined.encode());
        assert_eq!(Joined::decode(&bytes, 2), Some(joined));
        assert_eq!(Joined::decode(&bytes, 1), None);
        assert_eq!(Joined::decode(&bytes.slice(..3), 0), None);
    }
}
