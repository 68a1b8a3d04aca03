//! The delegation tokens within the image.

use std::sync::Arc;

use logway_model::TimestampMs;
use rpds::RedBlackTreeMapSync;

use crate::credential::Bytes;
use crate::delegation_token::DelegationToken;
use crate::record::MetadataRecord;

/// All delegation tokens. Copies share what does not differ.
///
/// Invariant: a token is found under its id and under the digest of its HMAC, or under neither.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelegationTokens {
    by_id: RedBlackTreeMapSync<String, Arc<DelegationToken>>,
    ids_by_digest: RedBlackTreeMapSync<Bytes, String>,
}

impl Default for DelegationTokens {
    fn default() -> DelegationTokens {
        DelegationTokens {
            by_id: RedBlackTreeMapSync::new_sync(),
            ids_by_digest: RedBlackTreeMapSync::new_sync(),
        }
    }
}

impl DelegationTokens {
    /// How many there are, with those that have expired and are still there.
    pub fn count(&self) -> usize {
        self.by_id.size()
    }

    /// The token of an id.
    pub fn token(&self, id: &str) -> Option<&Arc<DelegationToken>> {
        self.by_id.get(id)
    }

    /// The token whose HMAC has this SHA-256.
    pub fn token_of_hmac(&self, digest: &Bytes) -> Option<&Arc<DelegationToken>> {
        self.token(self.ids_by_digest.get(digest)?)
    }

    /// Every token, by id.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<DelegationToken>> {
        self.by_id.values()
    }

    /// Those whose time is over.
    pub fn expired(&self, now: TimestampMs) -> impl Iterator<Item = &Arc<DelegationToken>> {
        self.iter().filter(move |token| token.has_expired(now))
    }

    pub(super) fn set(&mut self, token: &DelegationToken) {
        self.remove(&token.id);
        self.ids_by_digest.insert_mut(token.hmac_digest.clone(), token.id.clone());
        self.by_id.insert_mut(token.id.clone(), Arc::new(token.clone()));
    }

    pub(super) fn remove(&mut self, id: &str) {
        let Some(token) = self.token(id).cloned() else { return };
        self.ids_by_digest.remove_mut(&token.hmac_digest);
        self.by_id.remove_mut(id);
    }

    pub(super) fn push_records(&self, records: &mut Vec<MetadataRecord>) {
        let record = |token: &Arc<DelegationToken>| {
            MetadataRecord::DelegationToken(DelegationToken::clone(token))
        };
        records.extend(self.iter().map(record));
    }
}
