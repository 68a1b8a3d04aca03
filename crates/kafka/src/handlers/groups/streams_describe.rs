//! StreamsGroupDescribe (KIP-1071).

use std::collections::HashSet;
use std::future::Future;

use logway_coordinator::{Reply as ShardOutcome, RequestBody};
use logway_model::ErrorCode;
use logway_wire::messages::streams_group_describe_response::DescribedGroup;
use logway_wire::messages::{StreamsGroupDescribeRequest, StreamsGroupDescribeResponse};
use logway_wire::{Decoder, WireString};

use super::describing::{Asked, Described, describe};
use super::expect_reply;
use crate::handlers::measured::{self, QUESTION_BYTES};
use crate::request::{RequestContext, RequestError, Work};
use logway_node::memory::Held;

pub(crate) fn prepare(context: RequestContext, body: Decoder) -> Result<Work, RequestError> {
    let built_bytes =
        |request: &StreamsGroupDescribeRequest| request.group_ids.len() * QUESTION_BYTES;
    measured::prepare(context, body, built_bytes, start)
}

fn start(
    context: &RequestContext,
    request: StreamsGroupDescribeRequest,
) -> impl Future<Output = (StreamsGroupDescribeResponse, Held)> + use<> {
    let asked = Asked {
        groups: request.group_ids,
        body: |groups| RequestBody::StreamsGroupDescribe { groups },
        is_served: context.serves_streams_protocol(),
        tells_operations: request.include_authorized_operations,
    };
    let described = describe(context, asked);
    async move {
        let (groups, held) = described.await;
        (StreamsGroupDescribeResponse { groups, ..Default::default() }, held)
    }
}

impl Described for DescribedGroup {
    fn refused(
        group_id: WireString,
        code: ErrorCode,
        message: Option<&'static str>,
    ) -> DescribedGroup {
        DescribedGroup {
            group_id,
            error_code: code.code(),
            error_message: message.map(Into::into),
            ..Default::default()
        }
    }

    fn of_outcome(outcome: ShardOutcome) -> Vec<DescribedGroup> {
        expect_reply!(outcome, StreamsGroupDescribe)
    }

    fn group_id(&self) -> &WireString {
        &self.group_id
    }

    fn error_code(&self) -> i16 {
        self.error_code
    }

    fn named_topics(&self) -> HashSet<&str> {
        let subtopologies = self.topology.iter().flat_map(|topology| &topology.subtopologies);
        let topics = subtopologies.flatten().flat_map(|it| {
            let internal = it.state_changelog_topics.iter().chain(&it.repartition_source_topics);
            let given = it.source_topics.iter().chain(&it.repartition_sink_topics);
            given.chain(internal.map(|topic| &topic.name))
        });
        topics.map(|topic| topic.as_str()).collect()
    }

    fn set_authorized_operations(&mut self, operations: i32) {
        self.authorized_operations = operations;
    }
}
