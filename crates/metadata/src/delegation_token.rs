//! Delegation tokens: what a user gives to programs in the place of a password, for a while (KIP-48).

use logway_model::TimestampMs;
use serde::{Deserialize, Serialize};

use crate::credential::Bytes;

/// A delegation token, without what a program logs in with.
///
/// A program logs in with the HMAC of the id, which each node makes of the id and the secret key that all nodes have.
/// So nobody can log in by what is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DelegationToken {
    /// Its name, which is no secret.
    pub id: String,
    /// The SHA-256 of the HMAC. Who changes a token names it by its HMAC.
    pub hmac_digest: Bytes,
    /// The user that programs are who log in with it.
    pub owner: String,
    /// The user who asked for it.
    pub requester: String,
    /// Further users who may change when it expires.
    pub renewers: Vec<String>,
    /// When it was made.
    pub issued_ms: TimestampMs,
    /// From when on nobody logs in with it, unless it is renewed before.
    pub expires_ms: TimestampMs,
    /// How far it can be renewed.
    pub max_ms: TimestampMs,
}

impl DelegationToken {
    /// Whether its time is over.
    pub fn has_expired(&self, now: TimestampMs) -> bool {
        self.expires_ms.min(self.max_ms) < now
    }

    /// Whether a user may change when it expires. Who asked for it for another user may not.
    pub fn may_be_changed_by(&self, user: &str) -> bool {
        self.owner == user || self.renewers.iter().any(|renewer| renewer == user)
    }

    /// The users who have to do with it, and so may always learn of it.
    pub fn users(&self) -> impl Iterator<Item = &str> {
        let asked = [&self.owner, &self.requester].into_iter();
        asked.chain(&self.renewers).map(String::as_str)
    }

    /// What the names in it take together, in bytes.
    pub fn names_bytes(&self) -> usize {
        self.users().map(str::len).sum()
    }
}
