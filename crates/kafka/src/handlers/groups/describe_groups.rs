//! DescribeGroups.

use std::collections::HashSet;
use std::future::Future;

use logway_coordinator::RequestBody;
use logway_wire::Decoder;
use logway_wire::messages::describe_groups_response::DescribedGroup;
use logway_wire::messages::{DescribeGroupsRequest, DescribeGroupsResponse};

use super::{expect_reply, question};
use crate::handlers::authorized_operations::NOT_ASKED;
use crate::handlers::measured::{self, Part, QUESTION_BYTES, ToldPart, TooLarge, ask_measured};
use crate::request::{RequestContext, RequestError, Work};
use logway_node::access::{Operation, Resource};
use logway_node::groups::Measuring;
use logway_node::memory::Held;

pub(crate) fn prepare(context: RequestContext, body: Decoder) -> Result<Work, RequestError> {
    let built_bytes = |request: &DescribeGroupsRequest| request.groups.len() * QUESTION_BYTES;
    measured::prepare(context, body, built_bytes, start)
}

/// Each group is described once, however often it is named: clients look groups up by name.
fn start(
    context: &RequestContext,
    request: DescribeGroupsRequest,
) -> impl Future<Output = (DescribeGroupsResponse, Held)> + use<> {
    let tells_operations = request.include_authorized_operations;
    let mut seen = HashSet::new();
    let groups = request.groups.into_iter().filter(|group| seen.insert(group.clone()));
    let parts = groups.map(|group| {
        let body = RequestBody::DescribeGroups { groups: vec![group.clone()] };
        let permitted = context.group(&group, Operation::Describe);
        let measuring = match permitted {
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
                Ok(reply) => groups.extend(expect_reply!(reply, DescribeGroups)),
                Err(code) => groups.push(DescribedGroup {
                    group_id,
                    error_code: code.code(),
                    ..Default::default()
                }),
            }
        }
        for group in groups.iter_mut().filter(|group| group.error_code == 0) {
            group.authorized_operations = match tells_operations {
                true => context.authorized_operations(Resource::Group(&group.group_id)),
                false => NOT_ASKED,
            };
        }
        (DescribeGroupsResponse { groups, ..Default::default() }, held)
    }
}
