//! StreamsGroupHeartbeat (KIP-1071).

use std::future::Future;

use logway_coordinator::{InternalTopic, RequestBody};
use logway_metadata::is_internal;
use logway_model::{ErrorCode, TopicName};
use logway_wire::messages::streams_group_heartbeat_request::Topology;
use logway_wire::messages::streams_group_heartbeat_response::Status;
use logway_wire::messages::{StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse};
use logway_wire::{Decoder, WireString};

use super::ask_group;
use crate::handlers::building::ENTRY_BYTES;
use crate::handlers::create_topics::create_internal;
use crate::request::{RequestContext, RequestError, Work};
use logway_node::access::{Operation, Resource};
use logway_node::failure::Failure;
use logway_node::groups::Pending;

/// What a member is told of topics that are missing, by its number.
const MISSING_INTERNAL_TOPICS: i8 = 3;

/// How much of a topic's name a message repeats.
const SHOWN_CHARS_MAX: usize = 249;

/// How many topics a message names.
const NAMED_MAX: usize = 3;

pub(crate) fn prepare(context: RequestContext, body: Decoder) -> Result<Work, RequestError> {
    super::prepare(context, body, built_bytes, start)
}

/// The member is told what it has, and mostly says so too.
fn built_bytes(_context: &RequestContext, request: &StreamsGroupHeartbeatRequest) -> usize {
    let tasks = [&request.active_tasks, &request.standby_tasks, &request.warmup_tasks];
    let tasks = tasks.into_iter().flatten().flatten();
    tasks.map(|of| ENTRY_BYTES + of.partitions.len() * size_of::<i32>()).sum()
}

fn start(
    context: &RequestContext,
    request: StreamsGroupHeartbeatRequest,
) -> impl Future<Output = StreamsGroupHeartbeatResponse> + use<> {
    let asked = ask(context, request);
    let context = context.clone();
    async move {
        let pending = match asked {
            Ok(pending) => pending,
            Err(refused) => return refused.response(),
        };
        match pending.reply().await {
            Ok(logway_coordinator::Reply::StreamsGroupHeartbeat { mut response, missing }) => {
                make_missing(&context, &mut response, missing).await;
                *response
            }
            Ok(other) => unreachable!("the shard answered {other:?}"),
            Err(code) => Refused::from(code).response(),
        }
    }
}

/// A heartbeat that is not passed on.
struct Refused {
    code: ErrorCode,
    message: Option<String>,
}

impl From<ErrorCode> for Refused {
    fn from(code: ErrorCode) -> Refused {
        Refused { code, message: None }
    }
}

impl Refused {
    fn response(self) -> StreamsGroupHeartbeatResponse {
        StreamsGroupHeartbeatResponse {
            error_code: self.code.code(),
            error_message: self.message.map(Into::into),
            ..Default::default()
        }
    }
}

fn ask(
    context: &RequestContext,
    request: StreamsGroupHeartbeatRequest,
) -> Result<Pending, Refused> {
    if !context.serves_streams_protocol() {
        return Err(ErrorCode::UnsupportedVersion.into());
    }
    let group = request.group_id.clone();
    context.check(Operation::Read, Resource::Group(&group))?;
    if let Some(topology) = &request.topology {
        check_topics(context, topology)?;
    }
    Ok(ask_group(context, &group, Operation::Read, RequestBody::StreamsGroupHeartbeat(request)))
}

/// A topology names topics that there can be, and that the member may know of.
fn check_topics(context: &RequestContext, topology: &Topology) -> Result<(), Refused> {
    let topics = || {
        topology.subtopologies.iter().flat_map(|it| {
            let internal = it.state_changelog_topics.iter().chain(&it.repartition_source_topics);
            let given = it.source_topics.iter().chain(&it.repartition_sink_topics);
            given.chain(internal.map(|topic| &topic.name))
        })
    };
    let invalid = |text: &str, topic: &WireString| {
        let topic: String = topic.as_str().chars().take(SHOWN_CHARS_MAX).collect();
        let message = Some(format!("{text}: {topic}."));
        Refused { code: ErrorCode::StreamsInvalidTopology, message }
    };
    for topic in topics() {
        if is_internal(topic) {
            return Err(invalid(
                "Use of Kafka internal topics in a Kafka Streams topology is prohibited",
                topic,
            ));
        }
        if TopicName::new(topic).is_err() {
            return Err(invalid(
                "A topic of the topology has a name that no topic can have",
                topic,
            ));
        }
    }
    let may_see = |topic: &WireString| context.may(Operation::Describe, Resource::Topic(topic));
    match !context.has_acls() || topics().all(may_see) {
        true => Ok(()),
        false => Err(ErrorCode::TopicAuthorizationFailed.into()),
    }
}

/// Makes the topics that the application needs for itself, in the name of its member. What could not be made is told.
async fn make_missing(
    context: &RequestContext,
    response: &mut StreamsGroupHeartbeatResponse,
    missing: Vec<InternalTopic>,
) {
    if missing.is_empty() {
        return;
    }
    let failures = create_internal(context, missing).await;
    if failures.is_empty() {
        return;
    }
    let detail = failure_text(&failures);
    let told = response.status.get_or_insert_default();
    let status = told.iter_mut().find(|status| status.status_code == MISSING_INTERNAL_TOPICS);
    match status {
        Some(status) => {
            status.status_detail = format!("{}; {detail}", status.status_detail.as_str()).into();
        }
        None => told.push(Status {
            status_code: MISSING_INTERNAL_TOPICS,
            status_detail: detail.into(),
            ..Default::default()
        }),
    }
}

fn failure_text(failures: &[(WireString, Failure)]) -> String {
    let is_forbidden = |failure: &Failure| failure.code == ErrorCode::TopicAuthorizationFailed;
    let (forbidden, failed): (Vec<_>, Vec<_>) =
        failures.iter().partition(|(_, failure)| is_forbidden(failure));
    let mut texts = Vec::new();
    if !forbidden.is_empty() {
        let names: Vec<&str> =
            forbidden.iter().take(NAMED_MAX).map(|(name, _)| name.as_str()).collect();
        texts.push(format!("Unauthorized to CREATE on topics {}.", names.join(", ")));
    }
    let failed = failed.iter().take(NAMED_MAX);
    texts.extend(failed.map(|(name, failure)| {
        format!("Creation of {} failed: {}", name.as_str(), failure.message)
    }));
    texts.join(" ")
}
