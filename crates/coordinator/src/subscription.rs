//! The one thing that is read of a member's metadata: the topics of a consumer.

use bytes::Bytes;
use logway_wire::messages::ConsumerProtocolSubscription;
use logway_wire::{DecodeError, Decoder, Message};

use crate::ids::CommittedTopic;

/// The kind of group whose metadata is the consumer protocol's.
pub(crate) const CONSUMER_PROTOCOL_TYPE: &str = "consumer";

/// The kind of group whose members run a stream-processing application (KIP-1071).
pub(crate) const STREAMS_PROTOCOL_TYPE: &str = "streams";

/// The topics that a member of a consumer group subscribes to.
///
/// Read as version 0, whatever version is in front: all versions begin with it, and so this depends on none.
///
/// # Errors
///
/// The bytes are no subscription. Some clients' assignors use their own.
pub(crate) fn subscribed_topics(metadata: &Bytes) -> Result<Vec<CommittedTopic>, DecodeError> {
    let mut from = Decoder::new(metadata.clone());
    from.i16("subscription version")?;
    let subscription = ConsumerProtocolSubscription::decode(&mut from, 0)?;
    Ok(subscription.topics.iter().map(CommittedTopic::from).collect())
}
