//! Checking who somebody is. A password takes a processor for milliseconds.

use logway_security::bearer::BearerTokens;
use logway_security::delegation_token::DelegationTokens;
use logway_security::sasl::{Evidence, Exchange, Refusal, Step};
use tokio::sync::Semaphore;

use crate::Node;

/// Passwords that are hashed at the same time. All who say who they are at once take this much of the machine.
const CHECKS_MAX: usize = 1;

/// Whose turn it is to have a password checked.
#[derive(Debug)]
pub(crate) struct PasswordTurns(Semaphore);

impl Default for PasswordTurns {
    fn default() -> PasswordTurns {
        PasswordTurns(Semaphore::new(CHECKS_MAX))
    }
}

impl Node {
    /// Does work that hashes a password, one after the other and where no connection waits for it.
    pub async fn check_password<T>(&self, work: impl FnOnce() -> T) -> T {
        // It is never closed.
        let _turn = self.password_turns.0.acquire().await;
        crate::tasks::off_worker(work)
    }

    /// Takes a token of a client by what the node knows of users. `tokens` judges those that an authority has signed, where the
    /// listener takes any. A step that hashes a password waits for its turn, and for nobody's network.
    pub async fn take_step(
        &self,
        exchange: &mut Exchange,
        token: &[u8],
        tokens: Option<&BearerTokens>,
    ) -> Result<Step, Refusal> {
        // Who has waited for its turn is judged by what holds then.
        let find =
            |user: &str, mechanism| self.image().users().credential(user, mechanism).cloned();
        let find_token = |id: &str| self.image().delegation_tokens().token(id).cloned();
        let key = self.token_key().ok();
        let delegation_tokens = key.map(|key| DelegationTokens { key, find: &find_token });
        let strangers = &self.strangers;
        let evidence = Evidence { find: &find, strangers, tokens, delegation_tokens };
        match exchange.is_slow(token) {
            true => self.check_password(|| exchange.step(token, evidence)).await,
            false => exchange.step(token, evidence),
        }
    }
}
