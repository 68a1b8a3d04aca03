//! Tokens that an authority has signed (OAUTHBEARER: RFC 7628, KIP-768): JSON Web Tokens, judged by the authority's public
//! keys.
//!
//! Nobody is asked over a network: the keys are in a file, a JSON Web Key Set, which is read anew when it changes. A token
//! that is not signed, or signed with a secret that both sides have, is never believed.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use arc_swap::ArcSwap;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use logway_metadata::settings::BearerSettings;
use serde_json::{Map, Value};

use crate::watched_files::WatchedFiles;

/// A key set that is larger is none.
const KEY_SET_BYTES_MAX: u64 = 1 << 20;

/// Why the keys of an authority cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum BearerError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is no key set.
    #[error("{} is no JSON Web Key Set: {reason}", path.display())]
    NoKeySet {
        /// Which one.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// What became of a look at the file.
#[derive(Debug)]
pub enum KeysReload {
    /// It is as before.
    Unchanged,
    /// New keys are in force, so many.
    Done(usize),
    /// It has changed and cannot be used: the keys before stay in force.
    Refused(BearerError),
}

/// Judges the tokens of one listener's clients.
#[derive(Debug)]
pub struct BearerTokens {
    settings: BearerSettings,
    keys: ArcSwap<JwkSet>,
    watched: WatchedFiles,
}

/// Whose a token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bearer {
    /// The user.
    pub user: String,
    /// Since 1970, when the token ends.
    pub expires: Duration,
}

impl BearerTokens {
    /// Reads the keys.
    pub fn load(settings: &BearerSettings) -> Result<BearerTokens, BearerError> {
        let watched = WatchedFiles::new(vec![settings.key_set.clone()]);
        let keys = ArcSwap::from_pointee(read(&settings.key_set)?);
        Ok(BearerTokens { settings: settings.clone(), keys, watched })
    }

    /// Looks whether the file has changed, and puts what it holds in force. It reads a file, so it must not run where
    /// others would wait for it.
    pub fn reload(&self) -> KeysReload {
        if !self.watched.have_changed() {
            return KeysReload::Unchanged;
        }
        match read(&self.settings.key_set) {
            Ok(keys) => {
                let count = keys.keys.len();
                self.keys.store(Arc::new(keys));
                KeysReload::Done(count)
            }
            Err(error) => KeysReload::Refused(error),
        }
    }

    /// Whose a token is. The error says why it is not believed, without a secret in it.
    pub fn judge(&self, token: &str) -> Result<Bearer, &'static str> {
        let header = decode_header(token).map_err(|_| "the token is no JSON Web Token")?;
        let keys = self.keys.load();
        let key = key_of(&keys, header.kid.as_deref()).ok_or("no key of the authority fits")?;
        if !suits(key, header.alg) {
            return Err("it is signed by an algorithm that its key is not for");
        }
        let decoding = DecodingKey::from_jwk(key).map_err(|_| "the authority's key is damaged")?;
        let claims = decode::<Map<String, Value>>(token, &decoding, &self.rules(header.alg));
        let claims = claims.map_err(|error| reason(error.kind()))?.claims;
        self.check_times(&claims)?;
        self.check_scope(&claims)?;
        let user = claims.get(&self.settings.user_claim).and_then(Value::as_str);
        let user =
            user.filter(|user| !user.trim().is_empty()).ok_or("it does not say whose it is")?;
        let expires = claims.get("exp").and_then(Value::as_f64).unwrap_or(0.0);
        let expires = Duration::try_from_secs_f64(expires).unwrap_or(Duration::ZERO);
        Ok(Bearer { user: user.to_owned(), expires })
    }

    fn rules(&self, algorithm: Algorithm) -> Validation {
        let mut rules = Validation::new(algorithm);
        rules.leeway = self.settings.clock_skew.as_secs();
        rules.validate_nbf = true;
        let audiences = HashSet::from_iter(self.settings.audiences.iter().cloned());
        rules.aud = Some(audiences).filter(|audiences| !audiences.is_empty());
        rules.validate_aud = rules.aud.is_some();
        rules.iss = self.settings.issuer.clone().map(|issuer| HashSet::from([issuer]));
        rules.required_spec_claims = HashSet::from(["exp".to_owned()]);
        // What is expected has to be there.
        rules.required_spec_claims.extend(rules.aud.as_ref().map(|_| "aud".to_owned()));
        rules.required_spec_claims.extend(rules.iss.as_ref().map(|_| "iss".to_owned()));
        rules
    }

    /// What the library does not look at: when a token was issued, and that its other times are numbers.
    fn check_times(&self, claims: &Map<String, Value>) -> Result<(), &'static str> {
        let issued = claims.get("iat").and_then(Value::as_f64);
        let issued = issued.ok_or("it does not say when it was issued")?;
        let latest = UNIX_EPOCH.elapsed().unwrap_or_default() + self.settings.clock_skew;
        if issued > latest.as_secs_f64() {
            return Err("it was issued later than now");
        }
        match claims.get("nbf") {
            Some(time) if !time.is_number() => Err("its times are no numbers"),
            _ => Ok(()),
        }
    }

    /// As Kafka: a scope need not be there, and is a text or several.
    fn check_scope(&self, claims: &Map<String, Value>) -> Result<(), &'static str> {
        let is_text = |value: &Value| value.as_str().is_some_and(|text| !text.trim().is_empty());
        match claims.get(&self.settings.scope_claim) {
            None => Ok(()),
            Some(Value::Array(scopes)) if scopes.iter().all(is_text) => Ok(()),
            Some(scope) if is_text(scope) => Ok(()),
            Some(_) => Err("its scope is no text"),
        }
    }
}

/// The key of an id; the only one, where a token names none.
fn key_of<'a>(keys: &'a JwkSet, id: Option<&str>) -> Option<&'a Jwk> {
    match id {
        Some(id) => keys.find(id),
        None => keys.keys.first().filter(|_| keys.keys.len() == 1),
    }
}

/// Whether a key may have signed by an algorithm. One that is known to both sides never may.
fn suits(key: &Jwk, algorithm: Algorithm) -> bool {
    use Algorithm::*;
    let of_family = match &key.algorithm {
        AlgorithmParameters::RSA(_) => {
            matches!(algorithm, RS256 | RS384 | RS512 | PS256 | PS384 | PS512)
        }
        AlgorithmParameters::EllipticCurve(_) => matches!(algorithm, ES256 | ES384),
        AlgorithmParameters::OctetKeyPair(_) => algorithm == EdDSA,
        AlgorithmParameters::OctetKey(_) => false,
    };
    let named = key.common.key_algorithm.map(|named| named.to_string());
    of_family && named.is_none_or(|named| named == format!("{algorithm:?}"))
}

fn reason(kind: &ErrorKind) -> &'static str {
    match kind {
        ErrorKind::ExpiredSignature => "the token has expired",
        ErrorKind::ImmatureSignature => "the token is not valid yet",
        ErrorKind::InvalidSignature => "the authority has not signed it",
        ErrorKind::InvalidAudience => "it is for another audience",
        ErrorKind::InvalidIssuer => "another authority has issued it",
        ErrorKind::MissingRequiredClaim(_) => "a claim is missing",
        _ => "the token cannot be read",
    }
}

/// A key set whose keys are not looked at yet.
#[derive(serde::Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

/// Whether a key may sign, as far as it says what it is for.
fn signs(key: &Jwk) -> bool {
    let is_for = key.common.public_key_use.as_ref();
    is_for.is_none_or(|is_for| *is_for == PublicKeyUse::Signature)
}

fn read(path: &PathBuf) -> Result<JwkSet, BearerError> {
    let unreadable = |source| BearerError::Unreadable { path: path.clone(), source };
    let no_key_set = |reason| BearerError::NoKeySet { path: path.clone(), reason };
    if fs::metadata(path).map_err(unreadable)?.len() > KEY_SET_BYTES_MAX {
        return Err(no_key_set(format!("it is larger than {KEY_SET_BYTES_MAX} bytes")));
    }
    let text = fs::read_to_string(path).map_err(unreadable)?;
    let set: KeySet = serde_json::from_str(&text).map_err(|error| no_key_set(error.to_string()))?;
    // Keys of kinds that are not known here are passed over (RFC 7517, section 5). Else a stolen key would stay in
    // force because a strange one came with its successor.
    let known = set.keys.into_iter().filter_map(|key| serde_json::from_value(key).ok());
    let keys: Vec<Jwk> = known.filter(signs).collect();
    match keys.is_empty() {
        true => Err(no_key_set("it has no key that signs and is known here".to_owned())),
        false => Ok(JwkSet { keys }),
    }
}

/// How long a token is still good for; nothing, if it has ended.
pub fn time_left(expires: Duration) -> Duration {
    let now = UNIX_EPOCH.elapsed().unwrap_or_default();
    expires.saturating_sub(now)
}

#[cfg(test)]
mod tests;
