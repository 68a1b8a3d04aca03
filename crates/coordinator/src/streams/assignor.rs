//! The sticky assignor: tasks stay where they are, or go to where their state is, as far as that keeps the load even.
//!
//! The steps are those of Kafka 4.3's `StickyTaskAssignor`. Here they depend on nothing but the members and their tasks:
//! equals are ordered by their names.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use logway_model::PartitionId;

use crate::ids::MemberId;

use super::tasks::{TargetTasks, Tasks};

/// A member that can have tasks.
#[derive(Debug, Clone)]
pub(super) struct Worker {
    pub(super) id: MemberId,
    /// Members of one process share a state directory.
    pub(super) process_id: Arc<str>,
    /// What the assignment before gave it.
    pub(super) had: Arc<TargetTasks>,
}

/// A subtopology whose tasks are to be assigned.
#[derive(Debug, Clone)]
pub(super) struct Work {
    pub(super) subtopology: Arc<str>,
    pub(super) task_count: i32,
    /// Whether its tasks have state, and so standbys.
    pub(super) is_stateful: bool,
}

/// A task: the place of its subtopology, and a partition.
type Task = (usize, i32);

/// Gives every task to a member, and so many standbys of each that has state.
///
/// `workers` are ordered by their ids, and `work` by the subtopologies'.
pub(super) fn assign(
    workers: &[Worker],
    work: &[Work],
    standby_replicas: usize,
) -> Vec<(MemberId, TargetTasks)> {
    if workers.is_empty() {
        return Vec::new();
    }
    let mut load = Load::new(workers, work, standby_replicas);
    load.assign_active(&tasks_of(work, |_| true));
    if standby_replicas > 0 {
        load.assign_standby(&tasks_of(work, |of| of.is_stateful), standby_replicas);
    }
    let targets = load.members.into_iter().map(|member| TargetTasks {
        active: named(&member.active, work),
        standby: named(&member.standby, work),
        warmup: Tasks::new(),
    });
    workers.iter().map(|worker| worker.id.clone()).zip(targets).collect()
}

fn tasks_of(work: &[Work], is_meant: impl Fn(&Work) -> bool) -> Vec<Task> {
    let meant = work.iter().enumerate().filter(|(_, of)| is_meant(of));
    meant.flat_map(|(place, of)| (0..of.task_count).map(move |number| (place, number))).collect()
}

fn named(tasks: &BTreeSet<Task>, work: &[Work]) -> Tasks {
    let mut named = Tasks::new();
    for &(place, number) in tasks {
        let of = named.entry(Arc::clone(&work[place].subtopology)).or_default();
        of.insert(PartitionId(number));
    }
    named
}

/// How many tasks a member may have at most, so that all have about as many.
struct Quota {
    members_left: usize,
    tasks_left: usize,
    each: usize,
}

impl Quota {
    fn new(tasks: usize, members: usize) -> Quota {
        Quota { members_left: members, tasks_left: tasks, each: tasks.div_ceil(members) }
    }

    /// A member has so many now. Where it has its share, the others share the rest.
    fn note(&mut self, count: usize) {
        if count == self.each && self.members_left > 0 {
            self.members_left -= 1;
            self.tasks_left = self.tasks_left.saturating_sub(count);
            self.each = match self.members_left {
                0 => 0,
                left => self.tasks_left.div_ceil(left),
            };
        }
    }
}

#[derive(Default)]
struct Member {
    process: usize,
    count: usize,
    active: BTreeSet<Task>,
    standby: BTreeSet<Task>,
}

#[derive(Default)]
struct Process {
    capacity: usize,
    count: usize,
    tasks: HashSet<Task>,
    /// By how many tasks they have.
    members: BTreeSet<(usize, usize)>,
}

/// Tasks per member of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Share {
    count: usize,
    capacity: usize,
}

impl Ord for Share {
    fn cmp(&self, other: &Share) -> Ordering {
        (self.count * other.capacity).cmp(&(other.count * self.capacity))
    }
}

impl PartialOrd for Share {
    fn partial_cmp(&self, other: &Share) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Who has what so far.
struct Load {
    members: Vec<Member>,
    processes: Vec<Process>,
    /// Processes by their load.
    by_share: BTreeSet<(Share, usize)>,
    had_active: HashMap<Task, usize>,
    had_standby: HashMap<Task, Vec<usize>>,
    active_quota: Quota,
    quota: Quota,
}

impl Load {
    fn new(workers: &[Worker], work: &[Work], standby_replicas: usize) -> Load {
        let count = |of: &Work| usize::try_from(of.task_count).unwrap_or(0);
        let active: usize = work.iter().map(count).sum();
        let stateful: usize = work.iter().filter(|of| of.is_stateful).map(count).sum();
        let places: HashMap<&str, usize> =
            work.iter().enumerate().map(|(place, of)| (&*of.subtopology, place)).collect();
        let process_ids: BTreeSet<&str> = workers.iter().map(|it| &*it.process_id).collect();
        let process_places: BTreeMap<&str, usize> =
            process_ids.into_iter().enumerate().map(|(place, id)| (id, place)).collect();
        let mut load = Load {
            members: Vec::with_capacity(workers.len()),
            processes: process_places.iter().map(|_| Process::default()).collect(),
            by_share: BTreeSet::new(),
            had_active: HashMap::new(),
            had_standby: HashMap::new(),
            active_quota: Quota::new(active, workers.len()),
            quota: Quota::new(active + stateful * standby_replicas, workers.len()),
        };
        for (place, worker) in workers.iter().enumerate() {
            let process = process_places[&*worker.process_id];
            load.processes[process].capacity += 1;
            load.processes[process].members.insert((0, place));
            load.members.push(Member { process, ..Member::default() });
            let known = |tasks: &Tasks| {
                let of = tasks.iter().filter_map(|(id, of)| Some((*places.get(&**id)?, of)));
                let each = of.flat_map(|(id, of)| of.iter().map(move |number| (id, number.0)));
                each.collect::<Vec<Task>>()
            };
            load.had_active.extend(known(&worker.had.active).into_iter().map(|task| (task, place)));
            for task in known(&worker.had.standby) {
                load.had_standby.entry(task).or_default().push(place);
            }
        }
        let shares = load.processes.iter().enumerate();
        load.by_share = shares.map(|(place, process)| (share(process), place)).collect();
        load
    }

    fn add(&mut self, member: usize, task: Task, is_active: bool) {
        let place = self.members[member].process;
        let (count, process) = (self.members[member].count, &mut self.processes[place]);
        self.by_share.remove(&(share(process), place));
        process.count += 1;
        process.tasks.insert(task);
        process.members.remove(&(count, member));
        process.members.insert((count + 1, member));
        self.by_share.insert((share(process), place));
        let member = &mut self.members[member];
        member.count += 1;
        let side = if is_active { &mut member.active } else { &mut member.standby };
        side.insert(task);
        let count = member.count;
        if is_active {
            self.active_quota.note(count);
        }
        self.quota.note(count);
    }

    fn assign_active(&mut self, tasks: &[Task]) {
        // Partitions of several subtopologies that were together stay together.
        let mut left = tasks.to_vec();
        left.sort_by_key(|&(subtopology, number)| (number, subtopology));
        left.retain(|&task| {
            let before = self.had_active.get(&task).copied();
            let before = before.filter(|it| self.members[*it].count < self.active_quota.each);
            before.is_none_or(|before| {
                self.add(before, task, true);
                false
            })
        });
        left.retain(|&task| {
            let before = self.least_loaded(self.had_standby.get(&task), None);
            let before = before.filter(|it| self.members[*it].count < self.active_quota.each);
            before.is_none_or(|before| {
                self.add(before, task, true);
                false
            })
        });
        left.sort_unstable();
        for task in left {
            let Some(&(_, process)) = self.by_share.first() else { return };
            self.add_to_process(process, task, true);
        }
    }

    fn add_to_process(&mut self, process: usize, task: Task, is_active: bool) {
        if let Some(&(_, member)) = self.processes[process].members.first() {
            self.add(member, task, is_active);
        }
    }

    fn assign_standby(&mut self, tasks: &[Task], replicas: usize) {
        let mut tasks = tasks.to_vec();
        tasks.sort_by_key(|&(subtopology, number)| std::cmp::Reverse((number, subtopology)));
        let mut left = Vec::new();
        for task in tasks {
            let mut remaining = replicas;
            while remaining > 0
                && let Some(before) = self.follower_before(task)
            {
                self.add(before, task, false);
                remaining -= 1;
            }
            left.push((task, remaining));
        }
        left.sort_by_key(|&(task, _)| std::cmp::Reverse(task));
        for (task, remaining) in left {
            for _ in 0..remaining {
                let lacks_it = |place: &usize| !self.processes[*place].tasks.contains(&task);
                // No more than the replicas have it, so that is found soon, or there are too few processes.
                let process = self.by_share.iter().map(|(_, place)| *place).find(lacks_it);
                let Some(process) = process else { break };
                self.add_to_process(process, task, false);
            }
        }
    }

    /// A member that has the state of a task from before, and may have one more.
    fn follower_before(&self, task: Task) -> Option<usize> {
        let has_room = |it: &usize| self.members[*it].count < self.quota.each;
        let active = self.had_active.get(&task).copied();
        let active = active.filter(|it| !self.has_in_process(*it, task)).filter(has_room);
        active
            .or_else(|| self.least_loaded(self.had_standby.get(&task), Some(task)).filter(has_room))
    }

    fn has_in_process(&self, member: usize, task: Task) -> bool {
        self.processes[self.members[member].process].tasks.contains(&task)
    }

    /// Of several members, the one with the least to do, which does not have the task already.
    fn least_loaded(&self, among: Option<&Vec<usize>>, lacks: Option<Task>) -> Option<usize> {
        let lacks_it = |it: &usize| lacks.is_none_or(|task| !self.has_in_process(*it, task));
        let members = among.into_iter().flatten().copied().filter(lacks_it);
        members.min_by_key(|it| {
            let member = &self.members[*it];
            (share(&self.processes[member.process]), member.count, *it)
        })
    }
}

fn share(process: &Process) -> Share {
    Share { count: process.count, capacity: process.capacity }
}

#[cfg(test)]
mod tests;
