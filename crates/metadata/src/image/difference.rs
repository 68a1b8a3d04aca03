//! What has changed between two images.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{MetadataImage, TopicImage};

/// The topics that differ between two images.
///
/// A topic that was deleted and made anew under its name is in both lists: with its old id among
/// those that are gone, and with its new one among those that are new.
#[derive(Debug, Default)]
pub struct TopicsDifference {
    /// Those that only the earlier image has.
    pub gone: Vec<Arc<TopicImage>>,
    /// Those of the later image that are new, or not as they were.
    pub changed: Vec<Arc<TopicImage>>,
    /// Whether any of them is new.
    pub has_new: bool,
}

impl MetadataImage {
    /// The topics that have changed since an earlier image: what the two share is passed over at the
    /// cost of comparing pointers.
    pub fn topics_changed_since(&self, earlier: &MetadataImage) -> TopicsDifference {
        let mut difference = TopicsDifference::default();
        let (mut before, mut now) = (earlier.topics().peekable(), self.topics().peekable());
        loop {
            let order = match (before.peek(), now.peek()) {
                (Some(before), Some(now)) => before.name.cmp(&now.name),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return difference,
            };
            let before = if order.is_le() { before.next() } else { None };
            let now = if order.is_ge() { now.next() } else { None };
            if let (Some(before), Some(now)) = (before, now)
                && Arc::ptr_eq(before, now)
            {
                continue;
            }
            let is_gone = |topic: &&Arc<TopicImage>| self.topic_by_id(topic.id).is_none();
            difference.has_new |= now.is_some_and(|topic| earlier.topic_by_id(topic.id).is_none());
            difference.gone.extend(before.filter(is_gone).cloned());
            difference.changed.extend(now.cloned());
        }
    }
}
