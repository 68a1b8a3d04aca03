//! gRPC's health service. Who stops a node asks nobody first: while it answers, it serves.

use std::sync::Arc;

use hyper::body::Incoming;
use tokio::sync::mpsc;

use crate::call::{Call, Outcome};
use crate::grpc::inbound::Inbound;
use crate::grpc::outbound::{Reply, framed};
use crate::grpc::status::{Code, Status};
use crate::messages::health::health_check_response::ServingStatus;
use crate::messages::health::{HealthCheckRequest, HealthCheckResponse};
use crate::reflection::SERVICES;

pub(crate) async fn check(inbound: &mut Inbound<Incoming>) -> Outcome {
    let request: HealthCheckRequest = inbound.only().await?;
    match is_known(&request.service) {
        true => Ok(framed(&response(ServingStatus::Serving))),
        false => {
            let message = "there is no such service";
            Err(Status::new(Code::NotFound, "UNKNOWN_SERVICE", message)
                .remedy("name a service that reflection lists, or none"))
        }
    }
}

pub(crate) async fn watch(
    call: Arc<Call>,
    mut inbound: Inbound<Incoming>,
    replies: mpsc::Sender<Reply>,
) -> Result<(), Status> {
    let request: HealthCheckRequest = inbound.only().await?;
    let status = match is_known(&request.service) {
        true => ServingStatus::Serving,
        false => ServingStatus::ServiceUnknown,
    };
    call.room(&replies).await?.send(call.unread.reply(framed(&response(status))));
    // Nothing else is to be told until the node stops, which ends the stream.
    replies.closed().await;
    Ok(())
}

/// All of them together have no name.
fn is_known(service: &str) -> bool {
    service.is_empty() || SERVICES.contains(&service)
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}
