//! One member's step towards what it shall have.

use std::collections::BTreeSet;
use std::sync::Arc;

use logway_model::{ErrorCode, PartitionId};

use crate::consumer::{GroupEpoch, MemberState, Refusal};

use super::member::CurrentTasks;
use super::tasks::{OwnedTasks, Role, SaidTasks, TargetTasks, TaskId, Tasks, TasksSince};

/// What a step goes by.
pub(super) struct Step<'a> {
    /// Where the member is.
    pub(super) current: &'a CurrentTasks,
    /// The epoch of the assignment.
    pub(super) target_epoch: GroupEpoch,
    /// What it gives the member.
    pub(super) target: &'a TargetTasks,
    /// What the member says that it has, if it does.
    pub(super) said: Option<SaidTasks<'a>>,
    /// Whether this member may take a task.
    pub(super) is_free: &'a dyn Fn(&TaskId, Role) -> bool,
}

impl Step<'_> {
    /// Where the member is after it.
    pub(super) fn take(&self) -> Result<CurrentTasks, Refusal> {
        match self.current.state {
            MemberState::Stable if self.current.epoch == self.target_epoch => {
                Ok(self.current.clone())
            }
            MemberState::UnrevokedPartitions if self.has_any_of(&self.current.revoking) => {
                Ok(self.current.clone())
            }
            MemberState::Stable | MemberState::UnreleasedPartitions => {
                Ok(self.towards_target(self.current.epoch))
            }
            // It has given up what it was to. What it commits from now on it does in the next epoch.
            MemberState::UnrevokedPartitions => Ok(self.towards_target(self.current.epoch.next())),
            // A later version of the coordinator wrote that. The member begins from nothing.
            MemberState::Unknown if self.said.is_none_or(|said| !said.is_empty()) => {
                Err(Refusal::new(
                    ErrorCode::FencedMemberEpoch,
                    "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin.",
                ))
            }
            MemberState::Unknown => Ok(self.towards_target(self.current.epoch)),
        }
    }

    /// Whether the member still has some of the tasks: so it says, or says nothing.
    fn has_any_of(&self, tasks: &OwnedTasks) -> bool {
        self.said.is_none_or(|said| tasks.has_any(&said))
    }

    /// What it has and shall not have goes first, in an epoch; what it shall have and is free comes then.
    fn towards_target(&self, epoch: GroupEpoch) -> CurrentTasks {
        let mut assigned = OwnedTasks::default();
        let mut revoking = OwnedTasks::default();
        let (had, target) = (&self.current.assigned, self.target);
        keep_since(&had.active, &target.active, &mut assigned.active, &mut revoking.active);
        keep(&had.standby, &target.standby, &mut assigned.standby, &mut revoking.standby);
        keep(&had.warmup, &target.warmup, &mut assigned.warmup, &mut revoking.warmup);
        if !revoking.is_empty() && self.has_any_of(&revoking) {
            // It stays in that epoch until it has given them up.
            let (previous_epoch, state) = (self.current.epoch, MemberState::UnrevokedPartitions);
            return CurrentTasks { epoch, previous_epoch, state, assigned, revoking };
        }
        let has_all = self.add_free(&mut assigned);
        CurrentTasks {
            epoch: self.target_epoch,
            previous_epoch: self.current.epoch,
            state: match has_all {
                true => MemberState::Stable,
                false => MemberState::UnreleasedPartitions,
            },
            assigned,
            revoking: OwnedTasks::default(),
        }
    }

    /// Adds what is free of what is to come; whether that is all of it.
    fn add_free(&self, assigned: &mut OwnedTasks) -> bool {
        let mut has_all = true;
        for (subtopology, numbers) in &self.target.active {
            for &number in numbers {
                let has =
                    assigned.active.get(subtopology).is_some_and(|of| of.contains_key(&number));
                if has {
                    continue;
                }
                match (self.is_free)(&(Arc::clone(subtopology), number), Role::Active) {
                    true => {
                        let of = assigned.active.entry(Arc::clone(subtopology)).or_default();
                        of.insert(number, self.target_epoch);
                    }
                    false => has_all = false,
                }
            }
        }
        has_all &=
            self.add_free_followed(&self.target.standby, &mut assigned.standby, Role::Standby);
        has_all &= self.add_free_followed(&self.target.warmup, &mut assigned.warmup, Role::Warmup);
        has_all
    }

    fn add_free_followed(&self, target: &Tasks, assigned: &mut Tasks, role: Role) -> bool {
        let mut has_all = true;
        for (subtopology, numbers) in target {
            for &number in numbers {
                let has = assigned.get(subtopology).is_some_and(|of| of.contains(&number));
                if has {
                    continue;
                }
                match (self.is_free)(&(Arc::clone(subtopology), number), role) {
                    true => {
                        assigned.entry(Arc::clone(subtopology)).or_default().insert(number);
                    }
                    false => has_all = false,
                }
            }
        }
        has_all
    }
}

fn wants(target: &Tasks, subtopology: &str, number: PartitionId) -> bool {
    target.get(subtopology).is_some_and(|of| of.contains(&number))
}

fn keep_since(
    had: &TasksSince,
    target: &Tasks,
    assigned: &mut TasksSince,
    revoking: &mut TasksSince,
) {
    for (subtopology, numbers) in had {
        for (&number, &since) in numbers {
            let side =
                if wants(target, subtopology, number) { &mut *assigned } else { &mut *revoking };
            side.entry(Arc::clone(subtopology)).or_default().insert(number, since);
        }
    }
}

fn keep(had: &Tasks, target: &Tasks, assigned: &mut Tasks, revoking: &mut Tasks) {
    for (subtopology, numbers) in had {
        let nothing = BTreeSet::new();
        let wanted = target.get(subtopology).unwrap_or(&nothing);
        for &number in numbers {
            let side = if wanted.contains(&number) { &mut *assigned } else { &mut *revoking };
            side.entry(Arc::clone(subtopology)).or_default().insert(number);
        }
    }
}
