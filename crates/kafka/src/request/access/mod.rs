//! What a handler gets of the node: by name and operation, and no other way.
//!
//! A handler sees no node. It asks here for a topic, a group or the cluster and says what it is about to
//! do. The answer is the thing, or the code that Kafka has for a requester who may not.
//!
//! | file | what is given |
//! |---|---|
//! | [`served_topics`] | topics with their open replicas |
//! | [`known_topics`] | topics as the metadata has them |
//! | [`group`] | a group's coordinator |
//! | [`transactional_id`] | a transactional id's coordinator, and its transaction |
//! | [`cluster`] | what is about the whole cluster or this node |
//! | [`sizes`] | numbers for estimates, which no client is told |

mod cluster;
mod delegation_tokens;
mod group;
mod known_topics;
mod served_topics;
mod sizes;
mod transactional_id;

use std::sync::Arc;

use logway_metadata::MetadataImage;
use logway_model::ErrorCode;
use logway_node::access::{Operation, Principal, Requester, Resource};
use logway_node::{Failure, audit};

pub(crate) use cluster::Cluster;
pub(crate) use known_topics::KnownTopics;
pub(crate) use served_topics::ServedTopics;
pub(crate) use sizes::Sizes;

use super::context::RequestContext;

impl RequestContext {
    /// Who asks.
    pub(crate) fn principal(&self) -> &Principal {
        self.connection.principal()
    }

    /// Whether the requester may do something with a resource, which it is about to do.
    #[inline]
    pub(crate) fn may(&self, operation: Operation, resource: Resource<'_>) -> bool {
        let is_allowed = self.would_allow(operation, resource);
        if operation.is_administration() {
            self.audit(operation, resource, is_allowed);
        }
        is_allowed
    }

    /// Tells the audit log what is about to be done, or was refused.
    pub(crate) fn audit(&self, operation: Operation, resource: Resource<'_>, is_allowed: bool) {
        let client_id = self.client_id.as_deref().unwrap_or_default();
        audit::authorization(&self.requester(), client_id, operation, resource, is_allowed);
    }

    /// As [`RequestContext::may`], of what is only told.
    #[inline]
    fn would_allow(&self, operation: Operation, resource: Resource<'_>) -> bool {
        let node = self.node();
        node.access.is_open()
            || node.allows(&self.requester(), operation, resource, &self.connection.access_memory)
    }

    /// Whether ACLs are in force.
    pub(crate) fn has_acls(&self) -> bool {
        self.node().access.has_acls()
    }

    fn requester(&self) -> Requester<'_> {
        let host = self.connection.peer.ip().to_canonical();
        Requester { principal: self.principal(), host }
    }

    /// As [`RequestContext::may`]; the error is what Kafka says of the kind of resource.
    pub(crate) fn check(
        &self,
        operation: Operation,
        resource: Resource<'_>,
    ) -> Result<(), ErrorCode> {
        match self.may(operation, resource) {
            true => Ok(()),
            false => Err(refusal_code(resource)),
        }
    }

    /// Everything that the requester may do with a resource, as a field of bits (KIP-430).
    pub(crate) fn authorized_operations(&self, resource: Resource<'_>) -> i32 {
        let operations = resource.operations().iter();
        let allowed = operations.filter(|operation| self.would_allow(**operation, resource));
        allowed.fold(0, |bits, operation| bits | operation.bit())
    }

    /// What the requester may do with the cluster; nothing, if it may not describe it.
    pub(crate) fn authorized_cluster_operations(&self) -> i32 {
        match self.may(Operation::Describe, Resource::Cluster) {
            true => self.authorized_operations(Resource::Cluster),
            false => 0,
        }
    }

    /// The topics that the requester may do `operation` with: all of them, if it may do `of_cluster` with
    /// the cluster.
    pub(crate) fn topics_by_cluster(
        &self,
        of_cluster: Operation,
        operation: Operation,
    ) -> TopicGrant {
        match self.may(of_cluster, Resource::Cluster) {
            true => TopicGrant::ALL,
            false => operation.into(),
        }
    }

    /// The metadata, for a requester who may do an operation with what it is about.
    pub(crate) fn metadata(
        &self,
        operation: Operation,
        resource: Resource<'_>,
    ) -> Result<Arc<MetadataImage>, ErrorCode> {
        self.check(operation, resource)?;
        Ok(self.node().image())
    }
}

/// Which topics a requester gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TopicGrant {
    /// Each is asked about; `None` for all.
    each: Option<Operation>,
}

impl TopicGrant {
    /// Every topic. It is given only where another permission covers all of them.
    const ALL: TopicGrant = TopicGrant { each: None };

    /// Whether it is for every topic, whatever it is called.
    pub(crate) fn is_all(self) -> bool {
        self.each.is_none()
    }

    /// Fails with `TOPIC_AUTHORIZATION_FAILED`.
    #[inline]
    pub(crate) fn check(self, context: &RequestContext, topic: &str) -> Result<(), ErrorCode> {
        match self.each {
            Some(operation) => context.check(operation, Resource::Topic(topic)),
            None => Ok(()),
        }
    }
}

impl From<Operation> for TopicGrant {
    fn from(operation: Operation) -> TopicGrant {
        TopicGrant { each: Some(operation) }
    }
}

fn refusal_code(resource: Resource<'_>) -> ErrorCode {
    match resource {
        Resource::Topic(_) | Resource::SomeTopic => ErrorCode::TopicAuthorizationFailed,
        Resource::Group(_) => ErrorCode::GroupAuthorizationFailed,
        Resource::Cluster => ErrorCode::ClusterAuthorizationFailed,
        Resource::TransactionalId(_) => ErrorCode::TransactionalIdAuthorizationFailed,
        Resource::DelegationToken(_) | Resource::User(_) => {
            ErrorCode::DelegationTokenAuthorizationFailed
        }
    }
}

/// A refusal with Kafka's sentence, which names nothing that the requester may not know.
pub(crate) fn refusal(code: ErrorCode) -> Failure {
    Failure::new(code, refusal_text(code))
}

/// Kafka's sentence for a refusal.
pub(crate) fn refusal_text(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::TopicAuthorizationFailed => "Topic authorization failed.",
        ErrorCode::GroupAuthorizationFailed => "Group authorization failed.",
        ErrorCode::ClusterAuthorizationFailed => "Cluster authorization failed.",
        ErrorCode::TransactionalIdAuthorizationFailed => "Transactional Id authorization failed.",
        code => code.name(),
    }
}
