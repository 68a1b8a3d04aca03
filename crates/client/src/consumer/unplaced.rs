//! Partitions that are to be read as soon as they have leaders.

use std::collections::BTreeMap;
use std::time::Duration;

use logway_model::TopicPartition;
use tokio::time::Instant;

use super::StartAt;
use crate::ClientError;
use crate::retry::pause_after;

/// Partitions that had no leader when reading was to begin: only a leader can say where that is.
#[derive(Debug, Default)]
pub(super) struct Unplaced {
    /// Where to begin.
    partitions: BTreeMap<TopicPartition, StartAt>,
    since: Option<Instant>,
    look_at: Option<Instant>,
    looks: u32,
}

impl Unplaced {
    /// Whether all have been found.
    pub(super) fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }

    /// Takes note of those that have no leader after another look, and lets them pause.
    pub(super) fn keep(&mut self, partitions: BTreeMap<TopicPartition, StartAt>) {
        self.partitions = partitions;
        if self.partitions.is_empty() {
            *self = Unplaced::default();
            return;
        }
        let now = Instant::now();
        self.since.get_or_insert(now);
        self.look_at = Some(now + pause_after(self.looks));
        self.looks += 1;
    }

    /// Whether somebody looks.
    pub(super) fn is_looked_for(&self) -> bool {
        !self.partitions.is_empty() && self.look_at.is_none()
    }

    /// Takes note of more, which are due at once. Nobody may be looking: who does says afterwards what is left.
    pub(super) fn add(&mut self, partitions: impl Iterator<Item = (TopicPartition, StartAt)>) {
        let before = self.partitions.len();
        self.partitions.extend(partitions);
        if self.partitions.len() > before {
            let now = Instant::now();
            self.since.get_or_insert(now);
            self.look_at = Some(now);
        }
    }

    /// When to look again; `None` if there is nothing to look for, or somebody looks.
    pub(super) fn due(&self) -> Option<Instant> {
        self.look_at
    }

    /// What to look for, if it is time to. Nothing is due again until [`Unplaced::keep`] says what
    /// is left.
    pub(super) fn take_due(&mut self) -> Option<BTreeMap<TopicPartition, StartAt>> {
        self.look_at.take_if(|at| *at <= Instant::now())?;
        Some(self.partitions.clone())
    }

    /// Fails if a partition has been without a leader for longer than `patience`.
    pub(super) fn check(&self, patience: Duration) -> Result<(), ClientError> {
        let partition = self.partitions.keys().next();
        match partition.filter(|_| self.since.is_some_and(|since| since.elapsed() > patience)) {
            None => Ok(()),
            Some(partition) => Err(ClientError::NoLeader { partition: partition.clone() }),
        }
    }
}
