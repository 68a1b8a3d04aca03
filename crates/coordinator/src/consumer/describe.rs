//! What clients are told of a consumer group.

use std::collections::BTreeMap;

use logway_model::{PartitionId, TopicId};
use logway_wire::WireString;
use logway_wire::messages::consumer_group_describe_response::{
    Assignment, DescribedGroup, Member as DescribedMember, TopicPartitions,
};

use crate::cluster_view::ClusterView;
use crate::ids::{CommittedTopic, InstanceId, MemberId};
use crate::request::COPIES;

use super::assignor::Assignor;
use super::group::ConsumerGroup;
use super::member::Member;

/// The kinds of members, as the protocol numbers them.
const CLASSIC_MEMBER: i8 = 0;
const CONSUMER_MEMBER: i8 = 1;

/// What one member takes beside its texts, one topic beside its name, and one partition.
const MEMBER_BYTES: usize = 512;
const TOPIC_BYTES: usize = 384;
const PARTITION_BYTES: usize = 8;

impl ConsumerGroup {
    /// The group, for ConsumerGroupDescribe.
    pub(crate) fn describe(
        &self,
        group_id: WireString,
        assignors: &[Assignor],
        view: &dyn ClusterView,
    ) -> DescribedGroup {
        let members = self.members().map(|(id, member)| self.describe_member(id, member, view));
        DescribedGroup {
            group_id,
            group_state: self.state().name().into(),
            group_epoch: self.epoch().0,
            assignment_epoch: self.assignment_epoch().0,
            assignor_name: self.assignor(assignors).name().into(),
            members: members.collect(),
            ..DescribedGroup::default()
        }
    }

    fn describe_member(
        &self,
        id: &MemberId,
        member: &Member,
        view: &dyn ClusterView,
    ) -> DescribedMember {
        let subscription = &member.subscription;
        let mut has: BTreeMap<TopicId, Vec<PartitionId>> = BTreeMap::new();
        // As Kafka does since 4.3. Earlier ones left out what a member has still to give up.
        for (topic, partition) in member.current.owned() {
            has.entry(topic).or_default().push(partition);
        }
        let target = self.target(id.as_str()).map(|target| &**target);
        let target = target.into_iter().flatten();
        DescribedMember {
            member_id: id.to_wire(),
            instance_id: subscription.instance_id.as_ref().map(InstanceId::to_wire),
            rack_id: subscription.rack_id.as_deref().map(WireString::copy_of),
            member_epoch: member.current.epoch.0,
            client_id: WireString::copy_of(&subscription.client_id),
            client_host: WireString::copy_of(&subscription.client_host),
            subscribed_topic_names: subscription
                .topics
                .iter()
                .map(CommittedTopic::to_wire)
                .collect(),
            subscribed_topic_regex: subscription.pattern.as_deref().map(WireString::copy_of),
            assignment: assignment(has.iter().map(|(topic, of)| (*topic, of.iter())), view),
            target_assignment: assignment(target.map(|(topic, of)| (*topic, of.iter())), view),
            member_type: match subscription.classic {
                Some(_) => CLASSIC_MEMBER,
                None => CONSUMER_MEMBER,
            },
            ..DescribedMember::default()
        }
    }

    /// What the description takes, encoded form included.
    pub(crate) fn described_bytes(&self) -> usize {
        let members = self.members().map(|(id, member)| {
            let target = self.target(id.as_str()).map(|target| &**target);
            let target = target.into_iter().flatten();
            let topics = target.clone().count() + member.current.assigned.len();
            let topics = topics + member.current.revoking.len();
            let partitions: usize = target.map(|(_, of)| of.len()).sum();
            let partitions = partitions + member.current.owned().count();
            let texts = member.subscription.held_bytes() + id.as_str().len();
            MEMBER_BYTES
                + COPIES * texts
                + topics * TOPIC_BYTES
                + COPIES * partitions * PARTITION_BYTES
        });
        members.sum()
    }
}

/// Of topics that are no more, nothing is told.
fn assignment<'a>(
    topics: impl Iterator<Item = (TopicId, impl Iterator<Item = &'a PartitionId>)>,
    view: &dyn ClusterView,
) -> Assignment {
    let named = topics.filter_map(|(topic, partitions)| {
        Some(TopicPartitions {
            topic_id: topic.0,
            topic_name: WireString::copy_of(&view.topic_name(topic)?),
            partitions: partitions.map(|partition| partition.0).collect(),
            ..TopicPartitions::default()
        })
    });
    Assignment { topic_partitions: named.collect(), ..Assignment::default() }
}
