//! The target assignment of a group.

use std::sync::Arc;

use logway_model::GroupType;
use logway_wire::messages::streams_group_heartbeat_response::Status;
use tracing::info;

use crate::consumer::{Draft, TargetVersion, left_of_interval_ms};
use crate::timers::Timer;
use crate::turn::Turn;

use super::assignor::{self, Work, Worker};
use super::configured::{StatusCode, status};
use super::group::StreamsGroup;
use super::record::{StreamsRecord, StreamsVersion};
use super::tasks::TargetTasks;

impl Draft<StreamsGroup> {
    /// Begins the next group epoch, with the topics as they are.
    pub(super) fn bump_epoch(&mut self, turn: &Turn) {
        turn.rebalances.note(GroupType::Streams);
        let now = self.version_now(turn);
        let version = StreamsVersion { epoch: self.epoch().next(), ..now };
        self.write(StreamsRecord::Group(Some(version)));
    }

    /// Begins the next group epoch if the topics or the settings that assignments go by are others than at this one.
    pub(super) fn bump_if_changed(&mut self, turn: &Turn) {
        if self.version() != Some(self.version_now(turn)) {
            self.bump_epoch(turn);
        }
    }

    /// What the state of the group would be if its epoch began now.
    fn version_now(&self, turn: &Turn) -> StreamsVersion {
        let (view, tasks_max) = (turn.view, turn.settings.streams.tasks_max);
        let topology = self.topology();
        let seen = topology.map(|topology| topology.configure(view, tasks_max));
        let is_complete = seen.as_ref().is_some_and(|seen| seen.is_ready());
        let overrides = turn.streams_overrides(&self.id);
        StreamsVersion {
            epoch: self.epoch(),
            // As that of no topics.
            metadata_hash: seen.map_or(0, |seen| seen.topics_hash),
            validated_topology: topology.filter(|_| is_complete).map(|topology| topology.epoch()),
            standby_replicas: Some(turn.settings.streams.standby_replicas(&overrides)),
        }
    }

    /// Makes the assignment for the group epoch, if there is none yet, enough members had the time to join, and the last one
    /// is old enough. Else a timer sees to it, and members are told.
    pub(super) fn assign(&mut self, turn: &mut Turn) -> Option<Status> {
        if self.assignment_epoch() >= self.epoch() || self.is_empty() {
            return None;
        }
        if turn.timers.is_set(&Timer::FirstAssign(self.id.clone())) {
            let detail = "Assignment delayed due to the configured initial rebalance delay.";
            return Some(status(StatusCode::AssignmentDelayed, detail));
        }
        match self.assignment_delay_ms(turn) {
            0 => {
                self.assign_now(turn);
                None
            }
            delay_ms => {
                turn.set_timer(Timer::Assign(self.id.clone()), delay_ms);
                let detail = "Assignment delayed due to the configured assignment interval.";
                Some(status(StatusCode::AssignmentDelayed, detail))
            }
        }
    }

    /// How long the next assignment has to wait (KIP-1263).
    fn assignment_delay_ms(&self, turn: &Turn) -> u64 {
        let overrides = turn.streams_overrides(&self.id);
        let interval_ms = turn.settings.streams.assignment_interval_ms(&overrides);
        left_of_interval_ms(interval_ms, self.assigned_at(), turn.now.wall)
    }

    fn assign_now(&mut self, turn: &mut Turn) {
        turn.timers.clear(Timer::Assign(self.id.clone()));
        let epoch = self.epoch();
        let workers = self.workers();
        let replicas = self.version().and_then(|version| version.standby_replicas).unwrap_or(0);
        let replicas = usize::try_from(replicas).unwrap_or(usize::MAX);
        let assigned = assignor::assign(&workers, &self.work(turn), replicas);
        info!(group = %self.id, %epoch, members = assigned.len(), "has a new assignment of tasks");
        for (id, target) in assigned {
            if self.target(id.as_str()).is_none_or(|former| **former != target) {
                self.write(StreamsRecord::Target(id, Some(Arc::new(target))));
            }
        }
        let made_at = Some(turn.now.wall);
        self.write(StreamsRecord::Assignment(Some(TargetVersion { epoch, made_at })));
    }

    fn workers(&self) -> Vec<Worker> {
        let nothing = Arc::new(TargetTasks::default());
        let workers = self.members().map(|(id, member)| Worker {
            id: id.clone(),
            process_id: Arc::clone(&member.about.process_id),
            had: self.target(id.as_str()).unwrap_or(&nothing).clone(),
        });
        workers.collect()
    }

    /// What there is to do: nothing as long as not all topics are there.
    fn work(&self, turn: &Turn) -> Vec<Work> {
        let Some(topology) = self.topology().filter(|_| self.is_ready()) else { return Vec::new() };
        let seen = topology.configure(turn.view, turn.settings.streams.tasks_max);
        let Ok(configured) = &seen.configured else { return Vec::new() };
        let stateful = |id: &str| {
            topology.subtopology(id).is_some_and(|it| !it.state_changelog_topics.is_empty())
        };
        let work = configured.task_counts.iter().map(|(id, &task_count)| Work {
            subtopology: id.as_str().into(),
            task_count,
            is_stateful: stateful(id),
        });
        work.collect()
    }
}
