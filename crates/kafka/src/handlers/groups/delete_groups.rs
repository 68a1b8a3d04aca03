//! DeleteGroups.

use std::future::Future;

use logway_coordinator::RequestBody;
use logway_model::ErrorCode;
use logway_wire::Decoder;
use logway_wire::messages::delete_groups_response::DeletableGroupResult;
use logway_wire::messages::{DeleteGroupsRequest, DeleteGroupsResponse};

use super::{expect_reply, gather, question};
use crate::handlers::building::ENTRY_BYTES;
use crate::request::{RequestContext, RequestError, Work};
use logway_node::access::Operation;

pub(crate) fn prepare(context: RequestContext, body: Decoder) -> Result<Work, RequestError> {
    super::prepare(
        context,
        body,
        |_, request: &DeleteGroupsRequest| request.groups_names.len() * ENTRY_BYTES,
        start,
    )
}

fn start(
    context: &RequestContext,
    request: DeleteGroupsRequest,
) -> impl Future<Output = DeleteGroupsResponse> + use<> {
    let ask = |groups| question(context, RequestBody::DeleteGroups { groups });
    let (pending, not_permitted) =
        context.ask_of_groups(request.groups_names, Operation::Delete, ask);
    async move {
        let refused = |group_id, code: ErrorCode| DeletableGroupResult {
            group_id,
            error_code: code.code(),
            ..Default::default()
        };
        let answers = |reply| expect_reply!(reply, DeleteGroups);
        let mut results = gather(pending, answers, refused).await;
        let code = ErrorCode::GroupAuthorizationFailed;
        results.extend(not_permitted.into_iter().map(|group| refused(group, code)));
        DeleteGroupsResponse { results, ..Default::default() }
    }
}
