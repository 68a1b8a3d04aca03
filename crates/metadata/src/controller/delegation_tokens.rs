//! CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken, and the end of tokens that have expired (KIP-48).
//!
//! Who may ask, and for whom, is judged before. What is here goes by the state of the tokens, as Kafka's controller does.

use logway_model::{ErrorCode, TimestampMs};
use serde::{Deserialize, Serialize};

use super::features::with_features;
use super::{Command, ControllerError, Decision};
use crate::credential::Bytes;
use crate::delegation_token::DelegationToken;
use crate::image::MetadataImage;
use crate::record::{MetadataRecord, RemoveDelegationTokenRecord};
use crate::settings::{BrokerSettings, DelegationTokenSettings};

/// The most tokens that there can be. One command has to be able to end all.
pub const TOKENS_MAX: usize = 10_000;

/// The most tokens of one owner: no user takes all for itself.
pub const TOKENS_OF_OWNER_MAX: usize = 1_000;

/// The most renewers of one token.
pub const TOKEN_RENEWERS_MAX: usize = 64;

/// The most that the names in one token take together, so that those of all take 40 MB at most.
pub const TOKEN_NAMES_MAX_BYTES: usize = 4_096;

/// Makes a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateDelegationToken {
    /// Its id, never used before.
    pub id: String,
    /// The SHA-256 of its HMAC.
    pub hmac_digest: Bytes,
    /// The user that it is for.
    pub owner: String,
    /// The user who asks.
    pub requester: String,
    /// Further users who may change when it expires.
    pub renewers: Vec<String>,
    /// How long it can be renewed, in ms; not positive for as long as the settings say.
    pub lifetime_max_ms: i64,
    /// The time of day of who asks.
    pub now_ms: TimestampMs,
}

impl Command for CreateDelegationToken {
    type Reply = DelegationToken;

    fn evaluate(
        self,
        image: &MetadataImage,
        broker: &BrokerSettings,
    ) -> Result<Decision<Self::Reply>, ControllerError> {
        let settings = in_force(broker)?;
        let now = self.now_ms;
        let max_ms = later(now, at_most(self.lifetime_max_ms, settings.lifetime_max_ms));
        let token = DelegationToken {
            id: self.id,
            hmac_digest: self.hmac_digest,
            owner: self.owner,
            requester: self.requester,
            renewers: self.renewers,
            issued_ms: now,
            expires_ms: later(now, settings.renewal_max_ms).min(max_ms),
            max_ms,
        };
        check_token_names(token.users())?;
        check_room(&token, image)?;
        let records = vec![MetadataRecord::DelegationToken(token.clone())];
        Ok(with_features(Decision { records, reply: token }, image))
    }
}

/// Whether a token can have these names: its owner, who asks for it, and its renewers.
pub fn check_token_names<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), ControllerError> {
    let (count, bytes) = names.fold((0, 0), |(count, bytes), it| (count + 1, bytes + it.len()));
    if count > TOKEN_RENEWERS_MAX + 2 {
        return Err(too_much(format!("A token has {TOKEN_RENEWERS_MAX} renewers at most.")));
    }
    if bytes > TOKEN_NAMES_MAX_BYTES {
        let message = format!("The names of a token have {TOKEN_NAMES_MAX_BYTES} bytes at most.");
        return Err(too_much(message));
    }
    Ok(())
}

fn check_room(token: &DelegationToken, image: &MetadataImage) -> Result<(), ControllerError> {
    let tokens = image.delegation_tokens();
    if tokens.count() >= TOKENS_MAX {
        return Err(too_much(format!("There can be {TOKENS_MAX} delegation tokens at most.")));
    }
    if tokens.iter().filter(|other| other.owner == token.owner).count() >= TOKENS_OF_OWNER_MAX {
        return Err(too_much(format!("A user can have {TOKENS_OF_OWNER_MAX} tokens at most.")));
    }
    Ok(())
}

fn too_much(message: String) -> ControllerError {
    ControllerError::new(ErrorCode::PolicyViolation, message)
}

/// What a token is after a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedToken {
    /// Its id.
    pub id: String,
    /// When it expires now.
    pub expires_ms: TimestampMs,
}

/// Lets a token live on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenewDelegationToken {
    /// The SHA-256 of its HMAC.
    pub hmac_digest: Bytes,
    /// The user who asks.
    pub requester: String,
    /// For how long, in ms; not positive for as long as the settings say.
    pub period_ms: i64,
    /// The time of day of who asks.
    pub now_ms: TimestampMs,
}

impl Command for RenewDelegationToken {
    type Reply = ChangedToken;

    fn evaluate(
        self,
        image: &MetadataImage,
        broker: &BrokerSettings,
    ) -> Result<Decision<Self::Reply>, ControllerError> {
        let settings = in_force(broker)?;
        let token = token_of_hmac(&self.hmac_digest, image)?;
        // Kafka says that it has expired before it says whose it is.
        check_time(token, self.now_ms)?;
        check_requester(token, &self.requester)?;
        let period_ms = at_most(self.period_ms, settings.renewal_max_ms);
        Ok(moved_end(token, later(self.now_ms, period_ms)))
    }
}

/// Ends a token, now or in a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpireDelegationToken {
    /// The SHA-256 of its HMAC.
    pub hmac_digest: Bytes,
    /// The user who asks.
    pub requester: String,
    /// In how many ms; negative for at once, even if it has expired.
    pub period_ms: i64,
    /// The time of day of who asks.
    pub now_ms: TimestampMs,
}

impl Command for ExpireDelegationToken {
    type Reply = ChangedToken;

    fn evaluate(
        self,
        image: &MetadataImage,
        broker: &BrokerSettings,
    ) -> Result<Decision<Self::Reply>, ControllerError> {
        in_force(broker)?;
        let token = token_of_hmac(&self.hmac_digest, image)?;
        check_requester(token, &self.requester)?;
        if self.period_ms < 0 {
            let reply = ChangedToken { id: token.id.clone(), expires_ms: self.now_ms };
            return Ok(Decision { records: vec![removal(token)], reply });
        }
        check_time(token, self.now_ms)?;
        Ok(moved_end(token, later(self.now_ms, self.period_ms)))
    }
}

/// Removes the tokens whose time is over. Nobody logs in with them in any case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveExpiredTokens {
    /// The time of day.
    pub now_ms: TimestampMs,
}

impl Command for RemoveExpiredTokens {
    type Reply = ();

    fn evaluate(
        self,
        image: &MetadataImage,
        _broker: &BrokerSettings,
    ) -> Result<Decision<Self::Reply>, ControllerError> {
        let expired = image.delegation_tokens().expired(self.now_ms);
        Ok(Decision { records: expired.map(|token| removal(token)).collect(), reply: () })
    }
}

/// What the settings say of tokens, where there can be any.
fn in_force(broker: &BrokerSettings) -> Result<&DelegationTokenSettings, ControllerError> {
    let settings = &broker.delegation_tokens;
    match settings.secret_key {
        Some(_) => Ok(settings),
        None => {
            let message = "The controller has no delegation.token.secret.key.";
            Err(ControllerError::new(ErrorCode::DelegationTokenAuthDisabled, message))
        }
    }
}

fn token_of_hmac<'a>(
    digest: &Bytes,
    image: &'a MetadataImage,
) -> Result<&'a DelegationToken, ControllerError> {
    let found = image.delegation_tokens().token_of_hmac(digest);
    found.map(AsRef::as_ref).ok_or_else(|| {
        ControllerError::new(ErrorCode::DelegationTokenNotFound, "There is no such token.")
    })
}

fn check_requester(token: &DelegationToken, requester: &str) -> Result<(), ControllerError> {
    if token.may_be_changed_by(requester) {
        return Ok(());
    }
    let message = "Only its owner and its renewers change a token.";
    Err(ControllerError::new(ErrorCode::DelegationTokenOwnerMismatch, message))
}

fn check_time(token: &DelegationToken, now: TimestampMs) -> Result<(), ControllerError> {
    if !token.has_expired(now) {
        return Ok(());
    }
    Err(ControllerError::new(ErrorCode::DelegationTokenExpired, "The token has expired."))
}

/// The token with another end, which is never later than it can be.
fn moved_end(token: &DelegationToken, end: TimestampMs) -> Decision<ChangedToken> {
    let expires_ms = end.min(token.max_ms);
    let record = MetadataRecord::DelegationToken(DelegationToken { expires_ms, ..token.clone() });
    let reply = ChangedToken { id: token.id.clone(), expires_ms };
    Decision { records: vec![record], reply }
}

fn removal(token: &DelegationToken) -> MetadataRecord {
    let id = token.id.clone();
    MetadataRecord::RemoveDelegationToken(RemoveDelegationTokenRecord { id })
}

/// A period that somebody wants, if it is one, within what the settings allow.
fn at_most(wanted_ms: i64, max_ms: i64) -> i64 {
    if wanted_ms > 0 { wanted_ms.min(max_ms) } else { max_ms }
}

fn later(now: TimestampMs, period_ms: i64) -> TimestampMs {
    TimestampMs(now.0.saturating_add(period_ms))
}
