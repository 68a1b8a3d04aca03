//! The current image, for everybody to read.

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use logway_metadata::MetadataImage;
use tokio::sync::{Notify, watch};

use crate::command_id::RecentCommands;

/// A place in the sequence of commits: that of the last one that an image contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MetadataIndex(pub u64);

impl fmt::Display for MetadataIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An image, and how far it has come.
#[derive(Debug, Clone, Default)]
pub struct IndexedImage {
    /// The metadata.
    pub image: Arc<MetadataImage>,
    /// The last commit that is in it.
    pub index: MetadataIndex,
    /// The entry that last changed the image.
    pub(crate) image_at: u64,
}

/// The newest applied image.
///
/// Written by the state machine alone; read without locks.
#[derive(Debug)]
pub(crate) struct Published {
    current: ArcSwap<IndexedImage>,
    index: watch::Sender<MetadataIndex>,
    /// As `index`, for those who wait in this crate. It wakes them in the order in which they came, which
    /// a watch does not, so that a simulation can be repeated.
    changed: Notify,
    /// The commands that were committed last: never older than the image.
    recent: Mutex<RecentCommands>,
}

impl Published {
    pub(crate) fn new() -> Published {
        let index = watch::Sender::new(MetadataIndex::default());
        Published {
            current: ArcSwap::default(),
            index,
            changed: Notify::new(),
            recent: Mutex::default(),
        }
    }

    pub(crate) fn image(&self) -> Arc<MetadataImage> {
        Arc::clone(&self.current.load().image)
    }

    pub(crate) fn indexed_image(&self) -> IndexedImage {
        IndexedImage::clone(&self.current.load())
    }

    pub(crate) fn watch(&self) -> watch::Receiver<MetadataIndex> {
        self.index.subscribe()
    }

    /// The commands that were committed last. Changed by the state machine alone, before it shows the
    /// image that has their effect.
    pub(crate) fn recent(&self) -> MutexGuard<'_, RecentCommands> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows an image; who is woken by its index finds it or a later one.
    pub(crate) fn publish(&self, image: IndexedImage) {
        let index = image.index;
        self.current.store(Arc::new(image));
        self.index.send_replace(index);
        self.changed.notify_waiters();
    }

    /// Waits until the image has an entry.
    pub(crate) async fn wait_for(&self, index: MetadataIndex) {
        loop {
            let mut changed = pin!(self.changed.notified());
            // Registered first, so that no change is missed in between.
            changed.as_mut().enable();
            if self.current.load().index >= index {
                return;
            }
            changed.await;
        }
    }
}
