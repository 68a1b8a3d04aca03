//! The target assignment of a group.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use logway_model::{TimestampMs, TopicId};
use tracing::info;

use crate::ids::MemberId;
use crate::timers::Timer;
use crate::turn::Turn;

use super::assignor::{Assignor, Reader, Readers};
use super::draft::Draft;
use super::group::ConsumerGroup;
use super::member::{Partitions, Subscription};
use super::record::{ConsumerRecord, TargetVersion};
use super::subscription::partition_counts;

impl ConsumerGroup {
    /// The assignor that most members ask for, or the broker's first.
    pub(super) fn assignor(&self, assignors: &[Assignor]) -> Assignor {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, member) in self.members() {
            if let Some(name) = &member.subscription.assignor {
                *counts.entry(name.as_str()).or_default() += 1;
            }
        }
        // Of several that are asked for equally often, the first by name: it shall not change by itself.
        let most = counts.into_iter().rev().max_by_key(|(_, count)| *count);
        let named = most.and_then(|(name, _)| Assignor::named(name));
        named.or_else(|| assignors.first().copied()).unwrap_or_default()
    }

    fn readers(&self, turn: &Turn) -> Readers {
        let mut topics_by_subscription = BTreeMap::new();
        let mut sets: BTreeMap<BTreeSet<TopicId>, Arc<BTreeSet<TopicId>>> = BTreeMap::new();
        let readers = self.members().map(|(id, member)| {
            let subscription = &member.subscription;
            // Members mostly read the same, and that shall cost once.
            let key = (&subscription.topics, subscription.pattern());
            let topics = topics_by_subscription.entry(key).or_insert_with(|| {
                let topics = self.topics_of(subscription, turn.view);
                Arc::clone(sets.entry(topics.clone()).or_insert_with(|| Arc::new(topics)))
            });
            Reader {
                id: id.clone(),
                instance_id: subscription.instance_id.clone(),
                topics: Arc::clone(topics),
                had: self.target(id.as_str()).cloned().unwrap_or_default(),
            }
        });
        let readers = readers.collect();
        let topics = sets.into_keys().flatten();
        Readers { readers, partition_counts: partition_counts(topics, turn.view) }
    }
}

impl Draft {
    /// Makes the assignment for the group epoch, if there is none yet and the last one is old enough. Else a timer sees
    /// to it.
    pub(super) fn assign(&mut self, turn: &mut Turn) {
        if self.assignment_epoch() >= self.epoch() || self.is_empty() {
            return;
        }
        match self.assignment_delay_ms(turn) {
            0 => self.assign_now(turn),
            delay_ms => turn.set_timer(Timer::Assign(self.id.clone()), delay_ms),
        }
    }

    /// How long the next assignment has to wait (KIP-1263).
    fn assignment_delay_ms(&self, turn: &Turn) -> u64 {
        let interval_ms = turn.settings.consumer.assignment_interval_ms(&turn.overrides(&self.id));
        left_of_interval_ms(interval_ms, self.assigned_at(), turn.now.wall)
    }

    fn assign_now(&mut self, turn: &mut Turn) {
        turn.timers.clear(Timer::Assign(self.id.clone()));
        let epoch = self.epoch();
        let assignor = self.assignor(&turn.settings.consumer.assignors);
        let assigned = assignor.assign(self.readers(turn));
        info!(group = %self.id, %epoch, assignor = assignor.name(), members = assigned.len(),
            "has a new assignment");
        for (id, target) in assigned {
            self.write_target(id, target);
        }
        let made_at = Some(turn.now.wall);
        self.write(ConsumerRecord::Assignment(Some(TargetVersion { epoch, made_at })));
    }

    fn write_target(&mut self, id: MemberId, target: Partitions) {
        if self.target(id.as_str()).is_none_or(|former| **former != target) {
            self.write(ConsumerRecord::Target(id, Some(Arc::new(target))));
        }
    }
}

/// What is left of an interval since the last assignment, if there was any.
pub(crate) fn left_of_interval_ms(
    interval_ms: u32,
    assigned_at: Option<TimestampMs>,
    now: TimestampMs,
) -> u64 {
    let Some(TimestampMs(assigned_at)) = assigned_at else { return 0 };
    // After a clock was set back, nothing says how old it is.
    let age_ms = now.0.saturating_sub(assigned_at);
    let age_ms = u64::try_from(age_ms).unwrap_or(u64::MAX);
    u64::from(interval_ms).saturating_sub(age_ms)
}

/// What two subscriptions have in common if they stand for the same topics.
pub(super) fn reads_alike(one: &Subscription, other: &Subscription) -> bool {
    one.topics == other.topics && one.pattern() == other.pattern()
}
