//! StreamsGroupDescribe (KIP-1071).

use std::collections::HashSet;
use std::future::Future;

use logway_coordinator::RequestBody;
use logway_model::ErrorCode;
use logway_wire::Decoder;
use logway_wire::messages::streams_group_describe_response::DescribedGroup;
use logway_wire::messages::{StreamsGroupDescribeRequest, StreamsGroupDescribeResponse};

use super::{expect_reply, question};
use crate::handlers::authorized_operations::NOT_ASKED;
use crate::handlers::measured::{self, Part, QUESTION_BYTES, ToldPart, TooLarge, ask_measured};
use crate::request::{RequestContext, RequestError, Work};
use logway_node::access::{Operation, Resource};
use logway_node::groups::Measuring;
use logway_node::memory::Held;

/// Kafka's sentence, which names no topic.
const HIDDEN_TOPICS: &str =
    "The group has described topic(s) that the client is not authorized to describe.";

pub(crate) fn prepare(context: RequestContext, body: Decoder) -> Result<Work, RequestError> {
    let built_bytes =
        |request: &StreamsGroupDescribeRequest| request.group_ids.len() * QUESTION_BYTES;
    measured::prepare(context, body, built_bytes, start)
}

/// Each group is described once, however often it is named: clients look groups up by name.
fn start(
    context: &RequestContext,
    request: StreamsGroupDescribeRequest,
) -> impl Future<Output = (StreamsGroupDescribeResponse, Held)> + use<> {
    let tells_operations = request.include_authorized_operations;
    let mut seen = HashSet::new();
    let groups = request.group_ids.into_iter().filter(|group| seen.insert(group.clone()));
    let parts = groups.map(|group| {
        let body = RequestBody::StreamsGroupDescribe { groups: vec![group.clone()] };
        let measuring = match context.group(&group, Operation::Describe) {
            _ if !context.serves_streams_protocol() => {
                Measuring::refused(ErrorCode::UnsupportedVersion)
            }
            Ok(permitted) => permitted.measure(question(context, body)),
            Err(code) => Measuring::refused(code),
        };
        Part { about: group, measuring, mentions: 1 }
    });
    let parts = parts.collect();
    let context = context.clone();
    async move {
        let (told, held) = ask_measured(&context, parts, TooLarge::TellInParts).await;
        let mut groups = Vec::with_capacity(told.len());
        for ToldPart { about: group_id, answer, .. } in told {
            match answer {
                Ok(reply) => groups.extend(expect_reply!(reply, StreamsGroupDescribe)),
                Err(code) => groups.push(DescribedGroup {
                    group_id,
                    error_code: code.code(),
                    ..Default::default()
                }),
            }
        }
        let groups = groups.into_iter().map(|group| shown(&context, group, tells_operations));
        (StreamsGroupDescribeResponse { groups: groups.collect(), ..Default::default() }, held)
    }
}

/// The group as the requester may see it: all of it, or nothing if it may not know one of the topics.
fn shown(
    context: &RequestContext,
    group: DescribedGroup,
    tells_operations: bool,
) -> DescribedGroup {
    if group.error_code != 0 {
        return group;
    }
    if !may_see_topics(context, &group) {
        return DescribedGroup {
            group_id: group.group_id,
            error_code: ErrorCode::TopicAuthorizationFailed.code(),
            error_message: Some(HIDDEN_TOPICS.into()),
            ..Default::default()
        };
    }
    let authorized_operations = match tells_operations {
        true => context.authorized_operations(Resource::Group(&group.group_id)),
        false => NOT_ASKED,
    };
    DescribedGroup { authorized_operations, ..group }
}

fn may_see_topics(context: &RequestContext, group: &DescribedGroup) -> bool {
    if !context.has_acls() {
        return true;
    }
    let subtopologies =
        group.topology.iter().flat_map(|topology| &topology.subtopologies).flatten();
    let topics = subtopologies.flat_map(|it| {
        let internal = it.state_changelog_topics.iter().chain(&it.repartition_source_topics);
        let given = it.source_topics.iter().chain(&it.repartition_sink_topics);
        given.chain(internal.map(|topic| &topic.name))
    });
    let names: HashSet<&str> = topics.map(|topic| topic.as_str()).collect();
    names.into_iter().all(|topic| context.may(Operation::Describe, Resource::Topic(topic)))
}
