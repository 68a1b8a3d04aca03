//! SyncGroup.

use logway_coordinator::{Reply, RequestBody};
use logway_model::ErrorCode;
use logway_wire::Decoder;
use logway_wire::messages::{SyncGroupRequest, SyncGroupResponse};

use super::{expect_reply, question};
use crate::dispatch::{RequestContext, RequestError, Work};
use crate::groups::Pending;

pub(crate) fn prepare(context: RequestContext, body: Decoder) -> Result<Work, RequestError> {
    super::prepare_with_group(context, body, ask, response)
}

fn ask(context: &RequestContext, request: SyncGroupRequest) -> Pending {
    let group = request.group_id.clone();
    context.groups.ask(&group, question(context, RequestBody::SyncGroup(request)))
}

fn response(_version: i16, reply: Result<Reply, ErrorCode>) -> SyncGroupResponse {
    match reply {
        Ok(reply) => expect_reply!(reply, SyncGroup),
        Err(code) => SyncGroupResponse { error_code: code.code(), ..Default::default() },
    }
}
