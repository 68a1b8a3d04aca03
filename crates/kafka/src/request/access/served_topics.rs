//! Topics with their open replicas.

use std::sync::Arc;

use arc_swap::Guard;
use logway_model::{ErrorCode, PartitionId, TopicId, TopicName, Uuid};
use logway_node::replica::{ReadFrom, Replica};
use logway_node::topics::{Topic, TopicTable};

use super::TopicGrant;
use crate::request::RequestContext;

/// The topics that are served, as of one moment.
///
/// A name is judged before it is looked up, so that a refusal says nothing of what exists. An id says nothing
/// that could be judged: it is looked up, and then the topic's name is judged, as in Kafka.
pub(crate) struct ServedTopics(Guard<Arc<TopicTable>>);

impl RequestContext {
    /// The topics that are served now.
    pub(crate) fn served_topics(&self) -> ServedTopics {
        ServedTopics(self.node().topics())
    }
}

impl RequestContext {
    /// Why a partition is not served here. One that the metadata has exists, whether this node has come to it yet
    /// or not: then nobody is told that it does not, and clients look for its leader, as in Kafka.
    ///
    /// `code` is what was said so far, to a requester who may know of the partition. The topic is that of the
    /// name, unless there is an id.
    pub(crate) fn absence_here(
        &self,
        code: ErrorCode,
        name: &str,
        topic_id: Uuid,
        id: PartitionId,
    ) -> ErrorCode {
        use ErrorCode::{NotLeaderOrFollower, UnknownTopicId, UnknownTopicOrPartition};
        if !matches!(code, UnknownTopicId | UnknownTopicOrPartition) {
            return code;
        }
        let image = self.node().image();
        let topic = match topic_id.is_zero() {
            true => image.topic(name),
            false => image.topic_by_id(TopicId(topic_id)),
        };
        match topic.and_then(|topic| topic.partition(id)) {
            Some(_) => NotLeaderOrFollower,
            None => code,
        }
    }
}

impl ServedTopics {
    /// The same, to be kept for longer than a moment.
    pub(crate) fn kept(self) -> ServedTopics {
        ServedTopics(Guard::from_inner(Guard::into_inner(self.0)))
    }

    /// The topic of a name.
    ///
    /// Errors are `TOPIC_AUTHORIZATION_FAILED` and `UNKNOWN_TOPIC_OR_PARTITION`.
    pub(crate) fn by_name(
        &self,
        context: &RequestContext,
        name: &str,
        grant: impl Into<TopicGrant>,
    ) -> Result<&Arc<Topic>, ErrorCode> {
        grant.into().check(context, name)?;
        self.0.by_name(name)
    }

    /// The topic of an id.
    ///
    /// Errors are `UNKNOWN_TOPIC_ID` and `TOPIC_AUTHORIZATION_FAILED`.
    pub(crate) fn by_id(
        &self,
        context: &RequestContext,
        id: TopicId,
        grant: impl Into<TopicGrant>,
    ) -> Result<&Arc<Topic>, ErrorCode> {
        let topic = self.0.by_id(id)?;
        grant.into().check(context, topic.name().as_str())?;
        Ok(topic)
    }

    /// The topic that a request names, in versions up to one by name and from then on by id.
    pub(crate) fn by_name_or_id(
        &self,
        context: &RequestContext,
        name: &str,
        id: Uuid,
        grant: impl Into<TopicGrant>,
    ) -> Result<&Arc<Topic>, ErrorCode> {
        match id.is_zero() {
            true => self.by_name(context, name, grant),
            false => self.by_id(context, TopicId(id), grant),
        }
    }

    /// The topic of a name, and a partition of it that this node leads.
    ///
    /// Errors are `TOPIC_AUTHORIZATION_FAILED` and those of [`Topic::partition`]. See
    /// [`RequestContext::absence_here`].
    pub(crate) fn led_by_name(
        &self,
        context: &RequestContext,
        name: &str,
        id: PartitionId,
        grant: impl Into<TopicGrant>,
    ) -> Result<(&Arc<Topic>, &Arc<Replica>), ErrorCode> {
        self.readable_by_name(context, name, id, ReadFrom::Leader, grant)
    }

    /// The same, of a partition that a replica here serves.
    pub(crate) fn readable_by_name(
        &self,
        context: &RequestContext,
        name: &str,
        id: PartitionId,
        from: ReadFrom,
        grant: impl Into<TopicGrant>,
    ) -> Result<(&Arc<Topic>, &Arc<Replica>), ErrorCode> {
        let topic = self.by_name(context, name, grant);
        let found = topic.and_then(|topic| Ok((topic, topic.readable(id, from)?)));
        found.map_err(|code| context.absence_here(code, name, Uuid::ZERO, id))
    }

    /// The name of a topic, for what is remembered of it. It is not for the client.
    pub(crate) fn name_of(&self, id: TopicId) -> Option<TopicName> {
        Some(self.0.by_id(id).ok()?.name().clone())
    }

    /// Whether any topic has batches compressed anew.
    pub(crate) fn compresses_anew(&self) -> bool {
        self.0.compresses_anew()
    }

    /// Whether batches for a topic that are not compressed stay so, which is so where there is no topic.
    pub(crate) fn keeps_plain(&self, name: &str, id: Uuid) -> bool {
        self.0.by_name_or_id(name, id).map_or(true, |topic| topic.keeps_plain())
    }

    /// A topic whose metadata the requester has already.
    pub(crate) fn serves(&self, id: TopicId) -> Option<&Arc<Topic>> {
        self.0.by_id(id).ok()
    }
}

#[cfg(test)]
impl ServedTopics {
    /// No topics.
    pub(crate) fn none() -> ServedTopics {
        ServedTopics(Guard::from_inner(Arc::default()))
    }
}
