//! From an HTTP request to its response.

use std::sync::Arc;

use bytes::Bytes;
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use logway_node::access::Principal;

use super::call::TableCall;
use super::error::Refused;
use super::shapes::{OPERATIONS, TableOperation as Name};
use super::{administration, reads, writes};
use crate::authentication::authenticated;
use crate::body::{ResponseBody, charged};
use crate::caller::{Caller, Peer};
use crate::error::{ApiError, SERIALIZATION};
use crate::http::{refusal, with_body};
use crate::json;
use crate::service::Service;
use crate::shape::Operation;
use crate::type_error::TypeErrors;
use crate::validate::{conforms, validate};
use crate::value::{Structure, Value};

/// What stands before the names of operations.
pub(crate) const SERVICE: &str = "DynamoDB_20120810";

const CONTENT_TYPE: &str = "application/x-amz-json-1.0";

/// The largest request: an item has 400 KiB at most.
const REQUEST_BYTES_MAX: usize = 1 << 20;

/// A request.
pub(crate) struct Request<'a> {
    /// Its head.
    pub(crate) head: &'a Parts,
    /// Its body.
    pub(crate) body: &'a Bytes,
    /// How the body is encoded.
    pub(crate) content_type: &'a str,
    /// What is asked for.
    pub(crate) operation: &'a str,
}

/// Answers a request.
pub(crate) async fn respond(
    service: &Arc<Service>,
    peer: Peer,
    request: Request<'_>,
) -> Response<ResponseBody> {
    if request.body.len() > REQUEST_BYTES_MAX {
        return with_body(StatusCode::PAYLOAD_TOO_LARGE, None, Vec::new());
    }
    let give_up = Arc::clone(&peer.give_up);
    let outcome = match decoded(service, &peer, &request) {
        Ok((operation, input, principal)) => {
            let caller = Caller::new(&peer, principal);
            let call = TableCall { service: Arc::clone(service), operation, input, caller };
            perform(call).await.inspect(|response| {
                let is_ours = |shape| conforms(shape, &Value::from(response.clone()));
                debug_assert!(operation.output.is_some_and(is_ours), "{response:?}");
            })
        }
        Err(error) => Err(error.into()),
    };
    match outcome {
        Ok(response) => {
            let bytes =
                charged(json::encode(&response).into(), &service.node.memory, &give_up).await;
            with_body(StatusCode::OK, Some(CONTENT_TYPE), bytes)
        }
        Err(refused) => {
            let ApiError { name, message, status } = &refused.error;
            if *status >= 500 {
                let (operation, reason) = (request.operation, message.as_deref());
                tracing::debug!(operation, name, reason, "a request failed");
            }
            refusal(&refused.error, CONTENT_TYPE, json::encode(&refused.to_structure()))
        }
    }
}

/// Operation, syntax, authentication, types, constraints.
fn decoded(
    service: &Service,
    peer: &Peer,
    request: &Request<'_>,
) -> Result<(&'static Operation<Name>, Structure, Principal), ApiError> {
    let unknown = || ApiError::bare("UnknownOperationException");
    if request.content_type != CONTENT_TYPE {
        return Err(unknown());
    }
    let operation = OPERATIONS.iter().find(|operation| operation.text == request.operation);
    let operation = operation.ok_or_else(unknown)?;
    let errors = TypeErrors::default();
    let input = json::decode(request.body, operation.input, &errors);
    let input = input.ok_or_else(|| ApiError::bare(SERIALIZATION))?;
    let principal = authenticated(service, "dynamodb", &peer.address, request.head, request.body)?;
    if let Some(message) = errors.into_first() {
        return Err(ApiError::new(SERIALIZATION, message));
    }
    validate(operation.input, &input).map_err(ApiError::validation)?;
    Ok((operation, input, principal))
}

/// Does what a request asks for.
async fn perform(call: TableCall) -> Result<Structure, Refused> {
    match call.operation.name {
        Name::CreateTable => administration::create(&call).await,
        Name::UpdateTable => administration::update(&call).await,
        Name::DescribeTable => administration::describe(&call).await,
        Name::DeleteTable => administration::delete(&call).await,
        Name::ListTables => administration::list(&call),
        Name::UpdateContinuousBackups => administration::update_backups(&call).await,
        Name::PutItem => writes::put(&call).await,
        Name::UpdateItem => writes::update(&call).await,
        Name::DeleteItem => writes::delete(&call).await,
        Name::GetItem => reads::get(&call).await,
        Name::Query => reads::query(&call).await,
        Name::Scan => reads::scan(&call).await,
    }
}
