//! Whether a process lives, as its machine and the network see it.

use std::sync::Arc;

use tokio::sync::watch;

/// How a process has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Its machine runs on, and says that nobody listens there.
    Process,
    /// Nothing is heard of its machine.
    PowerCut,
}

/// One process. Clones are the same one.
#[derive(Clone)]
pub(super) struct Life(Arc<watch::Sender<Option<End>>>);

impl Life {
    pub(super) fn begin() -> Life {
        Life(Arc::new(watch::Sender::new(None)))
    }

    pub(super) fn is_alive(&self) -> bool {
        self.end().is_none()
    }

    pub(super) fn end(&self) -> Option<End> {
        *self.0.borrow()
    }

    /// Ends it. The first end counts.
    pub(super) fn end_by(&self, end: End) {
        self.0.send_if_modified(|known| {
            let is_news = known.is_none();
            known.get_or_insert(end);
            is_news
        });
    }

    /// Whether it is the same process.
    pub(super) fn is(&self, other: &Life) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
