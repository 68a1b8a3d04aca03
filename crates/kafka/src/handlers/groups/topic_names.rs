//! Topics as requests about offsets name them: by name, and from version 10 on by id (KIP-848).

use std::sync::Arc;

use logway_metadata::{MetadataImage, TopicImage};
use logway_model::{ErrorCode, TopicId, Uuid};

/// From this version of OffsetCommit and OffsetFetch on, topics are named by their ids.
pub(super) const BY_TOPIC_ID_FROM: i16 = 10;

/// The topic that a request of a version names; or the error for all its partitions.
pub(super) fn topic_of<'a>(
    image: &'a MetadataImage,
    version: i16,
    name: &str,
    id: Uuid,
) -> Result<&'a Arc<TopicImage>, ErrorCode> {
    match version {
        BY_TOPIC_ID_FROM.. => image.topic_by_id(TopicId(id)).ok_or(ErrorCode::UnknownTopicId),
        _ => image.topic(name).ok_or(ErrorCode::UnknownTopicOrPartition),
    }
}
