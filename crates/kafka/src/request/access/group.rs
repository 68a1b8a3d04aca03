//! The coordinators of groups.

use logway_model::{BrokerId, ErrorCode};
use logway_node::Failure;
use logway_node::access::{Operation, Resource};
use logway_node::coordinator_topics::ensure_offsets_topic;
use logway_node::groups::{Measuring, OFFSETS_TOPIC, Pending, Question};
use logway_wire::WireString;

use crate::request::RequestContext;

/// A group with which the requester may do what it has asked for.
pub(crate) struct PermittedGroup<'a> {
    context: &'a RequestContext,
    id: &'a str,
}

impl RequestContext {
    /// A group, to do an operation with. Fails with `GROUP_AUTHORIZATION_FAILED`.
    pub(crate) fn group<'a>(
        &'a self,
        id: &'a str,
        operation: Operation,
    ) -> Result<PermittedGroup<'a>, ErrorCode> {
        self.check(operation, Resource::Group(id))?;
        Ok(PermittedGroup { context: self, id })
    }

    /// Asks the shards of several groups, each once. Those groups with which the requester may not do an operation come
    /// back, and are not asked about.
    pub(crate) fn ask_of_groups(
        &self,
        groups: Vec<WireString>,
        operation: Operation,
        question: impl Fn(Vec<WireString>) -> Question,
    ) -> (Vec<(Vec<WireString>, Pending)>, Vec<WireString>) {
        let may = |group: &WireString| self.may(operation, Resource::Group(group));
        let (permitted, refused): (Vec<_>, Vec<_>) = groups.into_iter().partition(may);
        (self.node().groups.ask_of_groups(permitted, question), refused)
    }

    /// Asks every shard about all of its groups. What it tells has to be judged by
    /// [`RequestContext::seen_groups`].
    pub(crate) fn measure_all_groups(&self, question: impl Fn() -> Question) -> Vec<Measuring> {
        self.node().groups.measure_all(question)
    }

    /// Says of a group whether the requester sees it. Who may describe the cluster sees all of them.
    pub(crate) fn seen_groups(&self) -> impl Fn(&str) -> bool + '_ {
        let sees_all = self.may(Operation::Describe, Resource::Cluster);
        move |id| sees_all || self.may(Operation::Describe, Resource::Group(id))
    }

    /// Whether consumer groups (KIP-848) are served.
    pub(crate) fn serves_consumer_protocol(&self) -> bool {
        self.node().groups.serves_consumer_protocol
    }

    /// Whether streams groups (KIP-1071) are served.
    pub(crate) fn serves_streams_protocol(&self) -> bool {
        self.node().groups.serves_streams_protocol
    }

    /// What the records about so many offsets of a group take at most, with such texts together.
    pub(crate) fn offset_record_bytes(
        &self,
        group: &str,
        offsets: usize,
        text_bytes: usize,
    ) -> usize {
        self.node().groups.record_bytes(group, offsets, text_bytes)
    }
}

impl PermittedGroup<'_> {
    /// Asks its shard.
    pub(crate) fn ask(&self, question: Question) -> Pending {
        self.context.node().groups.ask(self.id, question)
    }

    /// Asks its shard how large the answer would be.
    pub(crate) fn measure(&self, question: Question) -> Measuring {
        self.context.node().groups.measure(self.id, question)
    }

    /// The node that looks after it: who leads the group's partition of the topic of all groups, which is made if there
    /// is none yet. `None` if nobody leads it, or this node should and does not serve it.
    pub(crate) async fn coordinator(&self) -> Result<Option<BrokerId>, Failure> {
        let node = self.context.node();
        ensure_offsets_topic(node).await?;
        let image = node.image();
        let leader = node.groups.place_of(self.id).and_then(|id| {
            let partition = image.topic(OFFSETS_TOPIC)?.partition(id)?;
            Some((id, partition.leader?))
        });
        let is_served = |id| node.topics().by_name(OFFSETS_TOPIC)?.partition(id).map(drop);
        let serving = leader.filter(|(id, leader)| {
            *leader != self.context.settings().node_id || is_served(*id).is_ok()
        });
        Ok(serving.map(|(_, leader)| leader))
    }
}
