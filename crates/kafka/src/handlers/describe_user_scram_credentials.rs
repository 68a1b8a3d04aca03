//! DescribeUserScramCredentials: who has a password, and what kind (KIP-554). Nobody is told more of it.

use logway_metadata::image::ScramCredentials;
use logway_model::ErrorCode;
use logway_wire::WireString;
use logway_wire::messages::describe_user_scram_credentials_request::UserName;
use logway_wire::messages::describe_user_scram_credentials_response::{
    CredentialInfo, DescribeUserScramCredentialsResult,
};
use logway_wire::messages::{
    DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse,
};

use super::building::ENTRY_WITH_MESSAGE_BYTES;
use super::repeats::{keep_first, repeated};
use crate::request::{RequestContext, refusal_text};
use logway_node::access::{Operation, Resource};

/// One answer for each user that is named, or for all.
pub(crate) fn built_bytes(
    context: &RequestContext,
    request: &DescribeUserScramCredentialsRequest,
) -> usize {
    let named = request.users.as_ref().filter(|users| !users.is_empty()).map(Vec::len);
    named.unwrap_or_else(|| context.sizes().user_count()) * ENTRY_WITH_MESSAGE_BYTES
}

/// The users that are named; none stands for all.
pub(crate) async fn handle(
    context: RequestContext,
    request: DescribeUserScramCredentialsRequest,
) -> DescribeUserScramCredentialsResponse {
    let image = match context.metadata(Operation::Describe, Resource::Cluster) {
        Ok(image) => image,
        Err(code) => return refused(&request, code),
    };
    let users = request.users.unwrap_or_default();
    if users.is_empty() {
        let all = image.users().iter();
        let results = all.map(|(user, has)| described(WireString::copy_of(user), has)).collect();
        return DescribeUserScramCredentialsResponse {
            error_message: None,
            results,
            ..Default::default()
        };
    }
    let named_twice = repeated(users.iter().map(|user| user.name.as_str()));
    let result = |user: &UserName| {
        if named_twice.contains(user.name.as_str()) {
            let message = "The request names this user more than once.";
            return failed(user, ErrorCode::DuplicateResource, message);
        }
        match image.users().credentials(&user.name) {
            Some(has) => described(user.name.clone(), has),
            None => {
                let message = "This user has no SCRAM credentials.";
                failed(user, ErrorCode::ResourceNotFound, message)
            }
        }
    };
    let mut results: Vec<_> = users.iter().map(result).collect();
    keep_first(&mut results, |result| result.user.clone());
    DescribeUserScramCredentialsResponse { error_message: None, results, ..Default::default() }
}

fn described(user: WireString, has: &ScramCredentials) -> DescribeUserScramCredentialsResult {
    let info = has.iter().map(|(mechanism, credential)| CredentialInfo {
        mechanism: mechanism.number(),
        iterations: i32::try_from(credential.iterations).unwrap_or(i32::MAX),
        ..Default::default()
    });
    DescribeUserScramCredentialsResult {
        user,
        error_message: None,
        credential_infos: info.collect(),
        ..Default::default()
    }
}

fn failed(user: &UserName, code: ErrorCode, message: &str) -> DescribeUserScramCredentialsResult {
    DescribeUserScramCredentialsResult {
        user: user.name.clone(),
        error_code: code.code(),
        error_message: Some(WireString::copy_of(message)),
        ..Default::default()
    }
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
