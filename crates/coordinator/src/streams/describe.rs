//! What clients are told of a streams group.

use logway_wire::WireString;
use logway_wire::messages::streams_group_describe_response::{
    Assignment, DescribedGroup, Endpoint, KeyValue, Member as DescribedMember, TaskIds,
};

use crate::ids::MemberId;
use crate::request::COPIES;
use crate::turn::Turn;

use super::group::StreamsGroup;
use super::member::Member;
use super::tasks::{OwnedTasks, TargetTasks, Tasks};

/// What one member takes beside its texts, one subtopology of it, and one task.
const MEMBER_BYTES: usize = 512;
const SUBTOPOLOGY_BYTES: usize = 384;
const TASK_BYTES: usize = 8;

impl StreamsGroup {
    /// The group, for StreamsGroupDescribe.
    pub(crate) fn describe(&self, group_id: WireString, turn: &Turn) -> DescribedGroup {
        let members = self.members().map(|(id, member)| self.describe_member(id, member));
        let topology = self.topology().map(|topology| {
            let seen = topology.configure(turn.view, turn.settings.streams.tasks_max);
            let is_ready = seen.is_ready();
            // What is there has as many partitions as it has to have.
            topology.describe(|topic| match turn.view.topic(&topic.name) {
                Some(present) if is_ready => present.partition_count,
                _ => topic.partitions,
            })
        });
        DescribedGroup {
            group_id,
            group_state: self.state().name().into(),
            group_epoch: self.epoch().0,
            assignment_epoch: self.assignment_epoch().0,
            topology,
            members: members.collect(),
            ..DescribedGroup::default()
        }
    }

    fn describe_member(&self, id: &MemberId, member: &Member) -> DescribedMember {
        let text = |text: &str| WireString::copy_of(text);
        let about = &member.about;
        let tags = about.client_tags.iter().map(|(key, value)| KeyValue {
            key: text(key),
            value: text(value),
            ..Default::default()
        });
        DescribedMember {
            member_id: id.to_wire(),
            member_epoch: member.current.epoch.0,
            rack_id: about.rack_id.as_deref().map(text),
            client_id: text(&about.client_id),
            client_host: text(&about.client_host),
            topology_epoch: about.topology_epoch,
            process_id: text(&about.process_id),
            user_endpoint: about.endpoint.as_ref().map(|it| Endpoint {
                host: text(&it.host),
                port: it.port,
                ..Default::default()
            }),
            client_tags: tags.collect(),
            assignment: owned(&member.current.assigned),
            target_assignment: self.target(id.as_str()).map(|it| target(it)).unwrap_or_default(),
            ..DescribedMember::default()
        }
    }

    /// What the description takes, encoded form included.
    pub(crate) fn described_bytes(&self) -> usize {
        let members = self.members().map(|(id, member)| {
            let assigned = &member.current.assigned;
            let target = self.target(id.as_str());
            let tasks = assigned.task_count() + target.map_or(0, |it| it.task_count());
            let of = assigned.subtopology_count() + target.map_or(0, |it| it.subtopology_count());
            let names = assigned.held_bytes() + target.map_or(0, |it| it.held_bytes());
            let texts = member.about.held_bytes() + id.as_str().len() + names;
            MEMBER_BYTES + COPIES * (texts + tasks * TASK_BYTES) + of * SUBTOPOLOGY_BYTES
        });
        let topology = self.topology().map_or(0, |topology| topology.held_bytes());
        members.sum::<usize>() + 2 * COPIES * topology
    }
}

fn all_task_ids(tasks: &Tasks) -> Vec<TaskIds> {
    let of = tasks.iter();
    of.map(|(id, of)| task_ids(id, of.iter().map(|number| number.0).collect())).collect()
}

fn task_ids(subtopology: &str, partitions: Vec<i32>) -> TaskIds {
    TaskIds { subtopology_id: WireString::copy_of(subtopology), partitions, ..TaskIds::default() }
}

fn owned(tasks: &OwnedTasks) -> Assignment {
    let active = tasks.active.iter();
    let active =
        active.map(|(id, of)| task_ids(id, of.keys().map(|number| number.0).collect())).collect();
    Assignment {
        active_tasks: active,
        standby_tasks: all_task_ids(&tasks.standby),
        warmup_tasks: all_task_ids(&tasks.warmup),
        ..Assignment::default()
    }
}

fn target(tasks: &TargetTasks) -> Assignment {
    Assignment {
        active_tasks: all_task_ids(&tasks.active),
        standby_tasks: all_task_ids(&tasks.standby),
        warmup_tasks: all_task_ids(&tasks.warmup),
        ..Assignment::default()
    }
}
