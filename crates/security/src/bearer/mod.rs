//! Tokens that an authority has signed (OAUTHBEARER: RFC 7628, KIP-768): JSON Web Tokens, judged by the authority's public
//! keys.
//!
//! The keys are a JSON Web Key Set, in a file that is read anew when it changes, or from a server that somebody else asks. A
//! token that is not signed, or signed with a secret that both sides have, is never believed.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use arc_swap::ArcSwap;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use logway_metadata::settings::{BearerSettings, KeyServer, KeySource};
use serde_json::{Map, Value};

use crate::watched_files::WatchedFiles;

/// A key set that is larger is none.
pub const KEY_SET_BYTES_MAX: usize = 1 << 20;

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
    #[error("{of} is no JSON Web Key Set: {reason}")]
    NoKeySet {
        /// The file's path, or the server's URL.
        of: String,
        /// Why.
        reason: String,
    },
}

/// What became of a look at the file, or at what a server has sent.
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
    /// The file of the keys, if they are in one.
    watched: Option<WatchedFiles>,
    /// Whether a token has named a key that is not there.
    lacks_key: AtomicBool,
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
    /// Reads the keys from their file. Where a server has them, there are none.
    pub fn load(settings: &BearerSettings) -> Result<BearerTokens, BearerError> {
        let KeySource::File(path) = &settings.key_set else {
            let reason = "its server was not asked".to_owned();
            return Err(BearerError::NoKeySet { of: settings.key_set.to_string(), reason });
        };
        let watched = WatchedFiles::new(vec![path.clone()]);
        let keys = read(path)?;
        Ok(BearerTokens { watched: Some(watched), ..BearerTokens::with(settings, keys) })
    }

    /// With the keys that a server has sent.
    pub fn of_server(settings: &BearerSettings, text: &[u8]) -> Result<BearerTokens, BearerError> {
        Ok(BearerTokens::with(settings, parse(&settings.key_set.to_string(), text)?))
    }

    fn with(settings: &BearerSettings, keys: JwkSet) -> BearerTokens {
        BearerTokens {
            settings: settings.clone(),
            keys: ArcSwap::from_pointee(keys),
            watched: None,
            lacks_key: AtomicBool::new(false),
        }
    }

    /// The server that is to be asked for keys, if one has them.
    pub fn server(&self) -> Option<&KeyServer> {
        match &self.settings.key_set {
            KeySource::Server(server) => Some(server),
            KeySource::File(_) => None,
        }
    }

    /// Whether a token has named a key that is not there, since this was asked last.
    pub fn lacks_key(&self) -> bool {
        self.lacks_key.swap(false, Ordering::Relaxed)
    }

    /// Looks whether the file has changed, and puts what it holds in force. It reads a file, so it must not run where
    /// others would wait for it.
    pub fn reload(&self) -> KeysReload {
        match (&self.settings.key_set, &self.watched) {
            (KeySource::File(path), Some(watched)) if watched.have_changed() => {
                self.put_in_force(read(path))
            }
            _ => KeysReload::Unchanged,
        }
    }

    /// Puts the keys in force that a server has sent.
    pub fn replace(&self, text: &[u8]) -> KeysReload {
        self.put_in_force(parse(&self.settings.key_set.to_string(), text))
    }

    fn put_in_force(&self, keys: Result<JwkSet, BearerError>) -> KeysReload {
        match keys {
            Ok(keys) if keys == **self.keys.load() => KeysReload::Unchanged,
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
        let key = key_of(&keys, header.kid.as_deref()).ok_or_else(|| {
            self.lacks_key.store(true, Ordering::Relaxed);
            "no key of the authority fits"
        })?;
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

fn read(path: &Path) -> Result<JwkSet, BearerError> {
    let unreadable = |source| BearerError::Unreadable { path: path.to_owned(), source };
    let mut text = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(KEY_SET_BYTES_MAX as u64 + 1).read_to_end(&mut text).map_err(unreadable)?;
    parse(&path.display().to_string(), &text)
}

fn parse(of: &str, text: &[u8]) -> Result<JwkSet, BearerError> {
    let no_key_set = |reason| BearerError::NoKeySet { of: of.to_owned(), reason };
    if text.len() > KEY_SET_BYTES_MAX {
        return Err(no_key_set(format!("it is larger than {KEY_SET_BYTES_MAX} bytes")));
    }
    let set: KeySet =
        serde_json::from_slice(text).map_err(|error| no_key_set(error.to_string()))?;
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
