//! SASL: who is let in, what is answered before that, and for how long somebody is known.

use std::time::{Duration, Instant};

use bytes::Bytes;
use logway_client::Security;
use logway_metadata::sasl::{SaslMechanism, ScramMechanism};
use logway_model::ErrorCode;
use logway_wire::messages::{
    ApiVersionsRequest, MetadataRequest, SaslAuthenticateRequest, SaslHandshakeRequest,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::common::*;
use super::{PASSWORD, add_user, connect_to, password};

const PLAIN: SaslMechanism = SaslMechanism::Plain;

async fn start(dir: &std::path::Path, more: &[(&str, &str)]) -> TestBroker {
    let listeners = "127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0";
    let fixed = [
        ("listeners", listeners),
        ("sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"),
        ("connection.failed.authentication.delay.ms", "50"),
    ];
    let settings: Vec<(&str, &str)> = fixed.iter().chain(more).copied().collect();
    let broker = TestBroker::start_with(dir, &settings).await;
    add_user(&broker, "alice", PASSWORD).await;
    broker
}

fn as_user(mechanism: SaslMechanism, user: &str, word: &str) -> Security {
    Security { tls: None, password: Some(password(mechanism, user, word)) }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_right_password_opens_by_each_mechanism_and_no_other_does() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = start(dir.path(), &[]).await;
    let address = broker.addresses()[1];
    for mechanism in SaslMechanism::ALL.into_iter().filter(|it| *it != SaslMechanism::OauthBearer) {
        let connection = connect_to(address, as_user(mechanism, "alice", PASSWORD)).await;
        let connection = connection.unwrap_or_else(|error| panic!("{mechanism}: {error}"));
        connection.call(&MetadataRequest::default()).await.expect("is answered");
        for (user, word) in [("alice", "wrong"), ("bob", PASSWORD), ("ALICE", PASSWORD)] {
            let began = Instant::now();
            let error = connect_to(address, as_user(mechanism, user, word)).await;
            let error = error.expect_err("is not let in").to_string();
            assert!(error.contains("invalid credentials"), "{error}");
            assert!(!error.contains("no such user") && !error.contains(word), "{error}");
            assert!(began.elapsed() >= Duration::from_millis(50), "{mechanism} {user}");
        }
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mechanism_that_is_not_enabled_is_refused_with_those_that_are() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = start(dir.path(), &[("sasl.enabled.mechanisms", "SCRAM-SHA-512")]).await;
    let error = connect_to(broker.addresses()[1], as_user(PLAIN, "alice", PASSWORD)).await;
    let error = error.expect_err("is not enabled").to_string();
    assert!(error.contains("SCRAM-SHA-512") && !error.contains("SCRAM-SHA-256"), "{error}");
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_gets_versions_and_nothing_else() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = start(dir.path(), &[]).await;
    let address = broker.addresses()[1];
    let connect =
        async || connect_to(address, Security::default()).await.expect("versions are told");
    connect().await.call(&MetadataRequest::default()).await.expect_err("is closed");

    // A token before a handshake.
    let token = SaslAuthenticateRequest { auth_bytes: Bytes::from("x"), ..Default::default() };
    let connection = connect().await;
    let refused = connection.call(&token).await.expect("is answered");
    assert_eq!(refused.error_code, ErrorCode::SaslAuthenticationFailed.code());
    connection.call(&token).await.expect_err("is closed");

    // A handshake twice.
    let handshake = SaslHandshakeRequest { mechanism: "PLAIN".into(), ..Default::default() };
    let connection = connect().await;
    assert_eq!(connection.call(&handshake).await.expect("is answered").error_code, 0);
    let twice = connection.call(&handshake).await.expect("is answered");
    assert_eq!(twice.error_code, ErrorCode::IllegalSaslState.code());
    connection.call(&handshake).await.expect_err("is closed");

    // Words without end.
    let connection = connect().await;
    let versions = ApiVersionsRequest {
        client_software_name: "test".into(),
        client_software_version: "1".into(),
        ..Default::default()
    };
    let mut answered = 0;
    while connection.call(&versions).await.is_ok() {
        answered += 1;
        assert!(answered < 20, "it is closed some time");
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_sends_no_large_frames() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = start(dir.path(), &[]).await;
    let mut socket = TcpStream::connect(broker.addresses()[1]).await.expect("connects");
    socket.write_all(&16_385_i32.to_be_bytes()).await.expect("is sent");
    let mut answer = Vec::new();
    // The end, or a reset, and no byte.
    let _ = socket.read_to_end(&mut answer).await;
    assert!(answer.is_empty());
    broker.stop().await;
}

/// A frame, without its length.
async fn read_frame(socket: &mut TcpStream) -> Vec<u8> {
    let length = socket.read_u32().await.expect("there is an answer");
    let mut frame = vec![0; length as usize];
    socket.read_exact(&mut frame).await.expect("is whole");
    frame
}

async fn write_frame(socket: &mut TcpStream, frame: &[u8]) {
    let length = u32::try_from(frame.len()).expect("is short");
    socket.write_all(&[&length.to_be_bytes(), frame].concat()).await.expect("is sent");
}

/// As librdkafka and others did before brokers had SaslAuthenticate.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_travel_by_themselves_behind_an_old_handshake() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = start(dir.path(), &[]).await;
    let mut socket = TcpStream::connect(broker.addresses()[1]).await.expect("connects");
    // SaslHandshake version 0, correlation id 7, no client id.
    let name = b"SCRAM-SHA-256";
    let handshake = [&[0, 17, 0, 0, 0, 0, 0, 7, 255, 255, 0, 13][..], name].concat();
    write_frame(&mut socket, &handshake).await;
    let answer = read_frame(&mut socket).await;
    assert_eq!(answer[..6], [0, 0, 0, 7, 0, 0], "no error");

    let mechanism = SaslMechanism::Scram(ScramMechanism::Sha256);
    let (mut login, first) =
        logway_security::sasl::Login::new(mechanism, "alice", PASSWORD).expect("begins");
    write_frame(&mut socket, &first).await;
    let challenge = read_frame(&mut socket).await;
    let proof = login.step(&challenge).expect("is one").expect("there is more");
    write_frame(&mut socket, &proof).await;
    let last = read_frame(&mut socket).await;
    assert_eq!(login.step(&last), Ok(None));

    // Metadata version 0 of no topic, which is all.
    write_frame(&mut socket, &[0, 3, 0, 0, 0, 0, 0, 8, 255, 255, 0, 0, 0, 0]).await;
    assert_eq!(read_frame(&mut socket).await[..4], [0, 0, 0, 8]);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_unless_the_client_says_again_who_it_is() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = start(dir.path(), &[("connections.max.reauth.ms", "300")]).await;
    let address = broker.addresses()[1];
    add_user(&broker, "bob", PASSWORD).await;
    let handshake = SaslHandshakeRequest { mechanism: "PLAIN".into(), ..Default::default() };
    let token = |user: &str| SaslAuthenticateRequest {
        auth_bytes: Bytes::from(format!("\0{user}\0{PASSWORD}")),
        ..Default::default()
    };
    let faithful = connect_to(address, as_user(PLAIN, "alice", PASSWORD)).await.expect("is known");
    let silent = connect_to(address, as_user(PLAIN, "alice", PASSWORD)).await.expect("is known");
    let changed = connect_to(address, as_user(PLAIN, "alice", PASSWORD)).await.expect("is known");
    let until = Instant::now() + Duration::from_millis(900);
    while Instant::now() < until {
        assert_eq!(faithful.call(&handshake).await.expect("is answered").error_code, 0);
        let known = faithful.call(&token("alice")).await.expect("is answered");
        assert_eq!((known.error_code, known.session_lifetime_ms), (0, 300));
        faithful.call(&MetadataRequest::default()).await.expect("is answered");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    silent.call(&MetadataRequest::default()).await.expect_err("is over");
    assert_eq!(changed.call(&handshake).await.expect("is answered").error_code, 0);
    let refused = changed.call(&token("bob")).await.expect("is answered");
    assert_eq!(refused.error_code, ErrorCode::SaslAuthenticationFailed.code());
    broker.stop().await;
}

/// Numbers by a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn bytes(&mut self) -> Vec<u8> {
        (0..self.roll(40)).map(|_| self.roll(256) as u8).collect()
    }
}

/// A request of an API and version, with correlation id 7 and no client id.
fn request(api: u8, version: u8, body: &[u8]) -> Vec<u8> {
    [&[0, api, 0, version, 0, 0, 0, 7, 255, 255][..], body].concat()
}

/// The next frame, or `None` at the end.
async fn answer(socket: &mut TcpStream) -> Option<Vec<u8>> {
    let read = async {
        let length = socket.read_u32().await.ok()?;
        assert!(length < 1 << 16, "{length}");
        let mut frame = vec![0; length as usize];
        socket.read_exact(&mut frame).await.ok().map(|_| frame)
    };
    tokio::time::timeout(UNTIL_MAX, read).await.expect("it is answered or closed")
}

/// Whatever a stranger says in whatever order: it is answered or closed, nobody gets in, and others are served.
#[tokio::test(flavor = "multi_thread")]
async fn no_order_of_words_lets_a_stranger_in() {
    const METADATA: u8 = 3;
    let dir = tempfile::tempdir().expect("a directory");
    let settings = [("connection.failed.authentication.delay.ms", "0")];
    let broker = start(dir.path(), &settings).await;
    let address = broker.addresses()[1];
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut dice = Dice(seed);
    for session in 0..300 {
        let mut socket = TcpStream::connect(address).await.expect("connects");
        loop {
            let names: [&[u8]; 4] = [b"PLAIN", b"SCRAM-SHA-256", b"GSSAPI", b""];
            let name = names[dice.roll(4) as usize];
            let text = [&[0, name.len() as u8][..], name].concat();
            let token = match dice.roll(3) {
                0 => dice.bytes(),
                1 => b"\0alice\0wrong".to_vec(),
                _ => b"n,,n=alice,r=abc".to_vec(),
            };
            let sized = [&(token.len() as u32).to_be_bytes()[..], &token].concat();
            let (is_metadata, frame) = match dice.roll(7) {
                0 => (false, request(18, 0, &[])),
                1 => (false, request(17, 0, &text)),
                2 => (false, request(17, 1, &text)),
                3 => (false, request(36, 0, &sized)),
                4 => (true, request(METADATA, 0, &[0; 4])),
                5 => (false, token),
                _ => (false, dice.bytes()),
            };
            let length = u32::try_from(frame.len()).expect("is short");
            let sent = socket.write_all(&[&length.to_be_bytes(), &*frame].concat()).await;
            let told = answer(&mut socket).await;
            assert!(!is_metadata || told.is_none(), "seed {seed}, session {session}: {told:?}");
            if sent.is_err() || told.is_none() {
                break;
            }
        }
    }
    connect_to(address, as_user(PLAIN, "alice", PASSWORD)).await.expect("is let in");
    broker.stop().await;
}
