//! DescribeAcls, CreateAcls, DeleteAcls: there is no authorizer, and the answers say so as Kafka's do.
//!
//! MirrorMaker and others ask, and go on without ACLs where they are told this.

use logway_model::ErrorCode;
use logway_wire::WireString;
use logway_wire::messages::create_acls_response::AclCreationResult;
use logway_wire::messages::delete_acls_response::DeleteAclsFilterResult;
use logway_wire::messages::{
    CreateAclsRequest, CreateAclsResponse, DeleteAclsRequest, DeleteAclsResponse,
    DescribeAclsRequest, DescribeAclsResponse,
};

use super::building::ENTRY_WITH_MESSAGE_BYTES;
use crate::request::{RequestContext, refusal_text};
use logway_node::access::{Operation, Resource};

const NO_AUTHORIZER: &str = "No Authorizer is configured.";

pub(crate) mod describe {
    use super::*;

    /// The answer is small.
    pub(crate) fn built_bytes(_context: &RequestContext, _request: &DescribeAclsRequest) -> usize {
        0
    }

    pub(crate) async fn handle(
        context: RequestContext,
        _request: DescribeAclsRequest,
    ) -> DescribeAclsResponse {
        let (code, message) = refusal_of(&context, Operation::Describe);
        DescribeAclsResponse {
            error_code: code.code(),
            error_message: Some(message),
            ..Default::default()
        }
    }
}

pub(crate) mod create {
    use super::*;

    /// One answer for each ACL.
    pub(crate) fn built_bytes(_context: &RequestContext, request: &CreateAclsRequest) -> usize {
        request.creations.len() * ENTRY_WITH_MESSAGE_BYTES
    }

    pub(crate) async fn handle(
        context: RequestContext,
        request: CreateAclsRequest,
    ) -> CreateAclsResponse {
        let (code, message) = refusal_of(&context, Operation::Alter);
        let refused = |_| AclCreationResult {
            error_code: code.code(),
            error_message: Some(message.clone()),
            ..Default::default()
        };
        let results = request.creations.iter().map(refused).collect();
        CreateAclsResponse { results, ..Default::default() }
    }
}

pub(crate) mod delete {
    use super::*;

    /// One answer for each filter.
    pub(crate) fn built_bytes(_context: &RequestContext, request: &DeleteAclsRequest) -> usize {
        request.filters.len() * ENTRY_WITH_MESSAGE_BYTES
    }

    pub(crate) async fn handle(
        context: RequestContext,
        request: DeleteAclsRequest,
    ) -> DeleteAclsResponse {
        let (code, message) = refusal_of(&context, Operation::Alter);
        let refused = |_| DeleteAclsFilterResult {
            error_code: code.code(),
            error_message: Some(message.clone()),
            ..Default::default()
        };
        let filter_results = request.filters.iter().map(refused).collect();
        DeleteAclsResponse { filter_results, ..Default::default() }
    }
}

/// Whoever may not do this is told so first.
fn refusal_of(context: &RequestContext, operation: Operation) -> (ErrorCode, WireString) {
    match context.check(operation, Resource::Cluster) {
        Ok(()) => (ErrorCode::SecurityDisabled, WireString::from_static(NO_AUTHORIZER)),
        Err(code) => (code, WireString::from_static(refusal_text(code))),
    }
}
