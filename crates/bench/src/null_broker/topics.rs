//! The topics that somebody has created.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// One of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Topic {
    pub(crate) partitions: i32,
    /// Whether its records are to be on the disk before they are acknowledged.
    pub(crate) is_synced: bool,
}

impl Topic {
    pub(super) fn new(partitions: i32, is_synced: bool) -> Topic {
        Topic { partitions: partitions.max(1), is_synced }
    }
}

/// All of them, shared by all connections.
#[derive(Debug, Default)]
pub(crate) struct Topics {
    topics: Mutex<BTreeMap<String, Topic>>,
}

impl Topics {
    pub(super) fn create(&self, name: &str, topic: Topic) {
        self.with(|topics| topics.insert(name.to_owned(), topic));
    }

    pub(super) fn delete(&self, name: &str) {
        self.with(|topics| topics.remove(name));
    }

    pub(crate) fn get(&self, name: &str) -> Option<Topic> {
        self.with(|topics| topics.get(name).copied())
    }

    /// Whether one of them is synced.
    pub(crate) fn are_any_synced(&self) -> bool {
        self.with(|topics| topics.values().any(|topic| topic.is_synced))
    }

    fn with<T>(&self, change: impl FnOnce(&mut BTreeMap<String, Topic>) -> T) -> T {
        // A map of whole entries is never half changed.
        change(&mut self.topics.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
