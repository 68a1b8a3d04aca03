//! Delegation tokens: what programs log in with for users (KIP-48).
//!
//! Who may ask is judged by the front door. Tokens are metadata, so that each node knows them; what a program logs in with
//! is made of a token's id and a key that all nodes have.

use std::sync::{Arc, Weak};

use logway_log::random_uuid;
use logway_metadata::controller::{
    ChangedToken, CreateDelegationToken, ExpireDelegationToken, RemoveExpiredTokens,
    RenewDelegationToken,
};
use logway_metadata::credential::Bytes;
use logway_metadata::delegation_token::DelegationToken;
use logway_model::ErrorCode;
use logway_security::delegation_token::{TokenKey, hmac_digest, password_of};
use tokio::time::sleep;

use crate::failure::Failure;
use crate::memory::Held;
use crate::node::Node;
use crate::tasks::wall_clock;

/// A token, and what a program logs in with.
#[derive(Debug, Clone)]
pub struct IssuedToken {
    /// What the metadata has of it.
    pub token: Arc<DelegationToken>,
    /// The HMAC of its id, which is a secret.
    pub hmac: Bytes,
}

impl IssuedToken {
    /// The password of programs: the HMAC in Base64. Who signs requests of AWS's APIs has it as the secret access key.
    pub fn password(&self) -> String {
        password_of(&self.hmac.0)
    }
}

/// A token that somebody wants.
#[derive(Debug, Clone)]
pub struct WantedToken {
    /// The user that it is for.
    pub owner: String,
    /// The user who asks.
    pub requester: String,
    /// Further users who may change when it expires.
    pub renewers: Vec<String>,
    /// How long it can be renewed, in ms; not positive for as long as the settings say.
    pub lifetime_max_ms: i64,
}

impl Node {
    /// The key of all tokens. Fails with `DELEGATION_TOKEN_AUTH_DISABLED` where there are none.
    pub fn token_key(&self) -> Result<&TokenKey, Failure> {
        self.token_key.as_ref().ok_or_else(|| {
            let message = "This node has no delegation.token.secret.key.";
            Failure::new(ErrorCode::DelegationTokenAuthDisabled, message)
        })
    }

    /// Makes a token. When this returns, programs can log in with it here.
    pub async fn create_token(
        self: &Arc<Self>,
        wanted: WantedToken,
        held: Held,
    ) -> Result<IssuedToken, Failure> {
        let key = self.token_key()?;
        let id = random_uuid().to_string();
        let hmac = key.hmac(&id);
        let WantedToken { owner, requester, renewers, lifetime_max_ms } = wanted;
        let command = CreateDelegationToken {
            id,
            hmac_digest: hmac_digest(&hmac),
            owner,
            requester,
            renewers,
            lifetime_max_ms,
            now_ms: wall_clock(),
        };
        let token = self.submit(command, None, held).await?;
        Ok(IssuedToken { token: Arc::new(token), hmac: Bytes(hmac) })
    }

    /// Lets a token live on that a user knows. See [`RenewDelegationToken`].
    pub async fn renew_token(
        self: &Arc<Self>,
        hmac: &[u8],
        requester: String,
        period_ms: i64,
        held: Held,
    ) -> Result<ChangedToken, Failure> {
        let hmac_digest = self.digest_in_force(hmac)?;
        let now_ms = wall_clock();
        let command = RenewDelegationToken { hmac_digest, requester, period_ms, now_ms };
        self.submit(command, None, held).await
    }

    /// Ends a token that a user knows. See [`ExpireDelegationToken`].
    pub async fn expire_token(
        self: &Arc<Self>,
        hmac: &[u8],
        requester: String,
        period_ms: i64,
        held: Held,
    ) -> Result<ChangedToken, Failure> {
        let hmac_digest = self.digest_in_force(hmac)?;
        let now_ms = wall_clock();
        let command = ExpireDelegationToken { hmac_digest, requester, period_ms, now_ms };
        self.submit(command, None, held).await
    }

    /// The id of the token of an HMAC, as far as this node knows it.
    pub fn token_id(&self, hmac: &[u8]) -> Option<String> {
        let image = self.image();
        let token = image.delegation_tokens().token_of_hmac(&hmac_digest(hmac));
        token.map(|token| token.id.clone())
    }

    /// The token of an id, which may have expired. One of an earlier key is not found.
    pub fn token_of_id(&self, id: &str) -> Option<IssuedToken> {
        let key = self.token_key.as_ref()?;
        let token = Arc::clone(self.image().delegation_tokens().token(id)?);
        let hmac = Bytes(key.hmac_of(&token)?);
        Some(IssuedToken { token, hmac })
    }

    /// The tokens that a user may see, by id. Those of an earlier key are good for nothing, and not among them.
    pub fn tokens(
        &self,
        is_seen: impl Fn(&DelegationToken) -> bool,
    ) -> Result<Vec<IssuedToken>, Failure> {
        let key = self.token_key()?;
        let image = self.image();
        let seen = image.delegation_tokens().iter().filter(|token| is_seen(token));
        let issued = seen.filter_map(|token| {
            let hmac = Bytes(key.hmac_of(token)?);
            Some(IssuedToken { token: Arc::clone(token), hmac })
        });
        Ok(issued.collect())
    }

    /// The digest that the controller finds a token by. A token of an earlier key is not found, as in Kafka.
    fn digest_in_force(&self, hmac: &[u8]) -> Result<Bytes, Failure> {
        let (key, digest, image) = (self.token_key()?, hmac_digest(hmac), self.image());
        match image.delegation_tokens().token_of_hmac(&digest) {
            Some(token) if key.hmac_of(token).is_none() => {
                let message = "The token was made with another delegation.token.secret.key.";
                Err(Failure::new(ErrorCode::DelegationTokenNotFound, message))
            }
            // The controller may know one that this node does not know yet.
            _ => Ok(digest),
        }
    }

    /// Removes the tokens whose time is over, if this node is the controller.
    async fn remove_expired_tokens(&self) {
        let is_controller = self.quorum.status().leader == Some(self.settings.node_id);
        let now_ms = wall_clock();
        let count = self.image().delegation_tokens().expired(now_ms).count();
        if !is_controller || count == 0 {
            return;
        }
        match self.quorum.submit(RemoveExpiredTokens { now_ms }).await {
            Ok(_) => tracing::info!(count, "delegation tokens have expired"),
            Err(error) => tracing::warn!(%error, "expired delegation tokens cannot be removed yet"),
        }
    }
}

/// Removes tokens whose time is over, now and then, for as long as there is the node. None is good for anything meanwhile.
pub(crate) async fn look_after_tokens(node: Weak<Node>) {
    while let Some(interval) = node.upgrade().map(|it| it.settings.delegation_tokens.check_interval)
    {
        sleep(interval).await;
        let Some(strong) = node.upgrade() else { return };
        strong.remove_expired_tokens().await;
    }
}
