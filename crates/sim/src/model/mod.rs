//! The oracle: what was promised.

use std::collections::{BTreeMap, BTreeSet};

use logway_model::{TopicId, TopicPartition};

pub(crate) use commits::{CommitKey, Commits};
pub(crate) use kind::Kind;
pub(crate) use partition::{Found, Partition};
pub(crate) use replica::Truncated;

mod commits;
mod compaction;
mod kept;
mod kind;
mod partition;
mod replica;

/// All that the world has promised. It is the metadata, too: a topic exists if it is here.
#[derive(Debug, Default)]
pub(crate) struct Model {
    /// The partitions of the topics that exist.
    pub(crate) partitions: BTreeMap<TopicPartition, Partition>,
    /// The partitions whose logs were deleted for good.
    pub(crate) deleted: BTreeSet<(TopicPartition, TopicId)>,
    /// The offsets of groups.
    pub(crate) commits: Commits,
}

impl Model {
    /// The partition of that name.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub(crate) fn partition(&mut self, name: &TopicPartition) -> &mut Partition {
        self.partitions.get_mut(name).expect("the partition exists")
    }
}
