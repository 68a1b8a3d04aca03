//! DescribeUserScramCredentials (KIP-554): nobody has any.

use logway_model::ErrorCode;
use logway_wire::WireString;
use logway_wire::messages::describe_user_scram_credentials_request::UserName;
use logway_wire::messages::describe_user_scram_credentials_response::DescribeUserScramCredentialsResult;
use logway_wire::messages::{
    DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse,
};

use super::building::ENTRY_WITH_MESSAGE_BYTES;
use super::repeats::{keep_first, repeated};
use crate::request::{RequestContext, refusal_text};
use logway_node::access::{Operation, Resource};

/// One answer for each user that is named.
pub(crate) fn built_bytes(
    _context: &RequestContext,
    request: &DescribeUserScramCredentialsRequest,
) -> usize {
    request.users.as_ref().map_or(0, Vec::len) * ENTRY_WITH_MESSAGE_BYTES
}

/// All users that have credentials, which are none, or that each one named has none.
pub(crate) async fn handle(
    context: RequestContext,
    request: DescribeUserScramCredentialsRequest,
) -> DescribeUserScramCredentialsResponse {
    if let Err(code) = context.check(Operation::Describe, Resource::Cluster) {
        return refused(&request, code);
    }
    let users = request.users.unwrap_or_default();
    let named_twice = repeated(users.iter().map(|user| user.name.as_str()));
    let result = |user: &UserName| {
        let (code, message) = match named_twice.contains(user.name.as_str()) {
            true => (ErrorCode::DuplicateResource, "The request names this user more than once."),
            false => (ErrorCode::ResourceNotFound, "This user has no SCRAM credentials."),
        };
        DescribeUserScramCredentialsResult {
            user: user.name.clone(),
            error_code: code.code(),
            error_message: Some(message.into()),
            ..Default::default()
        }
    };
    let mut results: Vec<_> = users.iter().map(result).collect();
    keep_first(&mut results, |result| result.user.clone());
    DescribeUserScramCredentialsResponse { error_message: None, results, ..Default::default() }
}

/// As many results as users were named, and the names of none, as in Kafka.
fn refused(
    request: &DescribeUserScramCredentialsRequest,
    code: ErrorCode,
) -> DescribeUserScramCredentialsResponse {
    let message = || Some(WireString::from_static(refusal_text(code)));
    let result = |_| DescribeUserScramCredentialsResult {
        error_code: code.code(),
        error_message: message(),
        ..Default::default()
    };
    DescribeUserScramCredentialsResponse {
        error_code: code.code(),
        error_message: message(),
        results: request.users.iter().flatten().map(result).collect(),
        ..Default::default()
    }
}
