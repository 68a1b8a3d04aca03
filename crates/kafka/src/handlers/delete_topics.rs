//! DeleteTopics, by names and by ids (KIP-516).

use std::sync::Arc;

use logway_metadata::TopicImage;
use logway_metadata::controller::{
    DeleteTopics, DeletedTopic, TopicReference, unknown_topic, unknown_topic_id,
};
use logway_model::{ErrorCode, TopicId, Uuid};
use logway_wire::WireString;
use logway_wire::messages::delete_topics_request::DeleteTopicState;
use logway_wire::messages::delete_topics_response::DeletableTopicResult;
use logway_wire::messages::{DeleteTopicsRequest, DeleteTopicsResponse};

use super::batched_command::time_max;
use super::building::ENTRY_WITH_MESSAGE_BYTES;
use super::mutation_quota::{Mutation, partition_count, submit_within_quota};
use super::repeats::{keep_first, repeated};
use crate::request::{KnownTopics, OverQuota, RequestContext, refusal};
use logway_node::access::Operation;
use logway_node::failure::Failure;

/// Before this version clients do not know `TOPIC_DELETION_DISABLED`.
const DELETION_DISABLED_FROM: i16 = 3;

/// Clients of older versions do not know `THROTTLING_QUOTA_EXCEEDED`.
const QUOTA_EXCEEDED_FROM: i16 = 5;

/// One answer for each topic named.
pub(crate) fn built_bytes(_context: &RequestContext, request: &DeleteTopicsRequest) -> usize {
    (request.topic_names.len() + request.topics.len()) * ENTRY_WITH_MESSAGE_BYTES
}

pub(crate) async fn handle(
    context: RequestContext,
    request: DeleteTopicsRequest,
) -> DeleteTopicsResponse {
    let time_max = time_max(request.timeout_ms);
    let asked = asked_topics(request);
    let delete = |topics| DeleteTopics { topics };
    let references = counted(&context, references(&asked));
    let over = OverQuota::at_version(context.version, QUOTA_EXCEEDED_FROM);
    let results = submit_within_quota(&context, over, time_max, references, delete).await;

    let results = asked.into_iter().zip(results);
    let mut responses: Vec<DeletableTopicResult> = results
        .map(|(asked, result)| match result {
            Ok(topic) => deleted(topic),
            Err(failure) => refused(&context, asked, failure),
        })
        .collect();
    keep_first(&mut responses, |topic| (topic.name.clone(), topic.topic_id));
    DeleteTopicsResponse { responses, ..Default::default() }
}

/// One list of what up to version 5 is a list of names and from then on one of names or ids.
fn asked_topics(request: DeleteTopicsRequest) -> Vec<DeleteTopicState> {
    let by_name = |name: WireString| DeleteTopicState { name: Some(name), ..Default::default() };
    request.topic_names.into_iter().map(by_name).chain(request.topics).collect()
}

/// What a request has twice is not deleted: somebody may not have meant it.
fn references(asked: &[DeleteTopicState]) -> Vec<Result<TopicReference, Failure>> {
    let asked_twice = repeated(asked.iter().map(key));
    let reference_once = |topic| match asked_twice.contains(&key(topic)) {
        true => invalid("the request has this topic more than once"),
        false => reference(topic),
    };
    asked.iter().map(reference_once).collect()
}

/// The topics that the requester may delete, with their numbers of partitions; one that does not exist has none. A topic
/// that the request has by name and by id is not deleted either. Who may not delete it is told nothing of that.
fn counted(
    context: &RequestContext,
    references: Vec<Result<TopicReference, Failure>>,
) -> Vec<Mutation<TopicReference>> {
    let (topics, nobody_may) = (context.known_topics(), !context.settings().delete_topics);
    let find = |reference: &Result<TopicReference, Failure>| match reference {
        Ok(reference) => match deletable(context, &topics, reference) {
            // The controller says so.
            Err(_) if nobody_may => Ok(None),
            found => found,
        },
        Err(failure) => Err(failure.clone()),
    };
    let found: Vec<_> = references.iter().map(find).collect();
    let ids = found.iter().filter_map(|found| Some(found.as_ref().ok()?.as_ref()?.id));
    let meant_twice = repeated(ids);
    let count = |(reference, found): (_, Result<Option<&Arc<TopicImage>>, Failure>)| match found {
        Err(failure) => (Err(failure), 0),
        Ok(None) => (reference, 0),
        Ok(Some(topic)) if meant_twice.contains(&topic.id) => {
            (invalid("the request has this topic by its name and by its id"), 0)
        }
        Ok(Some(topic)) => (reference, partition_count(topic.partitions.len())),
    };
    references.into_iter().zip(found).map(count).collect()
}

/// A topic that the requester may delete; `None` if it does not exist and the requester may know that. As in Kafka, a
/// topic has to be described to be deleted.
fn deletable<'a>(
    context: &RequestContext,
    topics: &'a KnownTopics,
    reference: &TopicReference,
) -> Result<Option<&'a Arc<TopicImage>>, Failure> {
    let described = context.topics_by_cluster(Operation::Delete, Operation::Describe);
    let deleted = context.topics_by_cluster(Operation::Delete, Operation::Delete);
    let topic = match reference {
        TopicReference::Name(name) => topics.by_name(context, name, described),
        TopicReference::Id(id) => topics.by_id(context, *id, deleted),
    };
    match topic {
        Ok(topic) => {
            deleted.check(context, topic.name.as_str()).map_err(refusal)?;
            Ok(Some(topic))
        }
        Err(ErrorCode::TopicAuthorizationFailed) => {
            Err(refusal(ErrorCode::TopicAuthorizationFailed))
        }
        // The controller may know one that was made just now. It does not ask again who may delete it.
        Err(_) => match reference {
            TopicReference::Name(name) if deleted.check(context, name).is_err() => {
                Err(unknown_topic(name).into())
            }
            TopicReference::Id(id) if !deleted.is_all() => Err(unknown_topic_id(*id).into()),
            TopicReference::Name(_) | TopicReference::Id(_) => Ok(None),
        },
    }
}

fn reference(asked: &DeleteTopicState) -> Result<TopicReference, Failure> {
    match &asked.name {
        Some(name) if asked.topic_id.is_zero() => Ok(TopicReference::Name(name.to_string())),
        Some(_) => invalid("a topic is named either by its name or by its id, not by both"),
        None if asked.topic_id.is_zero() => invalid("a topic must be named by its name or its id"),
        None => Ok(TopicReference::Id(TopicId(asked.topic_id))),
    }
}

fn key(asked: &DeleteTopicState) -> (Option<&str>, Uuid) {
    (asked.name.as_deref(), asked.topic_id)
}

fn invalid(message: &str) -> Result<TopicReference, Failure> {
    Err(Failure::new(ErrorCode::InvalidRequest, message))
}

fn deleted(topic: DeletedTopic) -> DeletableTopicResult {
    DeletableTopicResult {
        name: Some(WireString::copy_of(topic.name.as_str())),
        topic_id: topic.id.0,
        ..Default::default()
    }
}

fn refused(
    context: &RequestContext,
    asked: DeleteTopicState,
    failure: Failure,
) -> DeletableTopicResult {
    let name = match (asked.name, failure.code) {
        // Who may describe a topic is told what it may not delete.
        (None, ErrorCode::TopicAuthorizationFailed) => {
            let topics = context.known_topics();
            let topic = topics.by_id(context, TopicId(asked.topic_id), Operation::Describe);
            topic.ok().map(|topic| WireString::copy_of(topic.name.as_str()))
        }
        (name, _) => name,
    };
    DeletableTopicResult {
        name,
        topic_id: asked.topic_id,
        error_code: told_code(failure.code, context.version).code(),
        error_message: Some(failure.message.into()),
        ..Default::default()
    }
}

/// An error as a client of a version knows it.
fn told_code(code: ErrorCode, version: i16) -> ErrorCode {
    match code {
        ErrorCode::TopicDeletionDisabled if version < DELETION_DISABLED_FROM => {
            ErrorCode::InvalidRequest
        }
        code => code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_is_named_by_exactly_one_of_name_and_id() {
        let refer = |name: Option<&'static str>, topic_id| {
            let name = name.map(WireString::from);
            reference(&DeleteTopicState { name, topic_id, ..Default::default() }).ok()
        };
        let id = Uuid([1; 16]);
        assert_eq!(refer(Some("a"), Uuid::ZERO), Some(TopicReference::Name("a".to_owned())));
        assert_eq!(refer(None, id), Some(TopicReference::Id(TopicId(id))));
        assert_eq!(refer(Some("a"), id), None);
        assert_eq!(refer(None, Uuid::ZERO), None);
    }

    #[test]
    fn what_is_asked_twice_is_not_deleted() {
        let by_name =
            |name: &'static str| DeleteTopicState { name: Some(name.into()), ..Default::default() };
        let accepted = references(&[by_name("a"), by_name("b"), by_name("a")]);
        let accepted: Vec<bool> = accepted.iter().map(Result::is_ok).collect();
        assert_eq!(accepted, [false, true, false]);
    }

    #[test]
    fn old_clients_get_a_code_that_they_know() {
        let code = |version| told_code(ErrorCode::TopicDeletionDisabled, version);
        assert_eq!(code(2), ErrorCode::InvalidRequest);
        assert_eq!(code(3), ErrorCode::TopicDeletionDisabled);
    }
}
