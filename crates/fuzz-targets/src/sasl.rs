//! What clients say of who they are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use logway_metadata::credential::{Bytes, ScramCredential};
use logway_metadata::delegation_token::DelegationToken;
use logway_metadata::sasl::SaslMechanism;
use logway_metadata::settings::Secret;
use logway_model::TimestampMs;
use logway_security::delegation_token::{DelegationTokens, TokenKey, hmac_digest};
use logway_security::sasl::{Evidence, Exchange, Step, Strangers};

use crate::allocation::within;
use crate::parts;

/// What a client says, message by message, by the mechanism of a number: nobody gets in who has no password, and a
/// password is hashed where it was said before that it would be.
///
/// Every user and every token there is. Whoever guesses has to guess a nonce, too.
pub fn sasl(bytes: &[u8]) {
    let Some((number, rest)) = bytes.split_first() else { return };
    let mechanism = SaslMechanism::ALL[usize::from(*number) % SaslMechanism::ALL.len()];
    let strangers = Strangers::new().expect("there are random numbers");
    let key = TokenKey::new(&Secret::new("secret".to_owned()));
    let (asked_user, asked_token) = (AtomicBool::new(false), AtomicBool::new(false));
    let find = |_: &str, _| {
        asked_user.store(true, Ordering::Relaxed);
        Some(Arc::new(credential()))
    };
    let find_token = |id: &str| {
        asked_token.store(true, Ordering::Relaxed);
        Some(Arc::new(token(id, &key)))
    };
    let delegation_tokens = Some(DelegationTokens { key: &key, find: &find_token });
    let evidence = Evidence { find: &find, strangers: &strangers, tokens: None, delegation_tokens };
    let mut exchange = Exchange::new(mechanism);
    for message in parts::unpack(rest).take(4) {
        asked_user.store(false, Ordering::Relaxed);
        asked_token.store(false, Ordering::Relaxed);
        let is_slow = exchange.is_slow(message);
        let step = within((16 << 10) + 20 * message.len(), || exchange.step(message, evidence));
        assert!(!matches!(step, Ok(Step::Done { .. })), "{mechanism}: {step:?}");
        let by_token = asked_token.load(Ordering::Relaxed);
        assert!(!by_token || !asked_user.load(Ordering::Relaxed), "one account, and not two");
        if let (SaslMechanism::Scram(_), Ok(Step::Challenge(_))) = (mechanism, &step) {
            assert_eq!(is_slow, by_token);
        }
    }
}

/// A password that nobody knows.
fn credential() -> ScramCredential {
    let bytes = || Bytes(vec![7; 32]);
    ScramCredential { salt: bytes(), iterations: 4_096, stored_key: bytes(), server_key: bytes() }
}

fn token(id: &str, key: &TokenKey) -> DelegationToken {
    DelegationToken {
        id: id.to_owned(),
        hmac_digest: hmac_digest(&key.hmac(id)),
        owner: "alice".to_owned(),
        requester: "alice".to_owned(),
        renewers: Vec::new(),
        issued_ms: TimestampMs(0),
        expires_ms: TimestampMs(i64::MAX),
        max_ms: TimestampMs(i64::MAX),
    }
}
