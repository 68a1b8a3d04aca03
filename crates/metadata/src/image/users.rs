//! Users and what is stored of their passwords, within the image.

use std::collections::BTreeMap;
use std::sync::Arc;

use rpds::RedBlackTreeMapSync;

use crate::credential::ScramCredential;
use crate::record::{MetadataRecord, ScramCredentialRecord};
use crate::sasl::ScramMechanism;

/// What one user has, by mechanism.
pub type ScramCredentials = BTreeMap<ScramMechanism, Arc<ScramCredential>>;

/// All users that have a password. Copies share what does not differ.
///
/// Invariant: every user has a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Users {
    by_name: RedBlackTreeMapSync<String, Arc<ScramCredentials>>,
}

impl Default for Users {
    fn default() -> Users {
        Users { by_name: RedBlackTreeMapSync::new_sync() }
    }
}

impl Users {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.by_name.size()
    }

    /// What a user has; `None` if there is no such user.
    pub fn credentials(&self, user: &str) -> Option<&ScramCredentials> {
        self.by_name.get(user).map(Arc::as_ref)
    }

    /// What a user has for one mechanism.
    pub fn credential(
        &self,
        user: &str,
        mechanism: ScramMechanism,
    ) -> Option<&Arc<ScramCredential>> {
        self.credentials(user)?.get(&mechanism)
    }

    /// Every user, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ScramCredentials)> {
        self.by_name.iter().map(|(name, credentials)| (name.as_str(), credentials.as_ref()))
    }

    pub(super) fn set(&mut self, record: &ScramCredentialRecord) {
        let ScramCredentialRecord { user, mechanism, credential } = record;
        let mut credentials = self.by_name.get(user).cloned().unwrap_or_default();
        match credential {
            Some(credential) => {
                Arc::make_mut(&mut credentials).insert(*mechanism, Arc::new(credential.clone()));
            }
            None => drop(Arc::make_mut(&mut credentials).remove(mechanism)),
        }
        match credentials.is_empty() {
            true => drop(self.by_name.remove_mut(user)),
            false => self.by_name.insert_mut(user.clone(), credentials),
        }
    }

    pub(super) fn push_records(&self, records: &mut Vec<MetadataRecord>) {
        for (user, credentials) in self.iter() {
            records.extend(credentials.iter().map(|(&mechanism, credential)| {
                let (user, credential) = (user.to_owned(), Some((**credential).clone()));
                let record = ScramCredentialRecord { user, mechanism, credential };
                MetadataRecord::ScramCredential(record)
            }));
        }
    }
}
