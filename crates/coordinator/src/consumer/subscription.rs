//! The topics that a group reads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use logway_model::TopicId;
use twox_hash::XxHash3_64;

use crate::cluster_view::{ClusterView, TopicView};

use super::group::ConsumerGroup;
use super::member::Subscription;

/// What stands before all else that is hashed of a topic: the version of how.
const HASH_VERSION: u8 = 0;

impl ConsumerGroup {
    /// The hash of the topics that the group reads. Where it differs from the hash of the group epoch, there is something
    /// new to assign.
    pub(super) fn hash_of_topics(&self, view: &dyn ClusterView) -> i64 {
        hash_of_topics(self.topics().map(|topic| topic.as_str()), view)
    }

    /// The topics that a member reads, as far as there are such. A pattern that was not looked up matches none.
    pub(super) fn topics_of(
        &self,
        subscription: &Subscription,
        view: &dyn ClusterView,
    ) -> BTreeSet<TopicId> {
        let resolved = subscription.pattern().and_then(|pattern| self.resolved(pattern));
        let matched = resolved.iter().flat_map(|resolved| &resolved.topics);
        let names = subscription.topics.iter().chain(matched);
        names.filter_map(|name| view.topic(name.as_str())).map(|topic| topic.id).collect()
    }
}

/// The hash of topics in the order of their names, as Kafka computes it (KIP-1101): of their ids, names, partitions and
/// racks. Those that there are not do not count.
pub(crate) fn hash_of_topics<'a>(
    names: impl Iterator<Item = &'a str>,
    view: &dyn ClusterView,
) -> i64 {
    let mut hashes = Vec::new();
    for name in names {
        if let Some(described) = view.topic(name) {
            hashes.extend_from_slice(&topic_hash(name, described, &view.racks(name)).to_le_bytes());
        }
    }
    match hashes.is_empty() {
        true => 0,
        false => XxHash3_64::oneshot(&hashes).cast_signed(),
    }
}

fn topic_hash(name: &str, topic: TopicView, racks: &[Vec<Arc<str>>]) -> u64 {
    let mut bytes = vec![HASH_VERSION];
    for half in topic.id.0.0.chunks_exact(8) {
        // Java's two halves of an id are numbers, which the hash takes with the last byte first.
        bytes.extend(half.iter().rev());
    }
    push_text(&mut bytes, name);
    bytes.extend_from_slice(&topic.partition_count.to_le_bytes());
    for (number, racks) in (0i32..).zip(racks) {
        bytes.extend_from_slice(&number.to_le_bytes());
        for rack in racks {
            bytes.extend_from_slice(&units(rack).to_le_bytes());
            push_text(&mut bytes, rack);
        }
    }
    XxHash3_64::oneshot(&bytes)
}

fn units(text: &str) -> i32 {
    i32::try_from(text.encode_utf16().count()).unwrap_or(i32::MAX)
}

/// A text in UTF-16, and its length behind it.
fn push_text(bytes: &mut Vec<u8>, text: &str) {
    for unit in text.encode_utf16() {
        bytes.extend_from_slice(&unit.to_le_bytes());
    }
    bytes.extend_from_slice(&units(text).to_le_bytes());
}

/// The sizes of the topics that an assignment is about.
pub(super) fn partition_counts(
    topics: impl Iterator<Item = TopicId>,
    view: &dyn ClusterView,
) -> BTreeMap<TopicId, i32> {
    let count = |id: TopicId| {
        let topic = view.topic(&view.topic_name(id)?)?;
        Some((id, topic.partition_count))
    };
    topics.filter_map(count).collect()
}
