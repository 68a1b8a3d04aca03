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

/// Who a client is that has not said it.
const USER_TYPE: WireString = WireString::from_static("User");
const ANONYMOUS: WireString = WireString::from_static("ANONYMOUS");

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
    let requester = |word: WireString| if knows_requesters { word } else { WireString::default() };
    CreateDelegationTokenResponse {
        error_code: NOT_HERE.code(),
        principal_type: named(request.owner_principal_type).unwrap_or(USER_TYPE),
        principal_name: named(request.owner_principal_name).unwrap_or(ANONYMOUS),
        token_requester_principal_type: requester(USER_TYPE),
        token_requester_principal_name: requester(ANONYMOUS),
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
