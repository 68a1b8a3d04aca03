//! What answers take while they are made.
//!
//! Each handler estimates, from the request alone, what answering takes beyond the request's own
//! memory: the structs of the answer, what leads to them, and their encoded form. It must not be
//! less than what is taken, give or take what the allocator adds, and need not be exact: small
//! answers are never held up by it.

use logway_metadata::MetadataImage;

/// One entry of numbers: an offset, an epoch.
pub(super) const ENTRY_BYTES: usize = 256;

/// One entry that may come with a message for a person.
pub(super) const ENTRY_WITH_MESSAGE_BYTES: usize = 1_024;

/// One partition as metadata: its replicas are three lists.
pub(super) const PARTITION_BYTES: usize = 320;

/// One setting: its name is shared, its value is not.
pub(super) const SETTING_BYTES: usize = 320;

/// What one topic of the cluster takes as metadata.
pub(super) fn topic_bytes(partitions: usize) -> usize {
    ENTRY_WITH_MESSAGE_BYTES + partitions * PARTITION_BYTES
}

/// What all topics of the cluster take.
pub(super) fn all_topics_bytes(image: &MetadataImage) -> usize {
    let (topics, partitions) = (image.topic_count(), image.partition_count());
    topics * ENTRY_WITH_MESSAGE_BYTES + partitions * PARTITION_BYTES
}
