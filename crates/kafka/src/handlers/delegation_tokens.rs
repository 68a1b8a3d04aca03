//! CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken, DescribeDelegationToken (KIP-48, KIP-373).
//!
//! What is refused before the controller is asked has times of -1 in its answer, and what the controller refuses times of 0,
//! as in Kafka.

use std::collections::HashSet;

use bytes::Bytes;
use logway_metadata::controller::{ChangedToken, TOKEN_NAMES_MAX_BYTES, check_token_names};
use logway_model::ErrorCode;
use logway_node::Failure;
use logway_node::access::Principal;
use logway_node::delegation_tokens::{IssuedToken, WantedToken};
use logway_wire::WireString;
use logway_wire::messages::describe_delegation_token_response::{
    DescribedDelegationToken, DescribedDelegationTokenRenewer,
};
use logway_wire::messages::{
    CreateDelegationTokenRequest, CreateDelegationTokenResponse, DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse, ExpireDelegationTokenRequest, ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest, RenewDelegationTokenResponse,
};

use super::building::{ENTRY_BYTES, ENTRY_WITH_MESSAGE_BYTES};
use crate::request::RequestContext;

/// From this version on a token can be for somebody else than who asks for it, and both are told.
const REQUESTER_FROM: i16 = 3;

/// The times of a token that nobody has looked for.
const NO_TIME: i64 = -1;

/// The times of a token that the controller has refused.
const REFUSED_TIME: i64 = 0;

pub(crate) mod create {
    use super::*;

    /// The answer is about one token.
    pub(crate) fn built_bytes(
        _context: &RequestContext,
        _request: &CreateDelegationTokenRequest,
    ) -> usize {
        0
    }

    pub(crate) async fn handle(
        context: RequestContext,
        request: CreateDelegationTokenRequest,
    ) -> CreateDelegationTokenResponse {
        let requester = context.principal();
        let own = (WireString::copy_of(requester.kind()), WireString::copy_of(requester.name()));
        let owner = owner(&own, &request);
        let outcome = match wanted(&context, &owner, &request) {
            Ok(wanted) => context.create_token(wanted).await.map_err(|it| (it, REFUSED_TIME)),
            Err(failure) => Err((failure, NO_TIME)),
        };
        let knows_requesters = context.version >= REQUESTER_FROM;
        let (requester_type, requester_name) = if knows_requesters { own } else { <_>::default() };
        let response = CreateDelegationTokenResponse {
            principal_type: owner.0,
            principal_name: owner.1,
            token_requester_principal_type: requester_type,
            token_requester_principal_name: requester_name,
            ..Default::default()
        };
        match outcome {
            Ok(IssuedToken { token, hmac }) => CreateDelegationTokenResponse {
                issue_timestamp_ms: token.issued_ms.0,
                expiry_timestamp_ms: token.expires_ms.0,
                max_timestamp_ms: token.max_ms.0,
                token_id: WireString::copy_of(&token.id),
                hmac: Bytes::from(hmac.0),
                ..response
            },
            Err((failure, time)) => CreateDelegationTokenResponse {
                error_code: failure.code.code(),
                issue_timestamp_ms: time,
                expiry_timestamp_ms: time,
                max_timestamp_ms: time,
                ..response
            },
        }
    }

    /// The token that is asked for, for a requester who may have it.
    fn wanted(
        context: &RequestContext,
        (owner_type, owner): &(WireString, WireString),
        request: &CreateDelegationTokenRequest,
    ) -> Result<WantedToken, Failure> {
        let no_user = || {
            let message = "Owners and renewers of tokens are of the type User.";
            Failure::new(ErrorCode::InvalidPrincipalType, message)
        };
        // Before anything of them is copied, or written into a log.
        if owner_type.len() > TOKEN_NAMES_MAX_BYTES {
            return Err(no_user());
        }
        let renewers = request.renewers.iter().map(|renewer| &*renewer.principal_name);
        check_token_names([&**owner, context.principal().name()].into_iter().chain(renewers))?;
        context.check_token_for(&format!("{owner_type}:{owner}"))?;
        let renewer_types = request.renewers.iter().map(|renewer| &renewer.principal_type);
        // Kafka takes any type of owner. Who logs in with the token is a user of that name in any case, so that a permission
        // for another type would be one for the user.
        if renewer_types.chain([owner_type]).any(|kind| **kind != *Principal::USER) {
            return Err(no_user());
        }
        let renewers = request.renewers.iter().map(|renewer| renewer.principal_name.to_string());
        Ok(WantedToken {
            owner: owner.to_string(),
            requester: context.principal().name().to_owned(),
            renewers: renewers.collect(),
            lifetime_max_ms: request.max_lifetime_ms,
        })
    }

    /// The type and the name of the principal whom a token is for. Without a name it is the client that asks, whatever
    /// the type says.
    pub(super) fn owner(
        own: &(WireString, WireString),
        request: &CreateDelegationTokenRequest,
    ) -> (WireString, WireString) {
        let name = request.owner_principal_name.as_ref().filter(|name| !name.is_empty());
        match name {
            Some(name) => {
                let kind = request.owner_principal_type.as_ref().unwrap_or(&own.0);
                (kind.clone(), name.clone())
            }
            None => own.clone(),
        }
    }
}

pub(crate) mod renew {
    use super::*;

    /// The answer is about one token.
    pub(crate) fn built_bytes(
        _context: &RequestContext,
        _request: &RenewDelegationTokenRequest,
    ) -> usize {
        0
    }

    pub(crate) async fn handle(
        context: RequestContext,
        request: RenewDelegationTokenRequest,
    ) -> RenewDelegationTokenResponse {
        let changed = context.renew_token(&request.hmac, request.renew_period_ms).await;
        let (error_code, expiry_timestamp_ms) = told(changed);
        RenewDelegationTokenResponse { error_code, expiry_timestamp_ms, ..Default::default() }
    }
}

pub(crate) mod expire {
    use super::*;

    /// The answer is about one token.
    pub(crate) fn built_bytes(
        _context: &RequestContext,
        _request: &ExpireDelegationTokenRequest,
    ) -> usize {
        0
    }

    pub(crate) async fn handle(
        context: RequestContext,
        request: ExpireDelegationTokenRequest,
    ) -> ExpireDelegationTokenResponse {
        let changed = context.expire_token(&request.hmac, request.expiry_time_period_ms).await;
        let (error_code, expiry_timestamp_ms) = told(changed);
        ExpireDelegationTokenResponse { error_code, expiry_timestamp_ms, ..Default::default() }
    }
}

/// The code of a change, and when the token expires.
fn told(changed: Result<ChangedToken, Failure>) -> (i16, i64) {
    match changed {
        Ok(token) => (ErrorCode::None.code(), token.expires_ms.0),
        Err(failure) => {
            let is_early = failure.code == ErrorCode::DelegationTokenRequestNotAllowed;
            (failure.code.code(), if is_early { NO_TIME } else { REFUSED_TIME })
        }
    }
}

pub(crate) mod describe {
    use super::*;

    /// A name is in the answer, and in its encoded form.
    const NAME_COPIES: usize = 2;

    /// Every token, perhaps.
    pub(crate) fn built_bytes(
        context: &RequestContext,
        _request: &DescribeDelegationTokenRequest,
    ) -> usize {
        let sizes = context.sizes();
        sizes.token_count() * ENTRY_WITH_MESSAGE_BYTES
            + sizes.token_name_count() * ENTRY_BYTES
            + sizes.token_names_bytes() * NAME_COPIES
    }

    pub(crate) async fn handle(
        context: RequestContext,
        request: DescribeDelegationTokenRequest,
    ) -> DescribeDelegationTokenResponse {
        let users = request.owners.as_ref().map(|owners| {
            let users = owners.iter().filter(|owner| *owner.principal_type == *Principal::USER);
            users.map(|user| &*user.principal_name).collect::<HashSet<&str>>()
        });
        // None named is all, and an empty list is none.
        match context.tokens(|user| users.as_ref().is_none_or(|users| users.contains(user))) {
            Ok(tokens) => DescribeDelegationTokenResponse {
                tokens: tokens.into_iter().map(|it| described(it, context.version)).collect(),
                ..Default::default()
            },
            Err(failure) => DescribeDelegationTokenResponse {
                error_code: failure.code.code(),
                ..Default::default()
            },
        }
    }

    fn described(
        IssuedToken { token, hmac }: IssuedToken,
        version: i16,
    ) -> DescribedDelegationToken {
        let user = || WireString::from_static(Principal::USER);
        let renewer = |name: &String| DescribedDelegationTokenRenewer {
            principal_type: user(),
            principal_name: WireString::copy_of(name),
            ..Default::default()
        };
        let requester = (user(), WireString::copy_of(&token.requester));
        let (requester_type, requester_name) =
            if version >= REQUESTER_FROM { requester } else { <_>::default() };
        DescribedDelegationToken {
            principal_type: user(),
            principal_name: WireString::copy_of(&token.owner),
            token_requester_principal_type: requester_type,
            token_requester_principal_name: requester_name,
            issue_timestamp: token.issued_ms.0,
            expiry_timestamp: token.expires_ms.0,
            max_timestamp: token.max_ms.0,
            token_id: WireString::copy_of(&token.id),
            hmac: Bytes::from(hmac.0),
            renewers: token.renewers.iter().map(renewer).collect(),
            ..Default::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_for_who_asks_unless_a_name_is_given() {
        let told = |kind: Option<&'static str>, name: Option<&'static str>| {
            let request = CreateDelegationTokenRequest {
                owner_principal_type: kind.map(Into::into),
                owner_principal_name: name.map(Into::into),
                ..Default::default()
            };
            let own = (WireString::from("User"), WireString::from("ANONYMOUS"));
            let (kind, name) = create::owner(&own, &request);
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
