//! A consumer group, as the log knows it.

use std::sync::Arc;

use logway_model::{PartitionId, TimestampMs, TopicId};
use rpds::RedBlackTreeMapSync;

use crate::ids::{CommittedTopic, InstanceId, MEMBER_ID_COPIES, MemberId};

use super::GroupEpoch;
use super::member::{CurrentAssignment, Member, Partitions, Subscription, target_bytes};
use super::record::{ConsumerRecord, GroupVersion, ResolvedPattern, TargetVersion};

/// A map whose copies share what they have in common.
type Map<K, V> = RedBlackTreeMapSync<K, V>;

/// A consumer group.
///
/// Copies cost a few reference counts, so that a request can be worked on in a copy. Invariants: nothing but
/// [`ConsumerGroup::apply`] changes it; `instances`, `owners`, `topic_readers` and `pattern_readers` follow from the
/// members and the patterns; two groups of equal records are equal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ConsumerGroup {
    version: Option<GroupVersion>,
    has_former_topics: bool,
    assignment: Option<TargetVersion>,
    members: Map<MemberId, Member>,
    targets: Map<MemberId, Arc<Partitions>>,
    patterns: Map<Arc<str>, Arc<ResolvedPattern>>,
    instances: Map<InstanceId, MemberId>,
    owners: Map<(TopicId, PartitionId), MemberId>,
    /// How many members name a topic, or patterns match it.
    topic_readers: Map<CommittedTopic, usize>,
    /// How many members subscribe by each pattern.
    pattern_readers: Map<Arc<str>, usize>,
    held_bytes: usize,
}

/// How far a group is whose coordinator assigns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ConsumerState {
    /// Without members.
    Empty,
    /// Topics of a streams group are missing, or do not fit each other.
    NotReady,
    /// There is no assignment yet for the group epoch.
    Assigning,
    /// Members have yet to take over what they shall have.
    Reconciling,
    /// Every member has what it shall have.
    Stable,
}

impl ConsumerState {
    /// The name that Kafka's tools show.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ConsumerState::Empty => "Empty",
            ConsumerState::NotReady => "NotReady",
            ConsumerState::Assigning => "Assigning",
            ConsumerState::Reconciling => "Reconciling",
            ConsumerState::Stable => "Stable",
        }
    }
}

/// What an owner takes, with its place in a map.
const OWNER_BYTES: usize = 96;

/// What a topic of a pattern takes beside its name.
const TOPIC_BYTES: usize = 64;

impl ConsumerGroup {
    pub(crate) fn new() -> ConsumerGroup {
        ConsumerGroup {
            version: None,
            has_former_topics: false,
            assignment: None,
            members: Map::new_sync(),
            targets: Map::new_sync(),
            patterns: Map::new_sync(),
            instances: Map::new_sync(),
            owners: Map::new_sync(),
            topic_readers: Map::new_sync(),
            pattern_readers: Map::new_sync(),
            held_bytes: 0,
        }
    }

    /// Takes over what a record says.
    pub(crate) fn apply(&mut self, record: &ConsumerRecord) {
        match record {
            ConsumerRecord::Group(version) => self.version = *version,
            ConsumerRecord::FormerTopics(there_are) => self.has_former_topics = *there_are,
            ConsumerRecord::Assignment(version) => self.assignment = *version,
            ConsumerRecord::Member(id, subscription) => {
                let member = self.members.get(id).cloned();
                let next = subscription.as_ref().map(|subscription| Member {
                    subscription: Arc::clone(subscription),
                    current: member.as_ref().map(|it| Arc::clone(&it.current)).unwrap_or_default(),
                });
                self.replace_member(id, member, next);
            }
            ConsumerRecord::Current(id, current) => {
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
            ConsumerRecord::Target(id, target) => self.replace_target(id, target.as_ref()),
            ConsumerRecord::Pattern(pattern, resolved) => {
                self.replace_pattern(pattern, resolved.as_ref());
            }
        }
    }

    fn replace_member(&mut self, id: &MemberId, former: Option<Member>, next: Option<Member>) {
        if let Some(former) = &former {
            self.held_bytes -= member_bytes(id, former);
            self.forget_subscription(id, &former.subscription);
            self.forget_owned(id, &former.current);
        }
        match next {
            Some(next) => {
                self.held_bytes += member_bytes(id, &next);
                self.note_subscription(id, &next.subscription);
                for owned in next.current.owned() {
                    self.owners.insert_mut(owned, id.clone());
                }
                self.members.insert_mut(id.clone(), next);
            }
            None => {
                self.members.remove_mut(id);
            }
        }
    }

    fn note_subscription(&mut self, id: &MemberId, subscription: &Subscription) {
        if let Some(instance) = &subscription.instance_id {
            self.instances.insert_mut(instance.clone(), id.clone());
        }
        subscription.topics.iter().for_each(|topic| count_up(&mut self.topic_readers, topic));
        if let Some(pattern) = subscription.pattern() {
            count_up(&mut self.pattern_readers, pattern);
        }
    }

    fn forget_subscription(&mut self, id: &MemberId, subscription: &Subscription) {
        if let Some(instance) = &subscription.instance_id
            && self.instances.get(instance) == Some(id)
        {
            self.instances.remove_mut(instance);
        }
        subscription.topics.iter().for_each(|topic| count_down(&mut self.topic_readers, topic));
        if let Some(pattern) = subscription.pattern() {
            count_down(&mut self.pattern_readers, pattern);
        }
    }

    fn forget_owned(&mut self, id: &MemberId, current: &CurrentAssignment) {
        for owned in current.owned() {
            if self.owners.get(&owned) == Some(id) {
                self.owners.remove_mut(&owned);
            }
        }
    }

    fn replace_target(&mut self, id: &MemberId, target: Option<&Arc<Partitions>>) {
        if let Some(former) = self.targets.get(id) {
            self.held_bytes -= target_bytes(former);
        }
        match target {
            Some(target) => {
                self.held_bytes += target_bytes(target);
                self.targets.insert_mut(id.clone(), Arc::clone(target));
            }
            None => {
                self.targets.remove_mut(id);
            }
        }
    }

    fn replace_pattern(&mut self, pattern: &Arc<str>, resolved: Option<&Arc<ResolvedPattern>>) {
        if let Some(former) = self.patterns.get(pattern).cloned() {
            self.held_bytes -= pattern_bytes(&former);
            former.topics.iter().for_each(|topic| count_down(&mut self.topic_readers, topic));
        }
        match resolved {
            Some(resolved) => {
                self.held_bytes += pattern_bytes(resolved);
                resolved.topics.iter().for_each(|topic| count_up(&mut self.topic_readers, topic));
                self.patterns.insert_mut(Arc::clone(pattern), Arc::clone(resolved));
            }
            None => {
                self.patterns.remove_mut(pattern);
            }
        }
    }

    /// Whether the log says nothing of the group.
    pub(crate) fn is_gone(&self) -> bool {
        self.version.is_none() && self.members.is_empty()
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

    pub(crate) fn metadata_hash(&self) -> i64 {
        self.version.map_or(0, |version| version.metadata_hash)
    }

    pub(crate) fn assignment_epoch(&self) -> GroupEpoch {
        self.assignment.map_or(GroupEpoch::BEFORE_FIRST, |version| version.epoch)
    }

    /// When the assignment was made.
    pub(crate) fn assigned_at(&self) -> Option<TimestampMs> {
        self.assignment.and_then(|version| version.made_at)
    }

    pub(super) fn has_former_topics(&self) -> bool {
        self.has_former_topics
    }

    pub(crate) fn state(&self) -> ConsumerState {
        let assigned = self.assignment_epoch();
        if self.members.is_empty() {
            ConsumerState::Empty
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

    /// The id of a member: the group's own copy of it, if it has one.
    pub(super) fn member_id(&self, id: &str) -> MemberId {
        let known = self.members.get_key_value(id).map(|(id, _)| id.clone());
        known.unwrap_or_else(|| id.into())
    }

    /// The member that has an instance id.
    pub(super) fn static_member(&self, instance: &InstanceId) -> Option<(&MemberId, &Member)> {
        let id = self.instances.get(instance)?;
        Some((id, self.members.get(id)?))
    }

    pub(super) fn target(&self, id: &str) -> Option<&Arc<Partitions>> {
        self.targets.get(id)
    }

    /// Who has a partition, or has yet to give it up.
    pub(crate) fn owner(&self, topic: TopicId, partition: PartitionId) -> Option<&MemberId> {
        self.owners.get(&(topic, partition))
    }

    /// The topics that members name or that patterns match.
    pub(super) fn topics(&self) -> impl Iterator<Item = &CommittedTopic> {
        self.topic_readers.keys()
    }

    /// Whether a member reads a topic that `has_changed` names.
    pub(crate) fn reads_any(&self, has_changed: impl Fn(&str) -> bool) -> bool {
        self.topic_readers.keys().any(|topic| has_changed(topic.as_str()))
    }

    /// Whether a member reads the topic.
    pub(crate) fn is_subscribed_to(&self, topic: &CommittedTopic) -> bool {
        self.topic_readers.contains_key(topic)
    }

    /// How many members subscribe by a pattern.
    pub(super) fn readers_of_pattern(&self, pattern: &str) -> usize {
        self.pattern_readers.get(pattern).copied().unwrap_or(0)
    }

    /// The patterns by which members subscribe.
    pub(super) fn subscribed_patterns(&self) -> impl ExactSizeIterator<Item = &Arc<str>> {
        self.pattern_readers.keys()
    }

    /// What a pattern stands for, if that was looked up.
    pub(super) fn resolved(&self, pattern: &str) -> Option<&Arc<ResolvedPattern>> {
        self.patterns.get(pattern)
    }

    /// All patterns that were looked up.
    pub(super) fn resolved_patterns(
        &self,
    ) -> impl Iterator<Item = (&Arc<str>, &Arc<ResolvedPattern>)> {
        self.patterns.iter()
    }

    /// The bytes that it takes beside its name.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes + self.owners.size() * OWNER_BYTES
    }

    /// The records that make the group what it is.
    pub(super) fn records(&self) -> Vec<ConsumerRecord> {
        let members = || self.members.iter().map(|(id, member)| (id.clone(), member.clone()));
        let wants = members().map(|(id, it)| ConsumerRecord::Member(id, Some(it.subscription)));
        let targets = self.targets.iter().map(|(id, target)| (id.clone(), Arc::clone(target)));
        let has = members().map(|(id, it)| ConsumerRecord::Current(id, Some(it.current)));
        let mut records: Vec<ConsumerRecord> = wants.collect();
        records.extend(self.version.map(|version| ConsumerRecord::Group(Some(version))));
        records.extend(targets.map(|(id, target)| ConsumerRecord::Target(id, Some(target))));
        records.extend(self.assignment.map(|version| ConsumerRecord::Assignment(Some(version))));
        records.extend(has);
        records
    }

    /// The records that take back everything.
    pub(crate) fn tombstones(&self) -> Vec<ConsumerRecord> {
        let mut records: Vec<_> =
            self.members.keys().map(|id| ConsumerRecord::Current(id.clone(), None)).collect();
        records.extend(self.targets.keys().map(|id| ConsumerRecord::Target(id.clone(), None)));
        records.push(ConsumerRecord::Assignment(None));
        records.extend(self.members.keys().map(|id| ConsumerRecord::Member(id.clone(), None)));
        let patterns = self.patterns.keys();
        records.extend(patterns.map(|it| ConsumerRecord::Pattern(Arc::clone(it), None)));
        if self.has_former_topics {
            records.push(ConsumerRecord::FormerTopics(false));
        }
        records.push(ConsumerRecord::Group(None));
        records
    }
}

fn member_bytes(id: &MemberId, member: &Member) -> usize {
    MEMBER_ID_COPIES * id.as_str().len()
        + member.subscription.held_bytes()
        + member.current.held_bytes()
}

fn pattern_bytes(resolved: &ResolvedPattern) -> usize {
    resolved.topics.iter().map(|topic| TOPIC_BYTES + topic.as_str().len()).sum()
}

fn count_up<K: Ord + Clone>(counts: &mut Map<K, usize>, key: &K) {
    let count = counts.get(key).copied().unwrap_or(0);
    counts.insert_mut(key.clone(), count + 1);
}

fn count_down<K: Ord + Clone>(counts: &mut Map<K, usize>, key: &K) {
    match counts.get(key).copied() {
        Some(count) if count > 1 => counts.insert_mut(key.clone(), count - 1),
        _ => {
            counts.remove_mut(key);
        }
    }
}
