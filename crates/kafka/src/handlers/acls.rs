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
use crate::request::RequestContext;

const NO_AUTHORIZER: &str = "No Authorizer is configured.";

pub(crate) mod describe {
    use super::*;

    /// The answer is small.
    pub(crate) fn built_bytes(_context: &RequestContext, _request: &DescribeAclsRequest) -> usize {
        0
    }

    pub(crate) async fn handle(
        _context: RequestContext,
        _request: DescribeAclsRequest,
    ) -> DescribeAclsResponse {
        DescribeAclsResponse {
            error_code: ErrorCode::SecurityDisabled.code(),
            error_message: message(),
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
        _context: RequestContext,
        request: CreateAclsRequest,
    ) -> CreateAclsResponse {
        let refused = |_| AclCreationResult {
            error_code: ErrorCode::SecurityDisabled.code(),
            error_message: message(),
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
        _context: RequestContext,
        request: DeleteAclsRequest,
    ) -> DeleteAclsResponse {
        let refused = |_| DeleteAclsFilterResult {
            error_code: ErrorCode::SecurityDisabled.code(),
            error_message: message(),
            ..Default::default()
        };
        let filter_results = request.filters.iter().map(refused).collect();
        DeleteAclsResponse { filter_results, ..Default::default() }
    }
}

fn message() -> Option<WireString> {
    Some(NO_AUTHORIZER.into())
}
