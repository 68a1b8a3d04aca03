//! Numbers for estimates.

use std::sync::Arc;

use logway_metadata::{ConfigResource, MetadataImage};
use logway_model::{TopicId, Uuid};

use crate::request::RequestContext;

/// How much there is of things, as of one moment: for estimates of memory, and for what is charged. No client is
/// told, so that no permission is needed.
pub(crate) struct Sizes(Arc<MetadataImage>);

impl RequestContext {
    /// How much there is now.
    pub(crate) fn sizes(&self) -> Sizes {
        Sizes(self.node().image())
    }

    /// How many producers all logs remember.
    pub(crate) fn producer_count(&self) -> usize {
        self.node().log_dirs.producer_count()
    }
}

impl Sizes {
    /// How many topics there are.
    pub(crate) fn topic_count(&self) -> usize {
        self.0.topic_count()
    }

    /// How many partitions there are.
    pub(crate) fn partition_count(&self) -> usize {
        self.0.partition_count()
    }

    /// How many brokers there are.
    pub(crate) fn broker_count(&self) -> usize {
        self.0.brokers().len()
    }

    /// How many things have settings of their own.
    pub(crate) fn overriding_count(&self) -> usize {
        self.0.overriding().count()
    }

    /// How many ACLs there are.
    pub(crate) fn acl_count(&self) -> usize {
        self.0.acls().count()
    }

    /// How many delegation tokens there are.
    pub(crate) fn token_count(&self) -> usize {
        self.0.delegation_tokens().count()
    }

    /// How many names all delegation tokens have.
    pub(crate) fn token_name_count(&self) -> usize {
        self.0.delegation_tokens().iter().map(|token| token.users().count()).sum()
    }

    /// What those names take.
    pub(crate) fn token_names_bytes(&self) -> usize {
        self.0.delegation_tokens().iter().map(|token| token.names_bytes()).sum()
    }

    /// How many users have passwords.
    pub(crate) fn user_count(&self) -> usize {
        self.0.users().count()
    }

    /// How many entities have quotas.
    pub(crate) fn quota_entity_count(&self) -> usize {
        self.0.client_quotas().entity_count()
    }

    /// How many partitions a topic has that is named by its name or else by its id; `None` if it does not exist.
    pub(crate) fn partitions_of(&self, name: Option<&str>, id: Uuid) -> Option<usize> {
        let topic = match name {
            Some(name) => self.0.topic(name),
            None => self.0.topic_by_id(TopicId(id)),
        };
        topic.map(|topic| topic.partitions.len())
    }

    /// What was set of a resource, as text: each name once, and each value twice.
    pub(crate) fn override_bytes(&self, resource: &ConfigResource) -> usize {
        let overrides = self.0.overrides(resource).into_iter().flatten();
        overrides.map(|(name, value)| name.len() + 2 * value.len()).sum()
    }
}

impl From<Arc<MetadataImage>> for Sizes {
    fn from(image: Arc<MetadataImage>) -> Sizes {
        Sizes(image)
    }
}
