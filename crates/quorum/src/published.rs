//! The current image, for everybody to read.

use std::sync::Arc;

use arc_swap::ArcSwap;
use logway_metadata::MetadataImage;
use tokio::sync::watch;

/// The newest applied image and its version.
///
/// Written by the state machine alone; read without locks.
#[derive(Debug)]
pub(crate) struct Published {
    image: ArcSwap<MetadataImage>,
    version: watch::Sender<u64>,
}

impl Published {
    pub(crate) fn new() -> Published {
        Published { image: ArcSwap::default(), version: watch::Sender::new(0) }
    }

    pub(crate) fn image(&self) -> Arc<MetadataImage> {
        self.image.load_full()
    }

    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Shows an image; who is woken by its version finds it or a later one.
    pub(crate) fn publish(&self, image: Arc<MetadataImage>, version: u64) {
        self.image.store(image);
        self.version.send_replace(version);
    }
}
