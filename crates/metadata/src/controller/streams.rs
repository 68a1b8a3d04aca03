//! Streams: making them, changing them, splitting and merging their shards.
//!
//! | file | idea |
//! |---|---|
//! | [`create_stream`] | a topic with its shards |
//! | [`change_stream`] | all of a stream but its shards |
//! | [`reshard`] | parents are closed and children made, in one commit |
//! | [`end_shards`] | the leader of a closed shard tells where it ends |
//! | [`make_sealing_key`] | the key of tokens, which other doors than that of streams need, too |

mod change_stream;
mod create_stream;
mod end_shards;
mod make_sealing_key;
mod reshard;

pub use change_stream::{
    CONSUMERS_MAX, ChangeStream, ChangeStreamsAccount, StreamChange, TAGS_MAX,
};
pub use create_stream::CreateStream;
pub use end_shards::{EndShards, EndedShard};
use logway_model::{ErrorCode, TopicId, TopicName};
pub use make_sealing_key::MakeSealingKey;
pub use reshard::{Reshard, Resharding};

use super::ControllerError;
use crate::image::{MetadataImage, StreamImage, TopicImage};

/// Shards that a stream may have, with those that were split or merged. A number is never used again.
const STREAM_SHARDS_MAX: usize = 10_000;

/// The stream of a topic's id.
fn stream_of(
    image: &MetadataImage,
    id: TopicId,
) -> Result<(&TopicImage, &StreamImage), ControllerError> {
    let topic = image.topic_by_id(id);
    let found = topic.and_then(|topic| Some((&**topic, topic.stream.as_ref()?)));
    found.ok_or_else(|| {
        ControllerError::new(ErrorCode::UnknownTopicId, format!("No stream has the id {id}."))
    })
}

/// Refuses so many shards of one stream, where that is more than there may be.
fn check_stream_size(name: &TopicName, count: usize) -> Result<(), ControllerError> {
    if count <= STREAM_SHARDS_MAX {
        return Ok(());
    }
    let message = format!(
        "Stream '{name}' would have had more than {STREAM_SHARDS_MAX} shards, with those that were split or merged: go on \
         with another stream."
    );
    Err(ControllerError::new(ErrorCode::PolicyViolation, message))
}

/// Refuses so many more open shards than there are, where that would be more than there may be.
fn check_shard_limit(
    image: &MetadataImage,
    more: usize,
    shards_max: Option<u32>,
) -> Result<(), ControllerError> {
    let Some(max) = shards_max else { return Ok(()) };
    let open = image.open_shard_count();
    if open.saturating_add(more) <= usize::try_from(max).unwrap_or(usize::MAX) {
        return Ok(());
    }
    let message = format!("There are {open} open shards; with {more} more there were over {max}.");
    Err(ControllerError::new(ErrorCode::PolicyViolation, message))
}
