use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{EncodingKey, Header, encode};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData};
use serde_json::json;

use super::*;

const KEY_ID: &str = "first";

/// An authority with one key.
struct Authority {
    keys: KeyPair,
}

impl Authority {
    fn new() -> Authority {
        let keys = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key");
        Authority { keys }
    }

    /// Its public key, as it stands in a key set.
    fn public_key(&self, id: &str) -> Value {
        let point = self.keys.der_bytes();
        let [x, y] = [&point[1..33], &point[33..65]].map(|part| URL_SAFE_NO_PAD.encode(part));
        json!({"kty": "EC", "crv": "P-256", "use": "sig", "kid": id, "x": x, "y": y})
    }

    fn sign(&self, id: Option<&str>, claims: &Value) -> String {
        let header = Header { kid: id.map(str::to_owned), ..Header::new(Algorithm::ES256) };
        let key = EncodingKey::from_ec_der(self.keys.serialized_der());
        encode(&header, claims, &key).expect("signs")
    }
}

fn write_keys(path: &Path, keys: &[Value]) {
    fs::write(path, json!({ "keys": keys }).to_string()).expect("is written");
}

fn settings(path: &Path) -> BearerSettings {
    BearerSettings {
        key_set: KeySource::File(path.to_owned()),
        audiences: vec!["logway".to_owned(), "other".to_owned()],
        issuer: Some("https://authority.example".to_owned()),
        user_claim: "sub".to_owned(),
        scope_claim: "scope".to_owned(),
        clock_skew: Duration::from_secs(30),
    }
}

fn now_s() -> u64 {
    UNIX_EPOCH.elapsed().expect("after 1970").as_secs()
}

fn claims() -> Value {
    json!({
        "sub": "alice",
        "iss": "https://authority.example",
        "aud": ["logway"],
        "iat": now_s(),
        "exp": now_s() + 600,
        "scope": "produce consume",
    })
}

fn with(name: &str, value: impl Into<Value>) -> Value {
    let mut claims = claims();
    claims[name] = value.into();
    claims
}

fn without(name: &str) -> Value {
    let mut claims = claims();
    claims.as_object_mut().expect("is one").remove(name);
    claims
}

struct Trusting {
    _dir: tempfile::TempDir,
    path: PathBuf,
    authority: Authority,
    tokens: BearerTokens,
}

fn trusting() -> Trusting {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("keys.json");
    let authority = Authority::new();
    write_keys(&path, &[authority.public_key(KEY_ID)]);
    let tokens = BearerTokens::load(&settings(&path)).expect("loads");
    Trusting { _dir: dir, path, authority, tokens }
}

#[test]
fn who_has_a_token_of_the_authority_is_known_until_it_ends() {
    let Trusting { authority, tokens, .. } = &trusting();
    for id in [Some(KEY_ID), None] {
        let bearer = tokens.judge(&authority.sign(id, &claims())).expect("is believed");
        assert_eq!(bearer.user, "alice");
        let left = time_left(bearer.expires);
        assert!((590..=600).contains(&left.as_secs()), "{left:?}");
    }
    let odd = [with("aud", "other"), without("scope"), with("scope", json!(["a", "b"]))];
    for claims in odd {
        assert!(tokens.judge(&authority.sign(None, &claims)).is_ok(), "{claims}");
    }
    let just_over = with("exp", now_s() - 10);
    assert!(tokens.judge(&authority.sign(None, &just_over)).is_ok(), "clocks differ a little");
}

#[test]
fn other_tokens_are_not_believed_and_the_reason_is_known() {
    let Trusting { authority, tokens, .. } = &trusting();
    for (claims, expected) in [
        (with("exp", now_s() - 60), "the token has expired"),
        (with("nbf", now_s() + 60), "the token is not valid yet"),
        (with("aud", "somebody"), "it is for another audience"),
        (without("aud"), "a claim is missing"),
        (with("iss", "https://elsewhere.example"), "another authority has issued it"),
        (without("iss"), "a claim is missing"),
        (without("exp"), "a claim is missing"),
        (without("iat"), "it does not say when it was issued"),
        (with("iat", "now"), "it does not say when it was issued"),
        (with("iat", now_s() + 600), "it was issued later than now"),
        (with("nbf", "9999999999"), "its times are no numbers"),
        (without("sub"), "it does not say whose it is"),
        (with("sub", " "), "it does not say whose it is"),
        (with("sub", 7), "it does not say whose it is"),
        (with("scope", 7), "its scope is no text"),
    ] {
        let judged = tokens.judge(&authority.sign(Some(KEY_ID), &claims));
        assert_eq!(judged, Err(expected), "{claims}");
    }
    let other = Authority::new();
    let forged = tokens.judge(&other.sign(Some(KEY_ID), &claims()));
    assert_eq!(forged, Err("the authority has not signed it"));
    let unknown = tokens.judge(&other.sign(Some("second"), &claims()));
    assert_eq!(unknown, Err("no key of the authority fits"));
    for text in ["", "a", "a.b", "a.b.c", "....", "\u{0}.\u{0}.\u{0}"] {
        assert!(tokens.judge(text).is_err(), "{text}");
    }
}

/// The oldest attacks on such tokens: no signature at all, and the public key taken for a shared secret.
#[test]
fn nobody_signs_with_what_everybody_has() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("keys.json");
    let authority = Authority::new();
    let secret = json!({"kty": "oct", "kid": "shared", "k": URL_SAFE_NO_PAD.encode("secret")});
    write_keys(&path, &[authority.public_key(KEY_ID), secret]);
    let tokens = BearerTokens::load(&settings(&path)).expect("loads");
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let unsigned = format!("{}.{}.", part(json!({"alg": "none", "kid": KEY_ID})), part(claims()));
    assert_eq!(tokens.judge(&unsigned), Err("the token is no JSON Web Token"));
    for (id, secret) in [("shared", &b"secret"[..]), (KEY_ID, authority.keys.der_bytes())] {
        let header = Header { kid: Some(id.to_owned()), ..Header::new(Algorithm::HS256) };
        let token = encode(&header, &claims(), &EncodingKey::from_secret(secret)).expect("signs");
        let judged = tokens.judge(&token);
        assert_eq!(judged, Err("it is signed by an algorithm that its key is not for"), "{id}");
    }
}

#[test]
fn new_keys_are_in_force_and_damaged_ones_are_not() {
    let Trusting { path, authority, tokens, .. } = &trusting();
    assert!(matches!(tokens.reload(), KeysReload::Unchanged));
    let next = Authority::new();
    write_keys(path, &[authority.public_key(KEY_ID), next.public_key("second")]);
    assert!(matches!(tokens.reload(), KeysReload::Done(2)));
    assert!(tokens.judge(&next.sign(Some("second"), &claims())).is_ok());
    let unnamed = tokens.judge(&next.sign(None, &claims()));
    assert_eq!(unnamed, Err("no key of the authority fits"), "which of the two?");
    let strange = json!({"kty": "RSA", "alg": "RSA-OAEP-512", "n": "AQAB", "e": "AQAB"});
    write_keys(path, &[strange, next.public_key("second")]);
    assert!(matches!(tokens.reload(), KeysReload::Done(1)), "the strange one is passed over");
    assert!(tokens.judge(&authority.sign(Some(KEY_ID), &claims())).is_err(), "it was taken out");
    write_keys(path, &[authority.public_key(KEY_ID)]);
    assert!(matches!(tokens.reload(), KeysReload::Done(1)));
    for damaged in ["", "{}", "{\"keys\":[]}", "[]"] {
        fs::write(path, damaged).expect("is written");
        assert!(matches!(tokens.reload(), KeysReload::Refused(_)), "{damaged}");
        assert!(tokens.judge(&authority.sign(Some(KEY_ID), &claims())).is_ok());
    }
}
