//! Heartbeat.

use std::future::Future;

use logway_coordinator::RequestBody;
use logway_wire::Decoder;
use logway_wire::messages::{HeartbeatRequest, HeartbeatResponse};

use super::{expect_reply, question};
use crate::request::{RequestContext, RequestError, Work};

pub(crate) fn prepare(context: RequestContext, body: Decoder) -> Result<Work, RequestError> {
    super::prepare(context, body, |_, _: &HeartbeatRequest| 0, start)
}

fn start(
    context: &RequestContext,
    request: HeartbeatRequest,
) -> impl Future<Output = HeartbeatResponse> + use<> {
    let group = request.group_id.clone();
    let pending =
        context.node().groups.ask(&group, question(context, RequestBody::Heartbeat(request)));
    async move {
        match pending.reply().await {
            Ok(reply) => expect_reply!(reply, Heartbeat),
            Err(code) => HeartbeatResponse { error_code: code.code(), ..Default::default() },
        }
    }
}
