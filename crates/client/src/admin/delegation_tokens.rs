//! Delegation tokens: what programs log in with for users (KIP-48, KIP-373).

use logway_model::TimestampMs;
use logway_wire::WireString;
use logway_wire::messages::create_delegation_token_request::CreatableRenewers;
use logway_wire::messages::describe_delegation_token_request::DescribeDelegationTokenOwner;
use logway_wire::messages::{
    CreateDelegationTokenRequest, CreateDelegationTokenResponse, DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest, ExpireDelegationTokenResponse, RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
};

use crate::error::check;
use crate::{Client, ClientError};

/// The kind of principals that users are.
const USER: &str = "User";

/// A delegation token. Its HMAC in Base64 is what a program logs in with.
#[derive(Clone, PartialEq, Eq)]
pub struct DescribedToken {
    /// Its id.
    pub id: String,
    /// What a program proves to know: a secret.
    pub hmac: Vec<u8>,
    /// Whom programs act for.
    pub owner: String,
    /// Who has asked for it, as far as the broker says.
    pub requester: String,
    /// Who else may renew it.
    pub renewers: Vec<String>,
    /// When it was made.
    pub issued: TimestampMs,
    /// When it expires, unless it is renewed.
    pub expires: TimestampMs,
    /// How far it can be renewed.
    pub max: TimestampMs,
}

impl std::fmt::Debug for DescribedToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (id, owner) = (&self.id, &self.owner);
        f.debug_struct("DescribedToken")
            .field("id", id)
            .field("owner", owner)
            .finish_non_exhaustive()
    }
}

/// A delegation token that is wanted.
#[derive(Debug, Clone, Default)]
pub struct NewToken {
    /// Whom programs act for, if not the caller.
    pub owner: Option<String>,
    /// Who else may renew it.
    pub renewers: Vec<String>,
    /// How long it can be renewed, in ms; `None` for as long as the broker allows.
    pub lifetime_max_ms: Option<i64>,
}

impl Client {
    /// Makes a delegation token.
    ///
    /// # Errors
    ///
    /// As of any call; `DELEGATION_TOKEN_AUTHORIZATION_FAILED` for who may not make one for the owner,
    /// `DELEGATION_TOKEN_REQUEST_NOT_ALLOWED` for who has not logged in, or by a token.
    pub async fn create_token(&self, new: NewToken) -> Result<DescribedToken, ClientError> {
        let renewer = |name: &String| CreatableRenewers {
            principal_type: WireString::from_static(USER),
            principal_name: WireString::copy_of(name),
            ..Default::default()
        };
        let mut request = CreateDelegationTokenRequest {
            renewers: new.renewers.iter().map(renewer).collect(),
            max_lifetime_ms: new.lifetime_max_ms.unwrap_or(-1),
            ..Default::default()
        };
        // Brokers before Kafka 3.3 know no other owner than who asks.
        if let Some(owner) = &new.owner {
            request.owner_principal_type = Some(WireString::from_static(USER));
            request.owner_principal_name = Some(WireString::copy_of(owner));
        }
        let codes = |response: &CreateDelegationTokenResponse| vec![response.error_code];
        let made = self.change(&request, codes).await?;
        check(|| "create a delegation token".to_owned(), made.error_code, None)?;
        Ok(DescribedToken {
            id: made.token_id.to_string(),
            hmac: made.hmac.to_vec(),
            owner: made.principal_name.to_string(),
            requester: made.token_requester_principal_name.to_string(),
            renewers: new.renewers,
            issued: TimestampMs(made.issue_timestamp_ms),
            expires: TimestampMs(made.expiry_timestamp_ms),
            max: TimestampMs(made.max_timestamp_ms),
        })
    }

    /// The delegation tokens that the caller may see, by id: all, or those that these users have to do with.
    ///
    /// # Errors
    ///
    /// As of any call; `DELEGATION_TOKEN_REQUEST_NOT_ALLOWED` for who has not logged in, or by a token.
    pub async fn describe_tokens(
        &self,
        users: Option<&[String]>,
    ) -> Result<Vec<DescribedToken>, ClientError> {
        let owner = |name: &String| DescribeDelegationTokenOwner {
            principal_type: WireString::from_static(USER),
            principal_name: WireString::copy_of(name),
            ..Default::default()
        };
        let owners = users.map(|users| users.iter().map(owner).collect());
        let request = DescribeDelegationTokenRequest { owners, ..Default::default() };
        let response = self.call_any(&request).await?;
        check(|| "list delegation tokens".to_owned(), response.error_code, None)?;
        let tokens = response.tokens.into_iter().map(|token| DescribedToken {
            id: token.token_id.to_string(),
            hmac: token.hmac.to_vec(),
            owner: token.principal_name.to_string(),
            requester: token.token_requester_principal_name.to_string(),
            renewers: token.renewers.iter().map(|it| it.principal_name.to_string()).collect(),
            issued: TimestampMs(token.issue_timestamp),
            expires: TimestampMs(token.expiry_timestamp),
            max: TimestampMs(token.max_timestamp),
        });
        let mut tokens: Vec<DescribedToken> = tokens.collect();
        tokens.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(tokens)
    }

    /// Lets a delegation token live on, for as long as the broker allows or shorter; gives the time when it expires.
    ///
    /// # Errors
    ///
    /// As of any call; `DELEGATION_TOKEN_OWNER_MISMATCH` for who is neither its owner nor one of its renewers.
    pub async fn renew_token(
        &self,
        token: &DescribedToken,
        period_ms: Option<i64>,
    ) -> Result<TimestampMs, ClientError> {
        let request = RenewDelegationTokenRequest {
            hmac: token.hmac.clone().into(),
            renew_period_ms: period_ms.unwrap_or(-1),
            ..Default::default()
        };
        let codes = |response: &RenewDelegationTokenResponse| vec![response.error_code];
        let renewed = self.change(&request, codes).await?;
        check(|| format!("renew token '{}'", token.id), renewed.error_code, None)?;
        Ok(TimestampMs(renewed.expiry_timestamp_ms))
    }

    /// Ends a delegation token, at once or after so many ms; gives the time of its end.
    ///
    /// # Errors
    ///
    /// As of [`Client::renew_token`].
    pub async fn expire_token(
        &self,
        token: &DescribedToken,
        period_ms: Option<i64>,
    ) -> Result<TimestampMs, ClientError> {
        let request = ExpireDelegationTokenRequest {
            hmac: token.hmac.clone().into(),
            expiry_time_period_ms: period_ms.unwrap_or(-1),
            ..Default::default()
        };
        let codes = |response: &ExpireDelegationTokenResponse| vec![response.error_code];
        let ended = self.change(&request, codes).await?;
        check(|| format!("expire token '{}'", token.id), ended.error_code, None)?;
        Ok(TimestampMs(ended.expiry_timestamp_ms))
    }
}
