//! Delegation tokens: who may have them, change them and see them (KIP-48, KIP-373).

use logway_metadata::controller::ChangedToken;
use logway_metadata::delegation_token::DelegationToken;
use logway_model::ErrorCode;
use logway_node::Failure;
use logway_node::access::{Operation, Principal, Resource};
use logway_node::delegation_tokens::{IssuedToken, WantedToken};

use super::refusal;
use crate::request::RequestContext;

impl RequestContext {
    /// Whether the requester may have a token for a principal, named as ACLs have it. For another than itself it needs the
    /// operation CreateTokens of that user.
    pub(crate) fn check_token_for(&self, owner: &str) -> Result<(), Failure> {
        let user = Resource::User(owner);
        if let Err(failure) = self.check_is_user_itself() {
            self.audit(Operation::CreateTokens, user, false);
            return Err(failure);
        }
        if self.principal().to_string() == owner {
            self.audit(Operation::CreateTokens, user, true);
            return Ok(());
        }
        self.check(Operation::CreateTokens, user).map_err(refusal)
    }

    /// Makes a token, which the requester may have.
    pub(crate) async fn create_token(&self, wanted: WantedToken) -> Result<IssuedToken, Failure> {
        self.node().create_token(wanted, self.building.clone()).await
    }

    /// Lets a token live on. The requester has to be its owner or one of its renewers.
    pub(crate) async fn renew_token(
        &self,
        hmac: &[u8],
        period_ms: i64,
    ) -> Result<ChangedToken, Failure> {
        let requester = self.principal().name().to_owned();
        let change = async {
            self.check_is_user_itself()?;
            self.node().renew_token(hmac, requester, period_ms, self.building.clone()).await
        };
        self.audited_change(Operation::Alter, hmac, change).await
    }

    /// Ends a token. The requester has to be its owner or one of its renewers.
    pub(crate) async fn expire_token(
        &self,
        hmac: &[u8],
        period_ms: i64,
    ) -> Result<ChangedToken, Failure> {
        let operation = if period_ms < 0 { Operation::Delete } else { Operation::Alter };
        let requester = self.principal().name().to_owned();
        let change = async {
            self.check_is_user_itself()?;
            self.node().expire_token(hmac, requester, period_ms, self.building.clone()).await
        };
        self.audited_change(operation, hmac, change).await
    }

    /// The tokens of some owners, or of all, that the requester may see: those that concern it, those that it may describe,
    /// and those of users whose tokens it may describe.
    pub(crate) fn tokens(
        &self,
        is_owner: impl Fn(&str) -> bool,
    ) -> Result<Vec<IssuedToken>, Failure> {
        self.check_is_user_itself()?;
        let requester = self.principal().name();
        let may_see = |token: &DelegationToken| {
            let owner = || Principal::user(token.owner.clone()).to_string();
            token.users().any(|user| user == requester)
                || self.may(Operation::Describe, Resource::DelegationToken(&token.id))
                || self.may(Operation::DescribeTokens, Resource::User(&owner()))
        };
        self.node().tokens(|token| token.users().any(&is_owner) && may_see(token))
    }

    /// Tokens are for users who have proved that they are it. Who has a token must not make more of it.
    fn check_is_user_itself(&self) -> Result<(), Failure> {
        match self.connection.is_user_itself() {
            true => Ok(()),
            false => {
                let message = "Tokens are for clients that are authenticated, and not by a token.";
                Err(Failure::new(ErrorCode::DelegationTokenRequestNotAllowed, message))
            }
        }
    }

    /// Whose token it is is known when it is looked for. So the audit log is told behind that.
    async fn audited_change(
        &self,
        operation: Operation,
        hmac: &[u8],
        change: impl Future<Output = Result<ChangedToken, Failure>>,
    ) -> Result<ChangedToken, Failure> {
        use ErrorCode::{DelegationTokenOwnerMismatch, DelegationTokenRequestNotAllowed};
        let known_id = self.node().token_id(hmac);
        let outcome = change.await;
        let changed_id = outcome.as_ref().ok().map(|token| token.id.clone());
        let id = changed_id.or(known_id).unwrap_or_default();
        let refused = [DelegationTokenOwnerMismatch, DelegationTokenRequestNotAllowed];
        let is_allowed = outcome.as_ref().err().is_none_or(|it| !refused.contains(&it.code));
        self.audit(operation, Resource::DelegationToken(&id), is_allowed);
        outcome
    }
}
