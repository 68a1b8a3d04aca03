//! LeaveGroup.

use std::future::Future;

use logway_coordinator::RequestBody;
use logway_wire::Decoder;
use logway_wire::messages::{LeaveGroupRequest, LeaveGroupResponse};

use super::{ask_group, expect_reply};
use crate::handlers::building::ENTRY_BYTES;
use crate::request::{RequestContext, RequestError, Work};
use logway_node::access::Operation;

pub(crate) fn prepare(context: RequestContext, body: Decoder) -> Result<Work, RequestError> {
    super::prepare(
        context,
        body,
        |_, request: &LeaveGroupRequest| request.members.len() * ENTRY_BYTES,
        start,
    )
}

fn start(
    context: &RequestContext,
    request: LeaveGroupRequest,
) -> impl Future<Output = LeaveGroupResponse> + use<> {
    let group = request.group_id.clone();
    let pending = ask_group(context, &group, Operation::Read, RequestBody::LeaveGroup(request));
    async move {
        match pending.reply().await {
            Ok(reply) => expect_reply!(reply, LeaveGroup),
            Err(code) => LeaveGroupResponse { error_code: code.code(), ..Default::default() },
        }
    }
}
