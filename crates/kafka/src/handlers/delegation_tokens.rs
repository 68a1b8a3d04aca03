//! CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken, DescribeDelegationToken: tokens
//! are for clients that have said who they are, and no listener here lets them. Kafka answers so on
//! its listeners without authentication.

use logway_model::ErrorCode;
use logway_wire::WireString;
use logway_wire::messages::{
    CreateDelegationTokenRequest, CreateDelegationTokenResponse, DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse, ExpireDelegationTokenRequest, ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest, RenewDelegationTokenResponse,
};

use crate::request::RequestContext;

const NOT_HERE: ErrorCode = ErrorCode::DelegationTokenRequestNotAllowed;

/// From this version on a token can be for somebody else than who asks for it.
const REQUESTER_FROM: i16 = 3;

/// The times of a token that there is not.
const NO_TIME: i64 = -1;

/// The answers are small.
pub(crate) fn built_bytes<R>(_context: &RequestContext, _request: &R) -> usize {
    0
}

pub(crate) async fn create(
    context: RequestContext,
    request: CreateDelegationTokenRequest,
) -> CreateDelegationTokenResponse {
    let named = |name: Option<WireString>| name.filter(|name| !name.is_empty());
    let knows_requesters = context.version >= REQUESTER_FROM;
    let requester =
        |word: &WireString| if knows_requesters { word.clone() } else { WireString::default() };
    let principal = context.principal();
    let (kind, name) = (principal.kind(), principal.name());
    let (kind, name) = (WireString::copy_of(kind), WireString::copy_of(name));
    CreateDelegationTokenResponse {
        error_code: NOT_HERE.code(),
        token_requester_principal_type: requester(&kind),
        token_requester_principal_name: requester(&name),
        principal_type: named(request.owner_principal_type).unwrap_or(kind),
        principal_name: named(request.owner_principal_name).unwrap_or(name),
        issue_timestamp_ms: NO_TIME,
        expiry_timestamp_ms: NO_TIME,
        max_timestamp_ms: NO_TIME,
        ..Default::default()
    }
}

pub(crate) async fn renew(
    _context: RequestContext,
    _request: RenewDelegationTokenRequest,
) -> RenewDelegationTokenResponse {
    RenewDelegationTokenResponse {
        error_code: NOT_HERE.code(),
        expiry_timestamp_ms: NO_TIME,
        ..Default::default()
    }
}

pub(crate) async fn expire(
    _context: RequestContext,
    _request: ExpireDelegationTokenRequest,
) -> ExpireDelegationTokenResponse {
    ExpireDelegationTokenResponse {
        error_code: NOT_HERE.code(),
        expiry_timestamp_ms: NO_TIME,
        ..Default::default()
    }
}

pub(crate) async fn describe(
    _context: RequestContext,
    _request: DescribeDelegationTokenRequest,
) -> DescribeDelegationTokenResponse {
    DescribeDelegationTokenResponse { error_code: NOT_HERE.code(), ..Default::default() }
}
