//! How much all connections to one source may hold together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A bound that connections share.
#[derive(Debug)]
pub(crate) struct Budget {
    max_bytes: u64,
    used_bytes: AtomicU64,
}

/// What one connection holds; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    bytes: u64,
}

/// There is no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Exhausted {
    #[error(
        "the connections of the source hold {0} bytes, which is all that maxBufferBytes gives them"
    )]
    ByAll(u64),
    /// It would not be enough if there were no others.
    #[error("the message takes more than {0} bytes in memory (maxBufferBytes)")]
    ByOne(u64),
}

impl Exhausted {
    /// Whether waiting for others does not help.
    pub(crate) fn is_final(self) -> bool {
        matches!(self, Exhausted::ByOne(_))
    }
}

impl Budget {
    pub(crate) fn new(max_bytes: u64) -> Arc<Budget> {
        Arc::new(Budget { max_bytes, used_bytes: AtomicU64::new(0) })
    }

    pub(crate) fn share(self: &Arc<Budget>) -> Share {
        Share { budget: Arc::clone(self), bytes: 0 }
    }
}

impl Share {
    /// Holds more.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Exhausted> {
        let (bytes, max) = (bytes as u64, self.budget.max_bytes);
        if self.bytes + bytes > max {
            return Err(Exhausted::ByOne(max));
        }
        let grown = |used: u64| (used + bytes <= max).then_some(used + bytes);
        let used = &self.budget.used_bytes;
        used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).map_err(Exhausted::ByAll)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Holds nothing any more.
    pub(crate) fn clear(&mut self) {
        self.budget.used_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = 0;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.clear();
    }
}
