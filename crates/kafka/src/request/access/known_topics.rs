//! Topics as the metadata has them.

use std::sync::Arc;

use logway_metadata::record::{BrokerRecord, BrokerState, Endpoint};
use logway_metadata::{MetadataImage, TopicImage};
use logway_model::{BrokerId, DirectoryId, ErrorCode, TopicId};

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

    /// A broker.
    pub(crate) fn broker(&self, id: BrokerId) -> Option<&BrokerRecord> {
        self.0.broker(id)
    }

    /// Where clients of a listener reach a broker.
    pub(crate) fn endpoint(&self, id: BrokerId, listener: &str) -> Option<&Endpoint> {
        self.0.endpoint(id, listener)
    }

    /// Whether the controller keeps a broker from serving. No broker of a cluster of one is.
    pub(crate) fn is_fenced(&self, id: BrokerId) -> bool {
        let session = self.0.broker_session(id);
        session.is_some_and(|session| session.state == BrokerState::Fenced)
    }

    /// Whether a broker can use a log directory, as far as it has said; of a replica that is assigned to none
    /// nothing is known to be lost (KIP-858).
    pub(crate) fn has_directory(&self, id: BrokerId, directory: DirectoryId) -> bool {
        let dirs = self.0.broker(id).map_or(&[][..], |broker| &broker.log_dirs);
        directory == DirectoryId::UNASSIGNED || dirs.is_empty() || dirs.contains(&directory)
    }
}

impl From<Arc<MetadataImage>> for KnownTopics {
    fn from(image: Arc<MetadataImage>) -> KnownTopics {
        KnownTopics(image)
    }
}
