//! What answers take while they are made.
//!
//! Each handler estimates, from the request alone, what answering takes beyond the request's own
//! memory: the structs of the answer, what leads to them, and their encoded form. It must not be
//! less than what is taken, give or take what the allocator adds, and need not be exact: small
//! answers are never held up by it.

use crate::request::{RequestContext, Sizes};

/// One entry of numbers: an offset, an epoch.
pub(super) const ENTRY_BYTES: usize = 256;

/// One entry that may come with a message for a person.
pub(super) const ENTRY_WITH_MESSAGE_BYTES: usize = 1_024;

/// One partition as metadata: its replicas are three lists.
pub(super) const PARTITION_BYTES: usize = 320;

/// One setting: its name is shared, its value is not.
pub(super) const SETTING_BYTES: usize = 320;

/// What all topics of the cluster take.
pub(super) fn all_topics_bytes(sizes: &Sizes) -> usize {
    let (topics, partitions) = (sizes.topic_count(), sizes.partition_count());
    topics * ENTRY_WITH_MESSAGE_BYTES + partitions * PARTITION_BYTES
}

/// What a request takes that names things, and wants some of all things of a kind as well.
///
/// A request that names more than can be answered is refused. What there is of a kind has bounds of its own, so what
/// is about all of it is answered in any case, alone if it takes all the memory there is for answers.
pub(super) fn with_all(context: &RequestContext, named_bytes: usize, all_bytes: usize) -> usize {
    let max_bytes = context.building_budget().limit_bytes();
    named_bytes + all_bytes.min(max_bytes.saturating_sub(named_bytes))
}
