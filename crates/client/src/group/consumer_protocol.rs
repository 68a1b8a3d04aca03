//! What members of a group of consumers tell each other through their coordinator, which does not
//! look into it (`ConsumerProtocolSubscription.json`, `ConsumerProtocolAssignment.json`).
//!
//! | bytes | what |
//! |---|---|
//! | 2 | version; a later one than ours begins like ours |
//! | … | the message |
//!
//! What comes from other members may be anything.

use std::collections::BTreeSet;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use logway_model::{PartitionId, TopicName, TopicPartition};
use logway_wire::messages::consumer_protocol_assignment::TopicPartition as Assigned;
use logway_wire::messages::{ConsumerProtocolAssignment, ConsumerProtocolSubscription};
use logway_wire::{Decoder, Encoder, Message, WireString};

use crate::admin::by_topic;

/// What the protocol is called.
pub(super) const CONSUMER_PROTOCOL: &str = "consumer";

/// The version that we write: it has all that we say, and every client can read it.
const WRITTEN_VERSION: i16 = 0;

/// Says which topics a member wants to read.
pub(super) fn encode_subscription(topics: &BTreeSet<TopicName>) -> Bytes {
    let topics = topics.iter().map(|topic| WireString::copy_of(topic.as_str())).collect();
    encode(&ConsumerProtocolSubscription { topics, ..Default::default() })
}

/// Reads which topics a member wants to read.
pub(super) fn decode_subscription(subscription: Bytes) -> Option<BTreeSet<TopicName>> {
    let subscription: ConsumerProtocolSubscription = decode(subscription)?;
    Some(subscription.topics.iter().filter_map(|topic| TopicName::new(topic).ok()).collect())
}

/// Says which partitions a member is to read.
pub(super) fn encode_assignment(partitions: &BTreeSet<TopicPartition>) -> Bytes {
    let topics = by_topic(partitions.iter().cloned()).into_iter().map(|(topic, partitions)| {
        let topic = WireString::copy_of(topic.as_str());
        Assigned { topic, partitions, ..Assigned::default() }
    });
    let assigned_partitions = topics.collect();
    encode(&ConsumerProtocolAssignment { assigned_partitions, ..Default::default() })
}

/// Reads which partitions a member is to read.
pub(super) fn decode_assignment(assignment: Bytes) -> Option<BTreeSet<TopicPartition>> {
    let assignment: ConsumerProtocolAssignment = decode(assignment)?;
    let topics = assignment.assigned_partitions.iter();
    Some(topics.flat_map(|topic| named(&topic.topic, &topic.partitions)).collect())
}

/// Partitions of a topic; none if the name is impossible.
pub(super) fn named(topic: &str, partitions: &[i32]) -> Vec<TopicPartition> {
    let Ok(name) = TopicName::new(topic) else { return Vec::new() };
    let partition = |&id| TopicPartition::new(name.clone(), PartitionId(id));
    partitions.iter().map(partition).collect()
}

fn encode(message: &impl Message) -> Bytes {
    let mut encoder = Encoder::new();
    message.encode(&mut encoder, WRITTEN_VERSION).expect("topic names are short enough");
    let body = encoder.into_bytes().expect("the message has no records");
    let mut bytes = BytesMut::with_capacity(size_of::<i16>() + body.len());
    bytes.put_i16(WRITTEN_VERSION);
    bytes.extend_from_slice(&body);
    bytes.freeze()
}

fn decode<M: Message>(mut bytes: Bytes) -> Option<M> {
    let version = bytes.try_get_i16().ok()?.min(M::VALID_VERSIONS.max);
    M::decode(&mut Decoder::new(bytes), version).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(name: &str) -> TopicName {
        TopicName::new(name).expect("a name")
    }

    fn partition(name: &str, id: i32) -> TopicPartition {
        TopicPartition::new(topic(name), PartitionId(id))
    }

    #[test]
    fn what_is_written_can_be_read() {
        let topics = BTreeSet::from([topic("a"), topic("b")]);
        assert_eq!(decode_subscription(encode_subscription(&topics)), Some(topics));
        let partitions = [partition("a", 0), partition("a", 2), partition("b", 1)].into();
        assert_eq!(decode_assignment(encode_assignment(&partitions)), Some(partitions));
    }

    #[test]
    fn every_version_can_be_read() {
        let assigned = Assigned { topic: "t".into(), partitions: vec![2, 0], ..Default::default() };
        let assigned_partitions = vec![assigned];
        let message = ConsumerProtocolAssignment { assigned_partitions, ..Default::default() };
        let versions = ConsumerProtocolAssignment::VALID_VERSIONS;
        for version in versions.min..=versions.max + 1 {
            let mut encoder = Encoder::new();
            message.encode(&mut encoder, version.min(versions.max)).expect("it is valid");
            let body = encoder.into_bytes().expect("no holes");
            let bytes = [&version.to_be_bytes()[..], &body].concat();
            let expected = [partition("t", 0), partition("t", 2)].into();
            assert_eq!(decode_assignment(bytes.into()), Some(expected), "version {version}");
        }
    }

    #[test]
    fn other_bytes_say_nothing() {
        for bad in [&[][..], &[0], &[0, 0], &[0, 0, 0xff, 0xff, 0xff, 0xff], &[0x80, 0, 0, 0]] {
            assert_eq!(decode_assignment(Bytes::from_static(bad)), None, "{bad:?}");
            assert_eq!(decode_subscription(Bytes::from_static(bad)), None, "{bad:?}");
        }
    }
}
