use std::time::{Instant, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use logway_metadata::delegation_token::DelegationToken;
use logway_metadata::settings::Secret;
use logway_model::TimestampMs;
use proptest::prelude::*;

use super::*;
use crate::delegation_token::{TokenKey, hmac_digest};
use crate::scram::{new_credential, salted_password};

const USER: &str = "a,l=ice";
const PASSWORD: &str = "pencil";

fn find(user: &str, mechanism: ScramMechanism) -> Option<Arc<ScramCredential>> {
    let make = || new_credential(mechanism, PASSWORD, 4_096).expect("is made");
    // Made once, since a salt must not change between two messages; here each is asked for once.
    (user == USER).then(|| Arc::new(make()))
}

fn evidence(strangers: &Strangers) -> Evidence<'_> {
    Evidence { find: &find, strangers, tokens: None, delegation_tokens: None }
}

fn strangers() -> Strangers {
    Strangers::new().expect("there are random numbers")
}

/// What becomes of a client with this password.
fn log_in(mechanism: ScramMechanism, user: &str, password: &str) -> Result<Step, Refusal> {
    let login = Login::new(SaslMechanism::Scram(mechanism), user, password).expect("begins");
    outcome(mechanism, login, evidence(&strangers()))
}

fn outcome(
    mechanism: ScramMechanism,
    (mut login, first): (Login, Vec<u8>),
    evidence: Evidence<'_>,
) -> Result<Step, Refusal> {
    let mut exchange = Exchange::new(SaslMechanism::Scram(mechanism));
    let challenge = exchange.step(&first, evidence);
    let Ok(Step::Challenge(challenge)) = challenge else { panic!("{challenge:?}") };
    let proof = login.step(&challenge).expect("is a challenge").expect("there is more to say");
    assert!(!exchange.is_slow(&proof), "the password was hashed before");
    let step = exchange.step(&proof, evidence);
    assert!(exchange.step(&proof, evidence).is_err(), "it has ended");
    if let Ok(Step::Done { token, .. }) = &step {
        assert_eq!(login.step(token), Ok(None), "the server has proved itself, too");
    }
    step
}

#[test]
fn who_knows_the_password_is_known() {
    for mechanism in ScramMechanism::ALL {
        let step = log_in(mechanism, USER, PASSWORD).expect("is known");
        let Step::Done { known, token } = step else { panic!("{step:?}") };
        assert_eq!(known, Known::by_password(USER.to_owned()));
        assert!(token.starts_with(b"v="), "{token:?}");
    }
}

#[test]
fn who_does_not_is_not_and_strangers_look_like_others() {
    let wrong = log_in(ScramMechanism::Sha256, USER, "pen").expect_err("is wrong");
    assert_eq!((wrong.user.as_deref(), wrong.reason), (Some(USER), "the password is wrong"));
    let stranger = log_in(ScramMechanism::Sha256, "bob", PASSWORD).expect_err("is unknown");
    assert_eq!((stranger.user.as_deref(), stranger.reason), (Some("bob"), "there is no such user"));
    let strangers = strangers();
    let salt = |user| strangers.credential(user, ScramMechanism::Sha256).salt.clone();
    assert!(salt("bob") == salt("bob") && salt("bob") != salt("eve"));
}

/// What becomes of a client whose second message has another nonce than it should.
fn log_in_with_nonce(nonce: impl Fn(&str) -> String) -> Result<Step, Refusal> {
    const OWN: &str = "rOprNGfwEbeRWgbNEkqO";
    let mechanism = ScramMechanism::Sha256;
    let (mut exchange, strangers) = (Exchange::new(SaslMechanism::Scram(mechanism)), strangers());
    let bare = format!("n=a=2Cl=3Dice,r={OWN}");
    let challenge = exchange.step(format!("n,,{bare}").as_bytes(), evidence(&strangers));
    let Ok(Step::Challenge(challenge)) = challenge else { panic!("{challenge:?}") };
    let challenge = String::from_utf8(challenge).expect("is text");
    let parts: Vec<&str> = challenge.splitn(3, ',').map(|part| &part[2..]).collect();
    let salt = STANDARD.decode(parts[1]).expect("is Base64");
    let salted = salted_password(mechanism, PASSWORD.as_bytes(), &salt, 4_096);
    let client_key = mac(mechanism, &salted, b"Client Key");
    let stored_key = crate::scram::credential_of(mechanism, &salted, salt, 4_096).stored_key;
    let without_proof = format!("c=biws,r={}", nonce(parts[0]));
    let messages = format!("{bare},{challenge},{without_proof}");
    let signature = mac(mechanism, &stored_key.0, messages.as_bytes());
    let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
    let last = format!("{without_proof},p={}", STANDARD.encode(proof));
    exchange.step(last.as_bytes(), evidence(&strangers))
}

#[test]
fn a_proof_is_bound_to_both_nonces() {
    assert!(log_in_with_nonce(str::to_owned).is_ok());
    let own_twice = |nonce: &str| format!("rOprNGfwEbeRWgbNEkqO{nonce}");
    assert!(log_in_with_nonce(own_twice).is_ok(), "as of librdkafka before 2.6.1");
    assert!(log_in_with_nonce(|_| "rOprNGfwEbeRWgbNEkqO".to_owned()).is_err());
    assert!(log_in_with_nonce(|nonce| format!("x{nonce}")).is_err());
    assert!(log_in_with_nonce(|nonce| format!("{nonce}x")).is_err());
}

#[test]
fn the_example_of_the_rfc_is_understood() {
    // RFC 7677, section 3: its salt and iterations, and its password.
    let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("is Base64");
    let salted = salted_password(ScramMechanism::Sha256, b"pencil", &salt, 4_096);
    let credential = crate::scram::credential_of(ScramMechanism::Sha256, &salted, salt, 4_096);
    let messages = "n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                    s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    let signature = mac(ScramMechanism::Sha256, &credential.server_key.0, messages.as_bytes());
    assert_eq!(STANDARD.encode(signature), "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
}

#[test]
fn plain_takes_name_and_password() {
    let check = |token: &str| {
        Exchange::new(SaslMechanism::Plain).step(token.as_bytes(), evidence(&strangers()))
    };
    let known = || Known::by_password(USER.to_owned());
    let done = || Step::Done { known: known(), token: Vec::new() };
    assert_eq!(check("\0a,l=ice\0pencil"), Ok(done()));
    assert_eq!(check("a,l=ice\0a,l=ice\0pencil"), Ok(done()));
    for wrong in [
        "",
        "\0",
        "\0\0",
        "\0a,l=ice\0",
        "\0\0pencil",
        "\0a,l=ice\0pen",
        "bob\0a,l=ice\0pencil",
        "\0bob\0pencil",
        "\0a,l=ice\0pencil\0",
        "a,l=ice pencil",
    ] {
        assert!(check(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn first_messages_that_are_none_are_refused() {
    for wrong in [
        "",
        "n",
        "n,,",
        "n,,n=a",
        "n,,r=x,n=a",
        "p=tls-unique,,n=a,r=x",
        "x,,n=a,r=x",
        "n,,n=,r=x",
        "n,,n=a,r=",
        "n,,n=a=b,r=x",
        "n,,n=a,r=ä",
        "n,a=b,n=a,r=x",
        "n,b,n=a,r=x",
        "n,,m=x,n=a,r=x",
        "n,,n=a,r=x,",
        "n,,n=a,r=x,tokenauth",
        "n,,n=a,r=x,tokenauth=",
        "n,,n=a,r=x,=true",
        "n,,n=a,r=x,t0=true",
    ] {
        let mut exchange = Exchange::new(SaslMechanism::Scram(ScramMechanism::Sha256));
        assert!(exchange.step(wrong.as_bytes(), evidence(&strangers())).is_err(), "{wrong}");
    }
}

/// A token `t` of alice, whose time is over in so many ms.
fn token(key: &TokenKey, left_ms: i64) -> Arc<DelegationToken> {
    let now = UNIX_EPOCH.elapsed().expect("is later").as_millis();
    let now_ms = TimestampMs(i64::try_from(now).expect("is small"));
    Arc::new(DelegationToken {
        id: "t".to_owned(),
        hmac_digest: hmac_digest(&key.hmac("t")),
        owner: "alice".to_owned(),
        requester: "admin".to_owned(),
        renewers: Vec::new(),
        issued_ms: now_ms,
        expires_ms: TimestampMs(now_ms.0 + left_ms),
        max_ms: TimestampMs(now_ms.0 + 1_000_000),
    })
}

/// What becomes of a client that logs in with a token, where the token `t` is as given, or there are no tokens.
fn log_in_by_token(
    tokens: Option<(&TokenKey, Option<Arc<DelegationToken>>)>,
    id: &str,
    hmac: &[u8],
) -> Result<Known, &'static str> {
    let mechanism = ScramMechanism::Sha256;
    let strangers = strangers();
    let find = |id: &str| tokens.as_ref()?.1.clone().filter(|token| token.id == id);
    let key = tokens.as_ref().map(|(key, _)| *key);
    let delegation_tokens = key.map(|key| DelegationTokens { key, find: &find });
    let evidence = Evidence { delegation_tokens, ..evidence(&strangers) };
    let login = Login::by_token(mechanism, id, &STANDARD.encode(hmac)).expect("begins");
    match outcome(mechanism, login, evidence) {
        Ok(Step::Done { known, .. }) => Ok(known),
        Ok(step) => panic!("{step:?}"),
        Err(refusal) => {
            assert_eq!(refusal.user.as_deref(), Some(id));
            Err(refusal.reason)
        }
    }
}

#[test]
fn who_has_a_delegation_token_is_its_owner_until_it_ends() {
    let key = TokenKey::new(&Secret::new("secret".to_owned()));
    let other_key = TokenKey::new(&Secret::new("another".to_owned()));
    let good = token(&key, 60_000);
    let log_in = |token: &Arc<DelegationToken>, id: &str, hmac: &[u8]| {
        log_in_by_token(Some((&key, Some(Arc::clone(token)))), id, hmac)
    };
    let known = log_in(&good, "t", &key.hmac("t")).expect("is known");
    assert_eq!((&*known.user, known.is_delegate), ("alice", true));
    let expires_ms = u128::try_from(good.expires_ms.0).expect("is positive");
    assert_eq!(known.expires.map(|at| at.as_millis()), Some(expires_ms));

    assert_eq!(log_in(&good, "t", &key.hmac("u")), Err("the password is wrong"));
    assert_eq!(log_in(&good, "t", b""), Err("the password is wrong"));
    let (stranger, expired) = (Err("there is no such token"), Err("the token has expired"));
    assert_eq!(log_in(&good, "u", &key.hmac("u")), stranger);
    assert_eq!(log_in(&token(&key, -1), "t", &key.hmac("t")), expired);
    assert_eq!(log_in_by_token(Some((&key, None)), "t", &key.hmac("t")), stranger);
    // Of a secret key that was changed.
    assert_eq!(log_in(&token(&other_key, 60_000), "t", &key.hmac("t")), stranger);
    assert_eq!(log_in(&token(&other_key, 60_000), "t", &other_key.hmac("t")), stranger);
    let none = log_in_by_token(None, "t", &key.hmac("t"));
    assert_eq!(none, Err("there are no delegation tokens here"));
}

#[test]
fn a_password_is_no_token_and_a_token_no_password() {
    let key = TokenKey::new(&Secret::new("secret".to_owned()));
    let known = token(&key, 60_000);
    // The name of a user, with that user's password.
    let by_token = log_in_by_token(Some((&key, Some(known))), USER, PASSWORD.as_bytes());
    assert_eq!(by_token, Err("there is no such token"));
    let by_password =
        log_in(ScramMechanism::Sha256, "t", &STANDARD.encode(key.hmac("t"))).expect_err("is none");
    assert_eq!(by_password.reason, "there is no such user");
}

#[test]
fn the_extension_for_tokens_is_understood_as_by_kafka() {
    let slow = |extensions: &str| {
        let exchange = Exchange::new(SaslMechanism::Scram(ScramMechanism::Sha512));
        exchange.is_slow(format!("n,,n=a,r=x{extensions}").as_bytes())
    };
    for by_token in [
        ",tokenauth=true",
        ",tokenauth=TRUE",
        ",a=b,tokenauth=true,c=d=e",
        ",tokenauth=false,tokenauth=true",
    ] {
        assert!(slow(by_token), "{by_token}");
    }
    for by_password in [
        "",
        ",tokenauth=false",
        ",tokenauth=yes",
        ",TokenAuth=true",
        ",tokenauth=true,tokenauth=no",
    ] {
        assert!(!slow(by_password), "{by_password}");
    }
    assert!(Exchange::new(SaslMechanism::Plain).is_slow(b""));
}

#[test]
fn who_has_a_token_that_is_not_believed_hears_so_before_it_is_refused() {
    let strangers = strangers();
    let mechanism = SaslMechanism::OauthBearer;
    let (mut login, first) = Login::new(mechanism, "", "no.such.token").expect("begins");
    let mut exchange = Exchange::new(mechanism);
    let told = exchange.step(&first, evidence(&strangers));
    let Ok(Step::NotBelieved { token: told, .. }) = told else { panic!("{told:?}") };
    assert!(told.starts_with(b"{\"status\":"), "{told:?}");
    let heard = login.step(&told).expect("is an answer").expect("is answered");
    assert!(exchange.step(&heard, evidence(&strangers)).is_err());
}

proptest! {
    /// Whatever a client says: no panic, and nobody gets in by it.
    #[test]
    fn no_token_is_too_odd(
        mechanism in prop::sample::select(&SaslMechanism::ALL[1..]),
        tokens in prop::collection::vec("(n|y|p=x|,|=|[a-z]=|=2C|=3D|r=|p=|c=biws|,tokenauth=true|.){0,20}", 1..4),
    ) {
        let (mut exchange, strangers) = (Exchange::new(mechanism), strangers());
        let evidence = Evidence { find: &|_, _| None, ..evidence(&strangers) };
        for token in tokens {
            let step = exchange.step(token.as_bytes(), evidence);
            let is_in = matches!(step, Ok(Step::Done { .. }));
            prop_assert!(!is_in);
        }
    }

    #[test]
    fn no_bytes_are_too_odd(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let strangers = strangers();
        let evidence = Evidence { find: &|_, _| None, ..evidence(&strangers) };
        for mechanism in &SaslMechanism::ALL[1..] {
            let _ = Exchange::new(*mechanism).step(&bytes, evidence);
        }
    }
}

/// The first answer has no delay that could hide it. Medians, so that a busy machine does not count.
#[test]
fn a_first_answer_takes_as_long_for_a_user_who_does_not_exist() {
    const TRIES: usize = 2_001;
    for mechanism in ScramMechanism::ALL {
        let credential = Arc::new(new_credential(mechanism, PASSWORD, 4_096).expect("is made"));
        let find = |user: &str, _| (user == "alice").then(|| Arc::clone(&credential));
        let strangers = strangers();
        let evidence = Evidence { find: &find, ..evidence(&strangers) };
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..TRIES {
            for (of_user, user) in times.iter_mut().zip(["alice", "bobby"]) {
                let mut exchange = Exchange::new(SaslMechanism::Scram(mechanism));
                let token = format!("n,,n={user},r=nonce");
                let began = Instant::now();
                let step = exchange.step(token.as_bytes(), evidence);
                of_user.push(began.elapsed());
                assert!(matches!(step, Ok(Step::Challenge(_))), "{step:?}");
            }
        }
        let [known, unknown] = times.map(|mut times| *times.select_nth_unstable(TRIES / 2).1);
        let ratio = unknown.as_secs_f64() / known.as_secs_f64();
        assert!((0.8..1.25).contains(&ratio), "{mechanism:?}: {known:?} and {unknown:?}");
    }
}
