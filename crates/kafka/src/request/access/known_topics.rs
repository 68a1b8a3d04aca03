//! Topics as the metadata has them.

use std::sync::Arc;

use logway_metadata::record::{BrokerRecord, Endpoint};
use logway_metadata::{MetadataImage, TopicImage};
use logway_model::{BrokerId, ErrorCode, TopicId};

use super::TopicGrant;
use crate::request::RequestContext;

/// The topics that the metadata has, as of one moment, and the brokers, which everybody may know.
///
/// A name is judged before it is looked up, and the topic of an id after that, as by
/// [`ServedTopics`](super::ServedTopics).
pub(crate) struct KnownTopics(Arc<MetadataImage>);

impl RequestContext {
    /// The topics that the metadata has now.
    pub(crate) fn known_topics(&self) -> KnownTopics {
        KnownTopics(self.node().image())
    }
}

impl KnownTopics {
    /// The topic of a name.
    ///
    /// Errors are `TOPIC_AUTHORIZATION_FAILED` and `UNKNOWN_TOPIC_OR_PARTITION`.
    pub(crate) fn by_name(
        &self,
        context: &RequestContext,
        name: &str,
        grant: impl Into<TopicGrant>,
    ) -> Result<&Arc<TopicImage>, ErrorCode> {
        grant.into().check(context, name)?;
        self.0.topic(name).ok_or(ErrorCode::UnknownTopicOrPartition)
    }

    /// The topic of an id.
    ///
    /// Errors are `UNKNOWN_TOPIC_ID` and `TOPIC_AUTHORIZATION_FAILED`.
    pub(crate) fn by_id(
        &self,
        context: &RequestContext,
        id: TopicId,
        grant: impl Into<TopicGrant>,
    ) -> Result<&Arc<TopicImage>, ErrorCode> {
        let topic = self.0.topic_by_id(id).ok_or(ErrorCode::UnknownTopicId)?;
        grant.into().check(context, topic.name.as_str())?;
        Ok(topic)
    }

    /// The topics from a name on that the requester gets, in the order of their names.
    pub(crate) fn granted_from<'a>(
        &'a self,
        context: &'a RequestContext,
        first: &'a str,
        grant: impl Into<TopicGrant>,
    ) -> impl Iterator<Item = &'a TopicImage> + 'a {
        let grant = grant.into();
        let topics = self.0.topics_from(first).map(|topic| &**topic);
        topics.filter(move |topic| grant.check(context, topic.name.as_str()).is_ok())
    }

    /// The brokers.
    pub(crate) fn brokers(&self) -> impl Iterator<Item = &BrokerRecord> {
        self.0.brokers()
    }

    /// Whether there is such a broker.
    pub(crate) fn has_broker(&self, id: BrokerId) -> bool {
        self.0.broker(id).is_some()
    }

    /// Where others reach a broker.
    pub(crate) fn endpoint(&self, id: BrokerId) -> Option<&Endpoint> {
        self.0.broker(id)?.endpoint.as_ref()
    }
}

impl From<Arc<MetadataImage>> for KnownTopics {
    fn from(image: Arc<MetadataImage>) -> KnownTopics {
        KnownTopics(image)
    }
}
