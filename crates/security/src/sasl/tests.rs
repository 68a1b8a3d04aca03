use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;

use super::*;
use crate::scram::{new_credential, salted_password};

const USER: &str = "a,l=ice";
const PASSWORD: &str = "pencil";

fn find(user: &str, mechanism: ScramMechanism) -> Option<Arc<ScramCredential>> {
    let make = || new_credential(mechanism, PASSWORD, 4_096).expect("is made");
    // Made once, since a salt must not change between two messages; here each is asked for once.
    (user == USER).then(|| Arc::new(make()))
}

fn evidence(strangers: &Strangers) -> Evidence<'_> {
    Evidence { find: &find, strangers, tokens: None }
}

fn strangers() -> Strangers {
    Strangers::new().expect("there are random numbers")
}

/// What becomes of a client with this password.
fn log_in(mechanism: ScramMechanism, user: &str, password: &str) -> Result<Step, Refusal> {
    let mechanism = SaslMechanism::Scram(mechanism);
    let mut exchange = Exchange::new(mechanism);
    let (mut login, first) = Login::new(mechanism, user, password).expect("begins");
    let strangers = strangers();
    let challenge = exchange.step(&first, evidence(&strangers));
    let Ok(Step::Challenge(challenge)) = challenge else { panic!("{challenge:?}") };
    let proof = login.step(&challenge).expect("is a challenge").expect("there is more to say");
    let step = exchange.step(&proof, evidence(&strangers));
    assert!(exchange.step(&proof, evidence(&strangers)).is_err(), "it has ended");
    if let Ok(Step::Done { token, .. }) = &step {
        assert_eq!(login.step(token), Ok(None), "the server has proved itself, too");
    }
    step
}

#[test]
fn who_knows_the_password_is_known() {
    for mechanism in ScramMechanism::ALL {
        let step = log_in(mechanism, USER, PASSWORD).expect("is known");
        let Step::Done { user, token, .. } = step else { panic!("{step:?}") };
        assert_eq!(user, USER);
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
    let done = || Step::Done { user: USER.to_owned(), token: Vec::new(), expires: None };
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
    ] {
        let mut exchange = Exchange::new(SaslMechanism::Scram(ScramMechanism::Sha256));
        assert!(exchange.step(wrong.as_bytes(), evidence(&strangers())).is_err(), "{wrong}");
    }
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
        tokens in prop::collection::vec("(n|y|p=x|,|=|[a-z]=|=2C|=3D|r=|p=|c=biws|.){0,20}", 1..4),
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
