//! Brokers that belonged to the cluster.

use std::sync::Arc;

use logway_model::DirectoryId;

use crate::record::{BrokerEpoch, RemoveBrokerRecord};

/// So many removed brokers are remembered. A node that was removed before them is not told why it is not admitted.
pub const REMOVED_BROKERS_MAX: usize = 256;

/// The brokers that were removed last, the oldest first.
///
/// Invariant: no later life of any broker has an epoch that one of them had, nor one that is forgotten.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemovedBrokers(Arc<Vec<RemoveBrokerRecord>>);

impl RemovedBrokers {
    /// All, the oldest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &RemoveBrokerRecord> {
        self.0.iter()
    }

    /// The broker that had a directory, if it was removed.
    pub fn by_directory(&self, directory: DirectoryId) -> Option<&RemoveBrokerRecord> {
        self.0.iter().find(|removed| removed.directory == directory)
    }

    /// The greatest epoch that a removed broker had.
    pub(super) fn last_epoch(&self) -> Option<BrokerEpoch> {
        self.0.iter().filter_map(|removed| removed.epoch).max()
    }

    pub(super) fn add(&mut self, record: RemoveBrokerRecord) {
        let all = Arc::make_mut(&mut self.0);
        all.push(record);
        if all.len() > REMOVED_BROKERS_MAX {
            let forgotten = all.remove(0);
            // Its epoch is never given again all the same.
            all[0].epoch = all[0].epoch.max(forgotten.epoch);
        }
    }
}

#[cfg(test)]
mod tests {
    use logway_model::{BrokerId, Uuid};

    use super::*;

    #[test]
    fn the_last_are_remembered_and_no_epoch_is_given_twice() {
        let directory = |number: i32| {
            let mut bytes = [1; 16];
            bytes[..4].copy_from_slice(&number.to_be_bytes());
            DirectoryId(Uuid(bytes))
        };
        let mut removed = RemovedBrokers::default();
        assert_eq!(removed.last_epoch(), None);
        for number in 0..REMOVED_BROKERS_MAX as i32 + 2 {
            // The first one had the greatest epoch.
            let epoch = Some(BrokerEpoch(1_000 - i64::from(number)));
            let id = BrokerId(number);
            removed.add(RemoveBrokerRecord { id, directory: directory(number), epoch });
        }
        assert_eq!(removed.iter().len(), REMOVED_BROKERS_MAX);
        assert_eq!(removed.by_directory(directory(1)), None);
        assert_eq!(removed.by_directory(directory(2)).map(|it| it.id), Some(BrokerId(2)));
        assert_eq!(removed.last_epoch(), Some(BrokerEpoch(1_000)));
    }
}
