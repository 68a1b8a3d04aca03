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
    let knows_requesters = context.version >= REQUESTER_FROM;
    let requester =
        |word: &WireString| if knows_requesters { word.clone() } else { WireString::default() };
    let principal = context.principal();
    let (kind, name) =
        (WireString::copy_of(principal.kind()), WireString::copy_of(principal.name()));
    let (principal_type, principal_name) =
        owner((&kind, &name), request.owner_principal_type, request.owner_principal_name);
    CreateDelegationTokenResponse {
        error_code: NOT_HERE.code(),
        token_requester_principal_type: requester(&kind),
        token_requester_principal_name: requester(&name),
        principal_type,
        principal_name,
        issue_timestamp_ms: NO_TIME,
        expiry_timestamp_ms: NO_TIME,
        max_timestamp_ms: NO_TIME,
        ..Default::default()
    }
}

/// The type and the name of the principal whom a token is for. Without a name it is the client that asks, whatever the
/// type says.
fn owner(
    requester: (&WireString, &WireString),
    kind: Option<WireString>,
    name: Option<WireString>,
) -> (WireString, WireString) {
    let (own_kind, own_name) = requester;
    match name.filter(|name| !name.is_empty()) {
        Some(name) => (kind.unwrap_or_else(|| own_kind.clone()), name),
        None => (own_kind.clone(), own_name.clone()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_for_who_asks_unless_a_name_is_given() {
        let told = |kind: Option<&'static str>, name: Option<&'static str>| {
            let requester = (&WireString::from("User"), &WireString::from("ANONYMOUS"));
            let (kind, name) = owner(requester, kind.map(Into::into), name.map(Into::into));
            (kind.to_string(), name.to_string())
        };
        let anonymous = ("User".to_owned(), "ANONYMOUS".to_owned());
        for (kind, name) in [(None, None), (Some("Group"), None), (Some("Group"), Some(""))] {
            assert_eq!(told(kind, name), anonymous, "{kind:?} {name:?}");
        }
        assert_eq!(told(Some("Group"), Some("a")), ("Group".to_owned(), "a".to_owned()));
        assert_eq!(told(Some(""), Some("a")), (String::new(), "a".to_owned()));
        assert_eq!(told(None, Some("a")), ("User".to_owned(), "a".to_owned()));
    }
}
