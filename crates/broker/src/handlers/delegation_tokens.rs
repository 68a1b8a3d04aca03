//! CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken, DescribeDelegationToken: tokens
//! are for clients that have said who they are, and no listener here lets them. Kafka answers so on
//! its listeners without authentication.

use logway_model::ErrorCode;
use logway_wire::messages::{
    CreateDelegationTokenRequest, CreateDelegationTokenResponse, DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse, ExpireDelegationTokenRequest, ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest, RenewDelegationTokenResponse,
};

use crate::dispatch::RequestContext;

const NOT_HERE: ErrorCode = ErrorCode::DelegationTokenRequestNotAllowed;

/// The answers are small.
pub(crate) fn built_bytes<R>(_context: &RequestContext, _request: &R) -> usize {
    0
}

pub(crate) async fn create(
    _context: RequestContext,
    _request: CreateDelegationTokenRequest,
) -> CreateDelegationTokenResponse {
    CreateDelegationTokenResponse { error_code: NOT_HERE.code(), ..Default::default() }
}

pub(crate) async fn renew(
    _context: RequestContext,
    _request: RenewDelegationTokenRequest,
) -> RenewDelegationTokenResponse {
    RenewDelegationTokenResponse { error_code: NOT_HERE.code(), ..Default::default() }
}

pub(crate) async fn expire(
    _context: RequestContext,
    _request: ExpireDelegationTokenRequest,
) -> ExpireDelegationTokenResponse {
    ExpireDelegationTokenResponse { error_code: NOT_HERE.code(), ..Default::default() }
}

pub(crate) async fn describe(
    _context: RequestContext,
    _request: DescribeDelegationTokenRequest,
) -> DescribeDelegationTokenResponse {
    DescribeDelegationTokenResponse { error_code: NOT_HERE.code(), ..Default::default() }
}
