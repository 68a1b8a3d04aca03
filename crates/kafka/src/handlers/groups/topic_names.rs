//! Topics as requests about offsets name them: by name, and from version 10 on by id (KIP-848).

use std::sync::Arc;

use logway_metadata::TopicImage;
use logway_model::{ErrorCode, TopicId, Uuid};

use crate::request::{KnownTopics, RequestContext};
use logway_node::access::Operation;

/// From this version of OffsetCommit and OffsetFetch on, topics are named by their ids.
pub(super) const BY_TOPIC_ID_FROM: i16 = 10;

/// The topic that a request of a version names, to do an operation with; or the error for all its partitions.
pub(super) fn topic_of<'a>(
    context: &RequestContext,
    topics: &'a KnownTopics,
    name: &str,
    id: Uuid,
    operation: Operation,
) -> Result<&'a Arc<TopicImage>, ErrorCode> {
    match context.version {
        BY_TOPIC_ID_FROM.. => topics.by_id(context, TopicId(id), operation),
        _ => topics.by_name(context, name, operation),
    }
}
