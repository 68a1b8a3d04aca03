//! SyncGroup.

use logway_coordinator::{Reply, RequestBody};
use logway_model::ErrorCode;
use logway_wire::Decoder;
use logway_wire::messages::{SyncGroupRequest, SyncGroupResponse};

use super::{ask_group, expect_reply};
use crate::request::{RequestContext, RequestError, Work};
use logway_node::access::Operation;
use logway_node::groups::Pending;

pub(crate) fn prepare(context: RequestContext, body: Decoder) -> Result<Work, RequestError> {
    super::prepare_with_group(context, body, ask, response)
}

/// From this version on a member says which protocol it follows, and must (KIP-559).
const PROTOCOL_FROM: i16 = 5;

fn ask(context: &RequestContext, request: SyncGroupRequest) -> Pending {
    let names_protocol = request.protocol_type.is_some() && request.protocol_name.is_some();
    if context.version >= PROTOCOL_FROM && !names_protocol {
        return Pending::refused(ErrorCode::InconsistentGroupProtocol);
    }
    let group = request.group_id.clone();
    ask_group(context, &group, Operation::Read, RequestBody::SyncGroup(request))
}

fn response(_version: i16, reply: Result<Reply, ErrorCode>) -> SyncGroupResponse {
    match reply {
        Ok(reply) => expect_reply!(reply, SyncGroup),
        Err(code) => SyncGroupResponse { error_code: code.code(), ..Default::default() },
    }
}
