//! DescribeGroups.

use std::future::Future;

use logway_coordinator::RequestBody;
use logway_model::ErrorCode;
use logway_wire::Decoder;
use logway_wire::messages::describe_groups_response::DescribedGroup;
use logway_wire::messages::{DescribeGroupsRequest, DescribeGroupsResponse};

use super::{expect_reply, gather, question};
use crate::dispatch::{RequestContext, RequestError, Work};
use crate::handlers::authorized_operations::{self, NOT_ASKED};

/// Room for some dozens of members with their subscriptions and assignments.
const GROUP_BYTES: usize = 16 << 10;

pub(crate) fn prepare(context: RequestContext, body: Decoder) -> Result<Work, RequestError> {
    super::prepare(
        context,
        body,
        |request: &DescribeGroupsRequest| request.groups.len() * GROUP_BYTES,
        start,
    )
}

fn start(
    context: &RequestContext,
    request: DescribeGroupsRequest,
) -> impl Future<Output = DescribeGroupsResponse> + use<> {
    let authorized_operations = match request.include_authorized_operations {
        true => authorized_operations::GROUP,
        false => NOT_ASKED,
    };
    let ask = |groups| question(context, RequestBody::DescribeGroups { groups });
    let pending = context.groups.ask_of_groups(request.groups, ask);
    async move {
        let refused = |group_id, code: ErrorCode| DescribedGroup {
            group_id,
            error_code: code.code(),
            ..Default::default()
        };
        let answers = |reply| expect_reply!(reply, DescribeGroups);
        let mut groups = gather(pending, answers, refused).await;
        for group in groups.iter_mut().filter(|group| group.error_code == 0) {
            group.authorized_operations = authorized_operations;
        }
        DescribeGroupsResponse { groups, ..Default::default() }
    }
}
