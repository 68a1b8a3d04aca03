//! ConsumerGroupHeartbeat (KIP-848).

use std::future::Future;

use logway_coordinator::{RequestBody, TopicSight};
use logway_log::random_uuid;
use logway_model::ErrorCode;
use logway_wire::Decoder;
use logway_wire::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};

use super::{ask_group, expect_reply};
use crate::handlers::building::ENTRY_BYTES;
use crate::request::{RequestContext, RequestError, Work};
use logway_node::access::{Operation, Resource};
use logway_node::groups::Pending;

pub(crate) fn prepare(context: RequestContext, body: Decoder) -> Result<Work, RequestError> {
    super::prepare(context, body, built_bytes, start)
}

/// The member is told what it has, and mostly says so too.
fn built_bytes(_context: &RequestContext, request: &ConsumerGroupHeartbeatRequest) -> usize {
    let topics = request.topic_partitions.iter().flatten();
    topics.map(|topic| ENTRY_BYTES + topic.partitions.len() * size_of::<i32>()).sum()
}

fn start(
    context: &RequestContext,
    request: ConsumerGroupHeartbeatRequest,
) -> impl Future<Output = ConsumerGroupHeartbeatResponse> + use<> {
    let pending = ask(context, request);
    async move {
        match pending.reply().await {
            Ok(reply) => expect_reply!(reply, ConsumerGroupHeartbeat),
            Err(code) => {
                ConsumerGroupHeartbeatResponse { error_code: code.code(), ..Default::default() }
            }
        }
    }
}

fn ask(context: &RequestContext, request: ConsumerGroupHeartbeatRequest) -> Pending {
    if !context.serves_consumer_protocol() {
        return Pending::refused(ErrorCode::UnsupportedVersion);
    }
    let group = request.group_id.clone();
    if let Err(code) = context.check(Operation::Read, Resource::Group(&group)) {
        return Pending::refused(code);
    }
    // Who names a topic would learn from its assignment whether there is such.
    let may_see = |topic: &str| context.may(Operation::Describe, Resource::Topic(topic));
    let names = request.subscribed_topic_names.iter().flatten();
    if !names.into_iter().all(|topic| may_see(topic)) {
        return Pending::refused(ErrorCode::TopicAuthorizationFailed);
    }
    let body = RequestBody::ConsumerGroupHeartbeat {
        request,
        fresh_id: random_uuid(),
        sight: sight(context),
    };
    ask_group(context, &group, Operation::Read, body)
}

/// What the coordinator asks where it matches a regular expression with the names of topics.
fn sight(context: &RequestContext) -> TopicSight {
    if !context.has_acls() {
        return TopicSight::of_all();
    }
    let context = context.clone();
    TopicSight::new(move |topic| context.may(Operation::Describe, Resource::Topic(topic)))
}
