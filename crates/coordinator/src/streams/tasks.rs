//! Tasks: partitions of subtopologies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use logway_model::PartitionId;
use logway_wire::messages::streams_group_heartbeat_request::TaskIds as Reported;

use crate::consumer::GroupEpoch;

/// A task: a subtopology's id, and a partition.
pub type TaskId = (Arc<str>, PartitionId);

/// Tasks by subtopology.
pub type Tasks = BTreeMap<Arc<str>, BTreeSet<PartitionId>>;

/// Tasks that a member has, each with the epoch in which it got it.
pub type TasksSince = BTreeMap<Arc<str>, BTreeMap<PartitionId, GroupEpoch>>;

/// What a member shall have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TargetTasks {
    /// To process.
    pub active: Tasks,
    /// To follow the state of.
    pub standby: Tasks,
    /// To prepare the state of. Later versions of Kafka assign such; here there are none.
    pub warmup: Tasks,
}

/// What a member has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OwnedTasks {
    /// What it processes.
    pub active: TasksSince,
    /// What it follows the state of.
    pub standby: Tasks,
    /// What it prepares the state of.
    pub warmup: Tasks,
}

/// In what way a member has a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Active,
    Standby,
    Warmup,
}

/// What one subtopology takes of a member's tasks beside its id, and what one task takes.
const SUBTOPOLOGY_BYTES: usize = 96;
const TASK_BYTES: usize = 32;

impl OwnedTasks {
    pub(super) fn is_empty(&self) -> bool {
        self.active.is_empty() && self.standby.is_empty() && self.warmup.is_empty()
    }

    /// What it processes.
    pub(crate) fn active_tasks(&self) -> impl Iterator<Item = TaskId> {
        self.active.iter().flat_map(|(subtopology, of)| {
            of.keys().map(move |number| (Arc::clone(subtopology), *number))
        })
    }

    /// Every task, and in what way the member has it.
    pub(super) fn all(&self) -> impl Iterator<Item = (TaskId, Role)> {
        let active = self.active_tasks().map(|task| (task, Role::Active));
        active.chain(each(&self.standby, Role::Standby)).chain(each(&self.warmup, Role::Warmup))
    }

    /// Whether a member that says what it has, has any of these.
    pub(super) fn has_any(&self, said: &SaidTasks) -> bool {
        let active = said.active.iter().any(|of| {
            let here = self.active.get(of.subtopology_id.as_str());
            here.is_some_and(|here| {
                of.partitions.iter().any(|it| here.contains_key(&PartitionId(*it)))
            })
        });
        active || overlap(&self.standby, said.standby) || overlap(&self.warmup, said.warmup)
    }

    /// Whether a member that says what it has, has nothing else.
    pub(super) fn has_all(&self, said: &SaidTasks) -> bool {
        let active = said.active.iter().all(|of| {
            let here = self.active.get(of.subtopology_id.as_str());
            here.is_some_and(|here| {
                of.partitions.iter().all(|it| here.contains_key(&PartitionId(*it)))
            })
        });
        active && cover(&self.standby, said.standby) && cover(&self.warmup, said.warmup)
    }

    /// Whether a member that says what it has, has just these.
    pub(super) fn is_all_of(&self, said: &SaidTasks) -> bool {
        let said_count = said.all().map(|of| of.partitions.len()).sum::<usize>();
        self.has_all(said) && said_count >= self.task_count()
    }

    pub(super) fn held_bytes(&self) -> usize {
        let active = self.active.iter().map(|(id, of)| bytes_of(id, of.len()));
        active.sum::<usize>() + tasks_bytes(&self.standby) + tasks_bytes(&self.warmup)
    }

    /// How many tasks there are.
    pub fn task_count(&self) -> usize {
        let active: usize = self.active.values().map(BTreeMap::len).sum();
        active + tasks_count(&self.standby) + tasks_count(&self.warmup)
    }

    /// Of how many subtopologies, each counted for each way to have it.
    pub(super) fn subtopology_count(&self) -> usize {
        self.active.len() + self.standby.len() + self.warmup.len()
    }
}

impl TargetTasks {
    pub(super) fn held_bytes(&self) -> usize {
        tasks_bytes(&self.active) + tasks_bytes(&self.standby) + tasks_bytes(&self.warmup)
    }

    /// How many tasks there are.
    pub fn task_count(&self) -> usize {
        [&self.active, &self.standby, &self.warmup].into_iter().map(tasks_count).sum()
    }

    /// Of how many subtopologies, each counted for each way to have it.
    pub(super) fn subtopology_count(&self) -> usize {
        self.active.len() + self.standby.len() + self.warmup.len()
    }
}

/// What a member says that it has: all of it, or nothing is said.
#[derive(Debug, Clone, Copy)]
pub(super) struct SaidTasks<'a> {
    pub(super) active: &'a [Reported],
    pub(super) standby: &'a [Reported],
    pub(super) warmup: &'a [Reported],
}

impl SaidTasks<'_> {
    /// Every subtopology that is named, with its partitions.
    pub(super) fn all(&self) -> impl Iterator<Item = &Reported> {
        self.active.iter().chain(self.standby).chain(self.warmup)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all().all(|of| of.partitions.is_empty())
    }
}

fn each(tasks: &Tasks, role: Role) -> impl Iterator<Item = (TaskId, Role)> {
    tasks.iter().flat_map(move |(subtopology, of)| {
        of.iter().map(move |number| ((Arc::clone(subtopology), *number), role))
    })
}

fn overlap(tasks: &Tasks, said: &[Reported]) -> bool {
    said.iter().any(|of| {
        let here = tasks.get(of.subtopology_id.as_str());
        here.is_some_and(|here| of.partitions.iter().any(|it| here.contains(&PartitionId(*it))))
    })
}

fn cover(tasks: &Tasks, said: &[Reported]) -> bool {
    said.iter().all(|of| {
        let here = tasks.get(of.subtopology_id.as_str());
        here.is_some_and(|here| of.partitions.iter().all(|it| here.contains(&PartitionId(*it))))
    })
}

fn bytes_of(subtopology: &str, tasks: usize) -> usize {
    SUBTOPOLOGY_BYTES + subtopology.len() + tasks * TASK_BYTES
}

fn tasks_bytes(tasks: &Tasks) -> usize {
    tasks.iter().map(|(id, of)| bytes_of(id, of.len())).sum()
}

fn tasks_count(tasks: &Tasks) -> usize {
    tasks.values().map(BTreeSet::len).sum()
}
