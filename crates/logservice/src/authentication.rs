//! Who a call is of, as its client is told.

use std::sync::Arc;

use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use logway_node::http_callers::{HttpCaller, Known, NotKnown};

use crate::grpc::status::{Code, Status};
use crate::service::Service;

/// Finds out whom a call is of.
pub(crate) async fn authenticate(
    service: &Service,
    caller: &HttpCaller,
    headers: &HeaderMap,
) -> Result<Arc<Known>, Status> {
    let said = headers.get(AUTHORIZATION).map(|value| value.as_bytes());
    let known = caller.authenticate(&service.node, said).await;
    known.map_err(unauthenticated)
}

fn unauthenticated(reason: NotKnown) -> Status {
    Status::new(Code::Unauthenticated, "NOT_AUTHENTICATED", reason.to_string())
        .remedy("send the metadata 'authorization: Basic …' or 'authorization: Bearer …'")
}
