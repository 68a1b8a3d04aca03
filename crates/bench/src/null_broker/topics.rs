//! The topics that somebody has created.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// How many partitions each has; shared by all connections.
#[derive(Debug, Default)]
pub(super) struct Topics {
    partitions: Mutex<BTreeMap<String, i32>>,
}

impl Topics {
    pub(super) fn create(&self, name: &str, partitions: i32) {
        self.with(|topics| topics.insert(name.to_owned(), partitions.max(1)));
    }

    pub(super) fn delete(&self, name: &str) {
        self.with(|topics| topics.remove(name));
    }

    pub(super) fn partitions(&self, name: &str) -> Option<i32> {
        self.with(|topics| topics.get(name).copied())
    }

    fn with<T>(&self, change: impl FnOnce(&mut BTreeMap<String, i32>) -> T) -> T {
        // A map of whole entries is never half changed.
        change(&mut self.partitions.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
