//! AlterUserScramCredentials.

use logway_model::ErrorCode;
use serde::{Deserialize, Serialize};

use super::alter_configs::decide;
use super::features::with_features;
use super::{Command, ControllerError, Decision, duplicates};
use crate::credential::ScramCredential;
use crate::image::MetadataImage;
use crate::record::{MetadataRecord, ScramCredentialRecord};
use crate::sasl::ScramMechanism;
use crate::settings::BrokerSettings;

/// How many users can have passwords.
pub const USERS_MAX: usize = 20_000;

/// The longest name of a user.
pub const USER_NAME_MAX_BYTES: usize = 1_024;

/// How often a password has to be hashed at least, and at most: a client does as much at each login (KIP-554).
pub const SCRAM_ITERATIONS: std::ops::RangeInclusive<u32> = 4_096..=16_384;

/// Gives users passwords, or takes them, each by itself (KIP-554).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlterScramCredentials {
    /// What changes.
    pub changes: Vec<ScramCredentialChange>,
}

/// A change of one credential.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScramCredentialChange {
    /// Whose.
    pub user: String,
    /// Of which mechanism.
    pub mechanism: ScramMechanism,
    /// The new one, or `None` to take the old one.
    pub credential: Option<ScramCredential>,
}

impl Command for AlterScramCredentials {
    type Reply = Vec<Result<(), ControllerError>>;

    fn evaluate(
        self,
        image: &MetadataImage,
        _broker: &BrokerSettings,
    ) -> Result<Decision<Self::Reply>, ControllerError> {
        let keys: Vec<_> =
            self.changes.iter().map(|change| (change.user.clone(), change.mechanism)).collect();
        let twice = duplicates(keys.iter());
        let mut new_users = 0;
        let plans = self.changes.iter().zip(&keys).map(|(change, key)| {
            if twice.contains(key) {
                let message = "A user credential cannot be altered twice in the same request";
                return Err(ControllerError::new(ErrorCode::DuplicateResource, message));
            }
            check(change, image)?;
            let is_new =
                change.credential.is_some() && image.users().credentials(&change.user).is_none();
            new_users += usize::from(is_new);
            if image.users().count() + new_users > USERS_MAX {
                let message = format!("There can be {USERS_MAX} users at most.");
                return Err(ControllerError::new(ErrorCode::PolicyViolation, message));
            }
            let ScramCredentialChange { user, mechanism, credential } = change.clone();
            let record = ScramCredentialRecord { user, mechanism, credential };
            Ok(vec![MetadataRecord::ScramCredential(record)])
        });
        Ok(with_features(decide(plans, false), image))
    }
}

/// With Kafka's words, which tools show.
fn check(change: &ScramCredentialChange, image: &MetadataImage) -> Result<(), ControllerError> {
    let refuse = |code, message: &str| Err(ControllerError::new(code, message));
    let unacceptable = ErrorCode::UnacceptableCredential;
    if change.user.is_empty() {
        return refuse(unacceptable, "Username must not be empty");
    }
    if change.user.len() > USER_NAME_MAX_BYTES {
        return refuse(unacceptable, "Username is too long");
    }
    match &change.credential {
        Some(new) if new.iterations < *SCRAM_ITERATIONS.start() => {
            refuse(unacceptable, "Too few iterations")
        }
        Some(new) if new.iterations > *SCRAM_ITERATIONS.end() => {
            refuse(unacceptable, "Too many iterations")
        }
        None if image.users().credential(&change.user, change.mechanism).is_none() => {
            let message = "Attempt to delete a user credential that does not exist";
            refuse(ErrorCode::ResourceNotFound, message)
        }
        _ => Ok(()),
    }
}
