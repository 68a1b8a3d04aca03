//! One member's step towards what it shall have.

use std::collections::BTreeSet;

use logway_model::{ErrorCode, PartitionId, TopicId};
use logway_wire::messages::consumer_group_heartbeat_request::TopicPartitions as Reported;

use super::GroupEpoch;
use super::member::{CurrentAssignment, MemberState, OwnedPartitions, Partitions};
use super::refusal::Refusal;

/// What a step goes by.
pub(super) struct Step<'a> {
    /// Where the member is.
    pub(super) current: &'a CurrentAssignment,
    /// The epoch of the assignment.
    pub(super) target_epoch: GroupEpoch,
    /// What it gives the member.
    pub(super) target: &'a Partitions,
    /// The topics that the member reads.
    pub(super) subscribed: &'a BTreeSet<TopicId>,
    /// Whether that has changed with this request.
    pub(super) has_subscription_changed: bool,
    /// What the member says that it has, if it does.
    pub(super) reported: Option<&'a [Reported]>,
    /// Whether a partition is free for this member: nobody else has it, or has yet to give it up.
    pub(super) is_free: &'a dyn Fn(TopicId, PartitionId) -> bool,
}

/// Whether a member still has some of the partitions: so it says, or says nothing.
pub(super) fn has_any(reported: Option<&[Reported]>, partitions: &OwnedPartitions) -> bool {
    let Some(reported) = reported else { return true };
    reported.iter().any(|topic| {
        let of = partitions.get(&TopicId(topic.topic_id));
        let is_one = |number: &i32| of.is_some_and(|of| of.contains_key(&PartitionId(*number)));
        topic.partitions.iter().any(is_one)
    })
}

impl Step<'_> {
    /// Where the member is after it.
    pub(super) fn take(&self) -> Result<CurrentAssignment, Refusal> {
        match self.current.state {
            MemberState::Stable if self.current.epoch != self.target_epoch => {
                Ok(self.towards_target(self.current.epoch))
            }
            MemberState::Stable if self.has_subscription_changed => Ok(self.without_unsubscribed()),
            MemberState::Stable => Ok(self.current.clone()),
            MemberState::UnrevokedPartitions if self.has_any_of(&self.current.revoking) => {
                match self.has_subscription_changed {
                    true => Ok(self.without_unsubscribed()),
                    false => Ok(self.current.clone()),
                }
            }
            MemberState::UnrevokedPartitions | MemberState::UnreleasedPartitions => {
                Ok(self.towards_target(self.current.epoch))
            }
            // A later version of the coordinator wrote that. The member begins from nothing.
            MemberState::Unknown if self.reported.is_none_or(|reported| !reported.is_empty()) => {
                Err(Refusal::new(
                    ErrorCode::FencedMemberEpoch,
                    "The consumer group member is in a unknown state. The member must abandon all its \
                     partitions and rejoin.",
                ))
            }
            MemberState::Unknown => Ok(self.towards_target(self.target_epoch)),
        }
    }

    fn has_any_of(&self, partitions: &OwnedPartitions) -> bool {
        has_any(self.reported, partitions)
    }

    /// The member keeps nothing of topics that it does not read any more.
    fn without_unsubscribed(&self) -> CurrentAssignment {
        let is_read = |topic: &TopicId| self.subscribed.contains(topic);
        let mut assigned = self.current.assigned.clone();
        let mut revoking = self.current.revoking.clone();
        assigned.retain(|topic, partitions| {
            if !is_read(topic) {
                revoking.entry(*topic).or_default().append(&mut partitions.clone());
            }
            is_read(topic)
        });
        if assigned.len() == self.current.assigned.len() {
            return self.current.clone();
        }
        let epoch = self.current.epoch;
        if self.has_any_of(&revoking) {
            let state = MemberState::UnrevokedPartitions;
            CurrentAssignment { epoch, previous_epoch: epoch, state, assigned, revoking }
        } else {
            // It has given them up already.
            CurrentAssignment { previous_epoch: epoch, assigned, ..self.current.clone() }
        }
    }

    /// What it has and shall not have goes first; what it shall have and is free comes then.
    fn towards_target(&self, epoch: GroupEpoch) -> CurrentAssignment {
        let nothing = BTreeSet::new();
        let mut assigned = OwnedPartitions::new();
        let mut revoking = OwnedPartitions::new();
        let mut coming = Vec::new();
        let mut has_unreleased = false;
        let topics: BTreeSet<&TopicId> =
            self.target.keys().chain(self.current.assigned.keys()).collect();
        for topic in topics {
            let target = self.target.get(topic).filter(|_| self.subscribed.contains(topic));
            let target = target.unwrap_or(&nothing);
            let has = self.current.assigned.get(topic);
            for (&partition, &since) in has.into_iter().flatten() {
                let side = if target.contains(&partition) { &mut assigned } else { &mut revoking };
                side.entry(*topic).or_default().insert(partition, since);
            }
            let has_it = |partition| has.is_some_and(|has| has.contains_key(partition));
            for &partition in target.iter().filter(|partition| !has_it(partition)) {
                match (self.is_free)(*topic, partition) {
                    true => coming.push((*topic, partition)),
                    false => has_unreleased = true,
                }
            }
        }
        if !revoking.is_empty() && self.has_any_of(&revoking) {
            // It stays in its epoch until it has given them up.
            let state = MemberState::UnrevokedPartitions;
            return CurrentAssignment { epoch, previous_epoch: epoch, state, assigned, revoking };
        }
        for (topic, partition) in coming {
            assigned.entry(topic).or_default().insert(partition, self.target_epoch);
        }
        CurrentAssignment {
            epoch: self.target_epoch,
            previous_epoch: self.current.epoch,
            state: match has_unreleased {
                true => MemberState::UnreleasedPartitions,
                false => MemberState::Stable,
            },
            assigned,
            revoking: OwnedPartitions::new(),
        }
    }
}
