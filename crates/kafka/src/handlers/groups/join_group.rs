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
    // A client that is refused has no protocol, and one without a name is none. Older clients read an empty name.
    let has_protocol = response.error_code == ErrorCode::None.code();
    let named = response.protocol_name.filter(|name| has_protocol && !name.is_empty());
    let protocol_name = named.or_else(|| (version < NO_PROTOCOL_FROM).then(WireString::new));
    JoinGroupResponse { protocol_name, ..response }
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

    #[test]
    fn a_protocol_without_a_name_is_none() {
        let joined = |name: &'static str| {
            let protocol_name = Some(name.into());
            Ok(Reply::JoinGroup(JoinGroupResponse { protocol_name, ..Default::default() }))
        };
        assert_eq!(response(7, joined("")).protocol_name, None);
        assert_eq!(response(6, joined("")).protocol_name, Some(WireString::new()));
        assert_eq!(response(7, joined("range")).protocol_name, Some("range".into()));
    }
}
