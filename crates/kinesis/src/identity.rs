//! GetCallerIdentity of STS: who a request is from.

use hyper::http::request::Parts;

use crate::authentication::authenticated;
use crate::caller::Peer;
use crate::error::ApiError;
use crate::query::escaped;
use crate::service::Service;

/// The one operation that is served.
pub(crate) const OPERATION: &str = "GetCallerIdentity";

/// The namespace of responses.
pub(crate) const SPACE: &str = "https://sts.amazonaws.com/doc/2011-06-15/";

/// Says who has signed the request. Where signatures are not checked, it is the user that ACLs see.
pub(crate) fn respond(
    service: &Service,
    peer: &Peer,
    head: &Parts,
    body: &[u8],
    request_id: &str,
) -> Result<String, ApiError> {
    let principal = authenticated(service, "sts", &peer.address, head, body)?;
    let account = &service.account.id;
    let user = escaped(principal.name());
    Ok(format!(
        "<{OPERATION}Response xmlns=\"{SPACE}\"><{OPERATION}Result><Arn>arn:aws:iam::{account}:user/{user}</Arn>\
         <UserId>{user}</UserId><Account>{account}</Account></{OPERATION}Result><ResponseMetadata><RequestId>{request_id}\
         </RequestId></ResponseMetadata></{OPERATION}Response>\n"
    ))
}
