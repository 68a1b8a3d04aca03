//! What must be true of every world, whatever happens in it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use logway_metadata::MetadataImage;
use logway_model::{BrokerId, LeaderEpoch};
use logway_quorum::{IndexedImage, MetadataIndex, MetadataQuorum, QuorumStatus};

/// What was seen of a world so far. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Oracle(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    /// The first promise that was broken.
    violation: Option<String>,
    /// Who led in each epoch.
    leaders: BTreeMap<LeaderEpoch, BrokerId>,
    /// The image that each entry leads to.
    images: BTreeMap<MetadataIndex, Arc<MetadataImage>>,
    /// The last entry that somebody was told of.
    acknowledged: MetadataIndex,
    created: BTreeSet<String>,
    /// Topics that nobody created, by what was said.
    refused: BTreeSet<String>,
    /// The first ids of the blocks that were given out.
    blocks: BTreeSet<i64>,
    /// Blocks of which nobody knows whether they were given out.
    unknown_blocks: usize,
    pub(crate) commands: usize,
    pub(crate) unknown: usize,
}

/// How much happened.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Report {
    pub(crate) acknowledged: usize,
    pub(crate) unknown: usize,
    pub(crate) epochs: usize,
    pub(crate) images: usize,
}

impl Oracle {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a broken promise; the first one counts.
    pub(crate) fn violated(&self, what: impl Into<String>) {
        let mut seen = self.lock();
        if seen.violation.is_none() {
            seen.violation = Some(what.into());
        }
    }

    pub(crate) fn violation(&self) -> Option<String> {
        self.lock().violation.clone()
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        self.violation().map_or(Ok(()), Err)
    }

    /// A node shows an image, and says who leads.
    pub(crate) fn observe(&self, number: usize, quorum: &MetadataQuorum) {
        let IndexedImage { image, index, .. } = quorum.indexed_image();
        let QuorumStatus { leader, epoch, .. } = quorum.status();
        let mut seen = self.lock();
        let known = seen.images.entry(index).or_insert_with(|| Arc::clone(&image));
        if !Arc::ptr_eq(known, &image) && *known != image {
            drop(seen);
            self.violated(format!("node {number} has another image at {index}"));
            return;
        }
        if let Some(leader) = leader {
            let known = *seen.leaders.entry(epoch).or_insert(leader);
            if known != leader {
                drop(seen);
                self.violated(format!("nodes {known} and {leader} lead in epoch {epoch}"));
            }
        }
    }

    /// The last entry that somebody was told of: whatever is asked for from now on comes later.
    pub(crate) fn acknowledged(&self) -> MetadataIndex {
        self.lock().acknowledged
    }

    fn acknowledge(&self, what: &str, index: MetadataIndex, floor: MetadataIndex) {
        let mut seen = self.lock();
        seen.commands += 1;
        seen.acknowledged = seen.acknowledged.max(index);
        drop(seen);
        if index <= floor {
            self.violated(format!("{what} is committed in {index}, but {floor} came before it"));
        }
    }

    pub(crate) fn topic_created(&self, name: String, index: MetadataIndex, floor: MetadataIndex) {
        self.acknowledge(&name, index, floor);
        self.lock().created.insert(name);
    }

    pub(crate) fn topic_refused(&self, name: String) {
        self.lock().refused.insert(name);
    }

    pub(crate) fn block_given(&self, first: i64, index: MetadataIndex, floor: MetadataIndex) {
        self.acknowledge("a block of producer ids", index, floor);
        if !self.lock().blocks.insert(first) {
            self.violated(format!("the producer ids from {first} on are given out twice"));
        }
    }

    /// Nobody knows whether a command was committed.
    pub(crate) fn unknown(&self, is_block: bool) {
        let mut seen = self.lock();
        seen.unknown += 1;
        seen.unknown_blocks += usize::from(is_block);
    }

    /// Checks the image that all nodes have in the end.
    pub(crate) fn check_end(&self, image: &MetadataImage) {
        let seen = self.lock();
        let lost = seen.created.iter().find(|name| image.topic(name).is_none());
        let refused = seen.refused.iter().find(|name| image.topic(name).is_some());
        let given = (image.next_producer_id().0 / 1_000) as usize;
        let (told, unknown) = (seen.blocks.len(), seen.unknown_blocks);
        let beyond = seen.blocks.last().is_some_and(|first| *first >= image.next_producer_id().0);
        let violation = if let Some(name) = lost {
            Some(format!("{name} was acknowledged and is lost"))
        } else if let Some(name) = refused {
            Some(format!("{name} was refused and is there"))
        } else if beyond || given < told {
            Some(format!("{given} blocks of producer ids, but {told} were acknowledged"))
        } else if given > told + unknown {
            Some(format!("{given} blocks of producer ids for {told} + {unknown} commands"))
        } else {
            None
        };
        drop(seen);
        violation.into_iter().for_each(|violation| self.violated(violation));
    }

    pub(crate) fn report(&self) -> Report {
        let seen = self.lock();
        Report {
            acknowledged: seen.commands,
            unknown: seen.unknown,
            epochs: seen.leaders.len(),
            images: seen.images.len(),
        }
    }
}
