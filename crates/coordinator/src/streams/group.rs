//! A streams group, as the log knows it.

use std::sync::Arc;

use logway_model::TimestampMs;
use rpds::RedBlackTreeMapSync;

use crate::consumer::{ConsumerState, Drafted, GroupEpoch, TargetVersion};
use crate::ids::{GroupId, MEMBER_ID_COPIES, MemberId};
use crate::record::GroupRecord;

use super::endpoints::told_bytes;
use super::member::{CurrentTasks, Member};
use super::record::{StreamsRecord, StreamsVersion};
use super::tasks::{Role, TargetTasks, TaskId};
use super::topology::Topology;

/// A map whose copies share what they have in common.
type Map<K, V> = RedBlackTreeMapSync<K, V>;

/// A streams group.
///
/// Copies cost a few reference counts. Nothing but [`StreamsGroup::apply`] changes what the log says of it; `holders` and
/// `endpoint_epoch` follow from that, the latter since the group was loaded. Who asked for a shutdown is not in the log.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StreamsGroup {
    version: Option<StreamsVersion>,
    assignment: Option<TargetVersion>,
    topology: Option<Arc<Topology>>,
    members: Map<MemberId, Member>,
    targets: Map<MemberId, Arc<TargetTasks>>,
    /// Who has a task in any way, or has yet to give it up.
    holders: Map<TaskId, Arc<Vec<(MemberId, Role)>>>,
    /// Grows when a process that answers queries has other tasks.
    endpoint_epoch: i32,
    /// What it would take to tell a member of all of them.
    endpoints_bytes: usize,
    /// The member that asked for the end of the whole application.
    shutdown_by: Option<MemberId>,
    held_bytes: usize,
}

/// What a holder takes, with its place in a map.
const HOLDER_BYTES: usize = 160;

impl StreamsGroup {
    pub(crate) fn new() -> StreamsGroup {
        StreamsGroup {
            version: None,
            assignment: None,
            topology: None,
            members: Map::new_sync(),
            targets: Map::new_sync(),
            holders: Map::new_sync(),
            endpoint_epoch: 0,
            endpoints_bytes: 0,
            shutdown_by: None,
            held_bytes: 0,
        }
    }

    /// Takes over what a record says.
    pub(crate) fn apply(&mut self, record: &StreamsRecord) {
        match record {
            StreamsRecord::Group(version) => self.version = *version,
            StreamsRecord::Assignment(version) => self.assignment = *version,
            StreamsRecord::Topology(topology) => {
                let bytes =
                    |of: &Option<Arc<Topology>>| of.as_ref().map_or(0, |it| it.held_bytes());
                self.held_bytes = self.held_bytes + bytes(topology) - bytes(&self.topology);
                self.topology.clone_from(topology);
                let members = self.members.values();
                self.endpoints_bytes =
                    members.map(|member| told_bytes(topology.as_deref(), member)).sum();
            }
            StreamsRecord::Member(id, about) => {
                let member = self.members.get(id).cloned();
                let next = about.as_ref().map(|about| Member {
                    about: Arc::clone(about),
                    current: member.as_ref().map(|it| Arc::clone(&it.current)).unwrap_or_default(),
                });
                self.replace_member(id, member, next);
            }
            StreamsRecord::Current(id, current) => {
                // After compaction, what a member has can stand before who it is.
                let member = self.members.get(id).cloned();
                let next = match current {
                    Some(current) => Some(Member {
                        current: Arc::clone(current),
                        ..member.clone().unwrap_or_default()
                    }),
                    None => member.clone().map(|it| Member { current: Arc::default(), ..it }),
                };
                self.replace_member(id, member, next);
            }
            StreamsRecord::Target(id, target) => self.replace_target(id, target.as_ref()),
        }
    }

    fn replace_member(&mut self, id: &MemberId, former: Option<Member>, next: Option<Member>) {
        let tells = |member: &Option<Member>| {
            let member = member.as_ref()?;
            let endpoint = member.about.endpoint.clone()?;
            Some((endpoint, member.current.assigned.clone()))
        };
        if tells(&former) != tells(&next) {
            self.endpoint_epoch = self.endpoint_epoch.wrapping_add(1).max(0);
        }
        if let Some(former) = &former {
            self.held_bytes -= member_bytes(id, former);
            self.endpoints_bytes -= told_bytes(self.topology.as_deref(), former);
            self.forget_held(id, &former.current);
        }
        match next {
            Some(next) => {
                self.held_bytes += member_bytes(id, &next);
                self.endpoints_bytes += told_bytes(self.topology.as_deref(), &next);
                self.note_held(id, &next.current);
                self.members.insert_mut(id.clone(), next);
            }
            None => {
                self.members.remove_mut(id);
            }
        }
        if self.members.is_empty() {
            self.shutdown_by = None;
        }
    }

    fn note_held(&mut self, id: &MemberId, current: &CurrentTasks) {
        for (task, role) in current.assigned.all().chain(current.revoking.all()) {
            let mut holders = self.holders.get(&task).map(|it| (**it).clone()).unwrap_or_default();
            holders.push((id.clone(), role));
            self.holders.insert_mut(task, Arc::new(holders));
        }
    }

    fn forget_held(&mut self, id: &MemberId, current: &CurrentTasks) {
        for (task, _) in current.assigned.all().chain(current.revoking.all()) {
            let Some(holders) = self.holders.get(&task) else { continue };
            let others: Vec<_> =
                holders.iter().filter(|(holder, _)| holder != id).cloned().collect();
            match others.is_empty() {
                true => {
                    self.holders.remove_mut(&task);
                }
                false => self.holders.insert_mut(task, Arc::new(others)),
            }
        }
    }

    fn replace_target(&mut self, id: &MemberId, target: Option<&Arc<TargetTasks>>) {
        if let Some(former) = self.targets.get(id) {
            self.held_bytes -= former.held_bytes();
        }
        match target {
            Some(target) => {
                self.held_bytes += target.held_bytes();
                self.targets.insert_mut(id.clone(), Arc::clone(target));
            }
            None => {
                self.targets.remove_mut(id);
            }
        }
    }

    /// Whether the log says nothing of the group.
    pub(crate) fn is_gone(&self) -> bool {
        self.version.is_none() && self.topology.is_none() && self.members.is_empty()
    }

    /// Whether it has been at any epoch.
    pub(super) fn has_version(&self) -> bool {
        self.version.is_some()
    }

    /// Whether it has no members.
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(crate) fn epoch(&self) -> GroupEpoch {
        self.version.map_or(GroupEpoch::BEFORE_FIRST, |version| version.epoch)
    }

    /// The state of the group as a whole.
    pub(super) fn version(&self) -> Option<StreamsVersion> {
        self.version
    }

    pub(crate) fn assignment_epoch(&self) -> GroupEpoch {
        self.assignment.map_or(GroupEpoch::BEFORE_FIRST, |version| version.epoch)
    }

    /// When the assignment was made.
    pub(super) fn assigned_at(&self) -> Option<TimestampMs> {
        self.assignment.and_then(|version| version.made_at)
    }

    pub(super) fn topology(&self) -> Option<&Arc<Topology>> {
        self.topology.as_ref()
    }

    /// Whether all topics of the topology are there, as they have to be.
    pub(super) fn is_ready(&self) -> bool {
        let validated = self.version.and_then(|version| version.validated_topology);
        validated.is_some() && validated == self.topology.as_ref().map(|it| it.epoch())
    }

    pub(crate) fn state(&self) -> ConsumerState {
        let assigned = self.assignment_epoch();
        if self.members.is_empty() {
            ConsumerState::Empty
        } else if !self.is_ready() {
            ConsumerState::NotReady
        } else if self.epoch() > assigned {
            ConsumerState::Assigning
        } else if self.members.values().all(|member| member.current.is_reconciled_to(assigned)) {
            ConsumerState::Stable
        } else {
            ConsumerState::Reconciling
        }
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = (&MemberId, &Member)> {
        self.members.iter()
    }

    pub(crate) fn member_count(&self) -> usize {
        self.members.size()
    }

    pub(crate) fn member(&self, id: &str) -> Option<&Member> {
        self.members.get(id)
    }

    /// The id that a member gives itself: the group's own copy of it, if it has one.
    pub(super) fn member_id(&self, id: &str) -> MemberId {
        let known = self.members.get_key_value(id).map(|(id, _)| id.clone());
        known.unwrap_or_else(|| id.into())
    }

    /// Whether a member runs the topology that the group has, and so may know of its topics.
    pub(super) fn runs_topology(&self, member: &MemberId) -> bool {
        let member = self.members.get(member).map(|member| member.about.topology_epoch);
        member.is_some() && member == self.topology.as_ref().map(|topology| topology.epoch())
    }

    pub(super) fn target(&self, id: &str) -> Option<&Arc<TargetTasks>> {
        self.targets.get(id)
    }

    /// Whether a member may take a task in a role. A task is active in one place, and a process has it once: the members of
    /// a process share the directory of its state.
    pub(super) fn is_free(
        &self,
        task: &TaskId,
        role: Role,
        member: &MemberId,
        process: &str,
    ) -> bool {
        let Some(holders) = self.holders.get(task) else { return true };
        holders.iter().filter(|(holder, _)| holder != member).all(|(holder, held_as)| {
            let both_active = role == Role::Active && *held_as == Role::Active;
            let holder = self.members.get(holder);
            let shares_process = holder.is_some_and(|it| &*it.about.process_id == process);
            !both_active && !shares_process
        })
    }

    /// What it would take to tell a member of all processes that answer queries, encoded form included.
    pub(super) fn endpoints_bytes(&self) -> usize {
        self.endpoints_bytes
    }

    pub(super) fn endpoint_epoch(&self) -> i32 {
        self.endpoint_epoch
    }

    /// The member that asked for the end of the application.
    pub(super) fn shutdown_by(&self) -> Option<&MemberId> {
        self.shutdown_by.as_ref()
    }

    /// A member asks for the end of the application; who asks first is told to all. Forgotten when all have left.
    pub(super) fn ask_shutdown(&mut self, by: &MemberId) {
        self.shutdown_by.get_or_insert_with(|| by.clone());
    }

    /// Whether the application reads, or keeps state in, a topic that `has_changed` names.
    pub(crate) fn needs_any(&self, has_changed: impl Fn(&str) -> bool) -> bool {
        self.topology.as_ref().is_some_and(|topology| topology.needs_any(has_changed))
    }

    /// Whether members read the topic.
    pub(crate) fn is_subscribed_to(&self, topic: &str) -> bool {
        let topology = self.topology.as_ref().filter(|_| !self.is_empty());
        topology.is_some_and(|topology| topology.reader_of(topic).is_some())
    }

    /// The bytes that it takes beside its name.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes + self.holders.size() * HOLDER_BYTES
    }

    /// The records that take back everything.
    pub(crate) fn tombstones(&self) -> Vec<StreamsRecord> {
        let mut records: Vec<_> =
            self.members.keys().map(|id| StreamsRecord::Current(id.clone(), None)).collect();
        records.extend(self.targets.keys().map(|id| StreamsRecord::Target(id.clone(), None)));
        records.push(StreamsRecord::Assignment(None));
        records.extend(self.members.keys().map(|id| StreamsRecord::Member(id.clone(), None)));
        records.push(StreamsRecord::Group(None));
        records.push(StreamsRecord::Topology(None));
        records
    }
}

impl Drafted for StreamsGroup {
    type Record = StreamsRecord;

    const KIND: &str = "streams group";

    fn apply(&mut self, record: &StreamsRecord) {
        StreamsGroup::apply(self, record);
    }

    fn held_bytes(&self) -> usize {
        StreamsGroup::held_bytes(self)
    }

    fn record(group: GroupId, record: StreamsRecord) -> GroupRecord {
        GroupRecord::Streams { group, record }
    }
}

fn member_bytes(id: &MemberId, member: &Member) -> usize {
    MEMBER_ID_COPIES * id.as_str().len() + member.about.held_bytes() + member.current.held_bytes()
}
