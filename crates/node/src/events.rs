//! The last changes of the cluster, as this node has seen them.
//!
//! Each node makes them from the commits that it applies, and keeps the last ones in memory. So all nodes have the same list,
//! but for what one has missed: what was dropped from the log before its last start, and what came to it as a
//! snapshot. Who wants the whole list asks all nodes and puts together what they have, by the place of the commit.
//! The log has each line as well, once.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use logway_metadata::event::ClusterEvent;
use logway_model::TimestampMs;
use logway_quorum::{MetadataIndex, OnEvents};

use crate::tasks::wall_clock;

/// So many are kept.
pub const CLUSTER_EVENTS_MAX: usize = 1_000;

/// A change, and where and when it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenEvent {
    /// The commit that it is a part of.
    pub index: MetadataIndex,
    /// Its place among those of the commit.
    pub position: u32,
    /// When this node has seen it; `None` if it was committed before this start of the node.
    pub at: Option<TimestampMs>,
    /// What has changed.
    pub event: ClusterEvent,
}

/// The last changes of the cluster, the oldest first.
#[derive(Debug, Default)]
pub struct ClusterEvents {
    last: Mutex<VecDeque<SeenEvent>>,
    /// What was committed before this start is known.
    is_current: AtomicBool,
}

impl ClusterEvents {
    /// Where the quorum tells what has changed.
    pub(crate) fn listener(self: &Arc<Self>) -> OnEvents {
        let events = Arc::clone(self);
        Arc::new(move |index, changes| {
            let at = events.is_current.load(Ordering::Relaxed).then(wall_clock);
            events.add(index, changes, at);
        })
    }

    /// From now on the node sees what happens when it happens.
    pub(crate) fn is_current(&self) {
        self.is_current.store(true, Ordering::Relaxed);
    }

    /// Those of a commit and of later ones.
    pub fn since(&self, index: MetadataIndex) -> Vec<SeenEvent> {
        self.last().iter().filter(|seen| seen.index >= index).cloned().collect()
    }

    fn add(&self, index: MetadataIndex, changes: Vec<ClusterEvent>, at: Option<TimestampMs>) {
        if at.is_some() {
            for event in &changes {
                tracing::info!(kind = event.kind.word(), "{}", event.text);
            }
        }
        let mut last = self.last();
        for (position, event) in (0..).zip(changes) {
            if last.len() == CLUSTER_EVENTS_MAX {
                last.pop_front();
            }
            last.push_back(SeenEvent { index, position, at, event });
        }
    }

    fn last(&self) -> MutexGuard<'_, VecDeque<SeenEvent>> {
        // What it guards is right after each step.
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use logway_model::BrokerId;

    use super::*;

    #[test]
    fn the_last_are_kept_and_those_before_the_start_have_no_time() {
        let events = Arc::new(ClusterEvents::default());
        let listener = events.listener();
        let change = |id| ClusterEvent::voters_changed([BrokerId(id)]);
        listener(MetadataIndex(3), vec![change(1), change(2)]);
        events.is_current();
        for index in 4..1_003 {
            listener(MetadataIndex(index), vec![change(3)]);
        }
        let all = events.since(MetadataIndex(0));
        assert_eq!(all.len(), CLUSTER_EVENTS_MAX);
        let first = (all[0].index, all[0].position, all[0].at, &all[0].event);
        assert_eq!(first, (MetadataIndex(3), 1, None, &change(2)));
        assert!(all[1].at.is_some());
        assert_eq!(events.since(MetadataIndex(1_002)).len(), 1);
    }
}
