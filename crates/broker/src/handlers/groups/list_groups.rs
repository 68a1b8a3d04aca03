//! ListGroups.

use std::future::Future;

use logway_coordinator::RequestBody;
use logway_wire::Decoder;
use logway_wire::messages::{ListGroupsRequest, ListGroupsResponse};

use super::{expect_reply, question};
use crate::dispatch::{RequestContext, RequestError, Work};

/// Room for the names of some ten thousand groups.
const LISTED_BYTES: usize = 1 << 20;

pub(crate) fn prepare(context: RequestContext, body: Decoder) -> Result<Work, RequestError> {
    super::prepare(context, body, |_: &ListGroupsRequest| LISTED_BYTES, start)
}

fn start(
    context: &RequestContext,
    request: ListGroupsRequest,
) -> impl Future<Output = ListGroupsResponse> + use<> {
    let ask = || question(context, RequestBody::ListGroups(request.clone()));
    let pending = context.groups.ask_all(ask);
    async move {
        let mut response = ListGroupsResponse::default();
        for pending in pending {
            // One that has just gone has no groups here any more.
            let Ok(reply) = pending.reply().await else { continue };
            let shard = expect_reply!(reply, ListGroups);
            if shard.error_code != 0 {
                response.error_code = shard.error_code;
            }
            response.groups.extend(shard.groups);
        }
        response
    }
}
