//! Streams that are to be deleted, when their time is over.
//!
//! The delay is a setting of the front door, and the deletion is not: a stream that was seen as DELETING must go, though the
//! node that was asked has stopped or has other settings now. One node does it, which is the active controller.

use std::sync::{Arc, Weak};
use std::time::Duration;

use logway_metadata::controller::{DeleteTopics, TopicReference};
use logway_metadata::record::StreamPhase;
use logway_metadata::{MetadataImage, TopicImage};
use logway_model::{ErrorCode, TopicId};
use tokio::time::timeout;

use crate::Node;
use crate::backoff::Backoff;
use crate::failure::Failure;
use crate::tasks::wall_clock;

/// Between two tries.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// While a stream is to be deleted, it is looked this often whether this node has become the controller.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Deletes streams when their time is over, as long as there is the node.
pub(crate) async fn delete_streams(node: Weak<Node>) {
    let Some(mut images) = node.upgrade().map(|node| node.quorum.watch()) else { return };
    let mut backoff = Backoff::between(RETRY_MIN, RETRY_MAX);
    let mut is_told = false;
    loop {
        images.mark_unchanged();
        let Some(strong) = node.upgrade() else { return };
        let pause = match strong.delete_due_streams().await {
            Ok(pause) => {
                backoff.reset();
                is_told = false;
                pause
            }
            Err((stream, failure)) => {
                if !is_told {
                    let reason = failure.message;
                    tracing::warn!(
                        stream,
                        reason,
                        "a stream cannot be deleted yet; it is tried again"
                    );
                }
                is_told = true;
                Some(backoff.pause())
            }
        };
        drop(strong);
        match pause {
            None if images.changed().await.is_err() => return,
            None => {}
            Some(pause) => {
                if let Ok(Err(_gone)) = timeout(pause, images.changed()).await {
                    return;
                }
            }
        }
    }
}

impl Node {
    /// Deletes what is due, if this node is the controller. Gives the time until there may be more; `None` where no stream
    /// is to be deleted. An error is about one stream.
    async fn delete_due_streams(self: &Arc<Self>) -> Result<Option<Duration>, (String, Failure)> {
        let image = self.image();
        let Some((first, due_ms)) = next_deletion(&image, self.settings.kinesis.stream_delay)
        else {
            return Ok(None);
        };
        let is_controller = self.quorum.status().leader == Some(self.settings.node_id);
        let left = Duration::from_millis(u64::try_from(due_ms - wall_clock().0).unwrap_or(0));
        if !is_controller || !left.is_zero() {
            return Ok(Some(left.clamp(RETRY_MIN, LOOK_INTERVAL)));
        }
        match self.delete_stream(first.id).await {
            Ok(()) => Ok(Some(Duration::ZERO)),
            Err(failure) => Err((first.name.to_string(), failure)),
        }
    }

    async fn delete_stream(self: &Arc<Self>, id: TopicId) -> Result<(), Failure> {
        let command = DeleteTopics { topics: vec![TopicReference::Id(id)] };
        for outcome in self.submit(command, None, None).await? {
            match outcome {
                Ok(_) => {}
                // Somebody else was faster.
                Err(refusal) if refusal.code == ErrorCode::UnknownTopicId => {}
                Err(refusal) => return Err(refusal.into()),
            }
        }
        Ok(())
    }
}

/// The stream that is to be deleted next, and when, in ms since 1970.
fn next_deletion(image: &MetadataImage, delay: Duration) -> Option<(&Arc<TopicImage>, i64)> {
    let delay_ms = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
    let due = image.topics().filter_map(|topic| {
        let state = &topic.stream.as_ref()?.state;
        let is_going = state.phase == StreamPhase::Deleting;
        is_going.then(|| (topic, state.phase_since_ms.saturating_add(delay_ms)))
    });
    due.min_by_key(|(_, due_ms)| *due_ms)
}
