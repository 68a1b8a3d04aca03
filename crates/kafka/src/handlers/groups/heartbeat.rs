//! Heartbeat.

use std::future::Future;

use logway_coordinator::RequestBody;
use logway_wire::Decoder;
use logway_wire::messages::{HeartbeatRequest, HeartbeatResponse};

use super::{ask_group, expect_reply};
use crate::request::{RequestContext, RequestError, Work};
use logway_node::access::Operation;

pub(crate) fn prepare(context: RequestContext, body: Decoder) -> Result<Work, RequestError> {
    super::prepare(context, body, |_, _: &HeartbeatRequest| 0, start)
}

fn start(
    context: &RequestContext,
    request: HeartbeatRequest,
) -> impl Future<Output = HeartbeatResponse> + use<> {
    let group = request.group_id.clone();
    let pending = ask_group(context, &group, Operation::Read, RequestBody::Heartbeat(request));
    async move {
        match pending.reply().await {
            Ok(reply) => expect_reply!(reply, Heartbeat),
            Err(code) => HeartbeatResponse { error_code: code.code(), ..Default::default() },
        }
    }
}
