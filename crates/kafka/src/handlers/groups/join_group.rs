//! JoinGroup.

use logway_coordinator::{Reply, RequestBody};
use logway_log::random_uuid;
use logway_model::ErrorCode;
use logway_wire::Decoder;
use logway_wire::WireString;
use logway_wire::messages::{JoinGroupRequest, JoinGroupResponse};

use super::{ask_group, expect_reply};
use crate::request::{RequestContext, RequestError, Work};
use logway_node::access::Operation;
use logway_node::groups::Pending;

/// From this version on there may be no protocol.
const NO_PROTOCOL_FROM: i16 = 7;

const NO_GENERATION: i32 = -1;

pub(crate) fn prepare(context: RequestContext, body: Decoder) -> Result<Work, RequestError> {
    super::prepare_with_group(context, body, ask, response)
}

fn ask(context: &RequestContext, request: JoinGroupRequest) -> Pending {
    let group = request.group_id.clone();
    let body = RequestBody::JoinGroup { request, fresh_id: random_uuid() };
    ask_group(context, &group, Operation::Read, body)
}

fn response(version: i16, reply: Result<Reply, ErrorCode>) -> JoinGroupResponse {
    let response = match reply {
        Ok(reply) => expect_reply!(reply, JoinGroup),
        Err(code) => JoinGroupResponse {
            error_code: code.code(),
            generation_id: NO_GENERATION,
            ..Default::default()
        },
    };
    match response.error_code == ErrorCode::None.code() {
        true => response,
        // Who is refused has no protocol; older clients read an empty one.
        false => JoinGroupResponse {
            protocol_name: (version < NO_PROTOCOL_FROM).then(WireString::new),
            ..response
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_refused_is_told_no_protocol_where_there_may_be_none() {
        let refused = || {
            let error_code = ErrorCode::UnknownMemberId.code();
            Ok(Reply::JoinGroup(JoinGroupResponse { error_code, ..Default::default() }))
        };
        assert_eq!(response(7, refused()).protocol_name, None);
        assert_eq!(response(6, refused()).protocol_name, Some(WireString::new()));
        assert_eq!(response(9, Err(ErrorCode::NotCoordinator)).protocol_name, None);
    }
}
