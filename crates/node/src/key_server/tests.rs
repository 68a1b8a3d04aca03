use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use super::*;

const UNTIL_MAX: Duration = Duration::from_secs(30);
const NO_KEY: Result<(), &str> = Err("no key of the authority fits");

/// Names the key `second`, and is signed by nobody.
const TOKEN: &str = "eyJhbGciOiJFUzI1NiIsImtpZCI6InNlY29uZCJ9.e30.AAAA";

/// The key of RFC 7517, appendix A.1, under a name.
fn key_set(id: &str) -> String {
    format!(
        r#"{{"keys":[{{"kty":"EC","crv":"P-256","kid":"{id}","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}}]}}"#
    )
}

/// A server with a certificate of its own, and what it says.
struct Signer {
    port: u16,
    certificate: PathBuf,
    said: Mutex<(u16, String)>,
    asked: AtomicUsize,
}

impl Signer {
    async fn start(dir: &Path) -> Arc<Signer> {
        let names = vec!["localhost".to_owned()];
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(names).expect("is made");
        let certificate = dir.join("signer.pem");
        fs::write(&certificate, cert.pem()).expect("is written");
        let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().expect("are known");
        let config = config.with_no_client_auth().with_single_cert(vec![cert.der().clone()], key);
        let acceptor = TlsAcceptor::from(Arc::new(config.expect("fits")));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("listens");
        let port = listener.local_addr().expect("has one").port();
        let said = Mutex::new((200, key_set("first")));
        let signer = Arc::new(Signer { port, certificate, said, asked: AtomicUsize::new(0) });
        let answering = Arc::clone(&signer);
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.expect("accepts");
                // Who does not trust it ends the handshake.
                let Ok(mut session) = acceptor.accept(socket).await else { continue };
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    request.push(session.read_u8().await.expect("is a request"));
                }
                assert!(request.starts_with(b"GET /keys?x=1 HTTP/1.1\r\n"), "{request:?}");
                answering.asked.fetch_add(1, Ordering::Relaxed);
                let (status, body) = answering.said.lock().expect("nobody panicked").clone();
                let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n", body.len());
                // Who has read too much of it ends the connection.
                let _ = session.write_all(format!("{head}{body}").as_bytes()).await;
                let _ = session.shutdown().await;
            }
        });
        signer
    }

    fn say(&self, status: u16, body: String) {
        *self.said.lock().expect("nobody panicked") = (status, body);
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    fn settings(&self, refresh: Duration) -> BearerSettings {
        let server = KeyServer {
            has_tls: true,
            host: "localhost".to_owned(),
            port: self.port,
            target: "/keys?x=1".to_owned(),
            refresh,
            retry_min: Duration::from_millis(10),
            retry_max: Duration::from_millis(50),
            truststore: vec![self.certificate.clone()],
        };
        BearerSettings {
            key_set: KeySource::Server(server),
            audiences: Vec::new(),
            issuer: None,
            user_claim: "sub".to_owned(),
            scope_claim: "scope".to_owned(),
            clock_skew: Duration::ZERO,
        }
    }
}

fn server(settings: &mut BearerSettings) -> &mut KeyServer {
    match &mut settings.key_set {
        KeySource::Server(server) => server,
        KeySource::File(_) => unreachable!("it is a server"),
    }
}

/// What becomes of the token; that it is not signed is found when its key is there.
fn judge(tokens: &BearerTokens) -> Result<(), &'static str> {
    tokens.judge(TOKEN).map(|_| ())
}

async fn until(condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(UNTIL_MAX, waiting).await.expect("comes about");
}

#[tokio::test]
async fn keys_come_from_a_server_that_is_trusted_and_the_error_says_what_is_wrong() {
    let dir = tempfile::tempdir().expect("a directory");
    let signer = Signer::start(dir.path()).await;
    let mut settings = signer.settings(Duration::from_secs(3600));
    let url = format!("https://localhost:{}/keys?x=1", signer.port);
    assert_eq!(judge(&load(&settings).await.expect("is loaded")), NO_KEY);
    signer.say(200, key_set("second"));
    assert_ne!(judge(&load(&settings).await.expect("is loaded")), NO_KEY);

    for (status, body, expected) in [
        (404, key_set("first"), format!("{url} answers with status 404 Not Found")),
        (302, String::new(), format!("{url} answers with status 302 Found")),
        (200, "x".repeat(KEY_SET_BYTES_MAX + 1), format!("{url} gives more than 1048576 bytes")),
        (200, "{}".to_owned(), format!("{url} is no JSON Web Key Set: missing field `keys`")),
    ] {
        signer.say(status, body);
        let error = load(&settings).await.expect_err("has no keys").to_string();
        assert!(error.starts_with(&expected), "{error}");
    }
    let asked = signer.asked();
    server(&mut settings).truststore.clear();
    let error = load(&settings).await.expect_err("is not trusted").to_string();
    assert!(error.starts_with(&format!("cannot reach {url}: invalid peer certificate")), "{error}");
    assert_eq!(signer.asked(), asked);
}

#[tokio::test]
async fn new_keys_are_in_force_and_those_before_stay_while_a_server_fails() {
    let dir = tempfile::tempdir().expect("a directory");
    let signer = Signer::start(dir.path()).await;
    let settings = signer.settings(Duration::from_millis(20));
    let tokens = Arc::new(load(&settings).await.expect("is loaded"));
    let (stop, stopping) = watch::channel(false);
    let followed = Arc::clone(&tokens);
    let following = tokio::spawn(async move {
        let server = followed.server().expect("has one");
        follow("L", &followed, server, ASKED_EVERY, stopping).await;
    });
    signer.say(200, key_set("second"));
    until(|| judge(&tokens) != NO_KEY).await;
    for (status, body) in [(500, String::new()), (200, "nonsense".to_owned())] {
        signer.say(status, body);
        let asked = signer.asked();
        until(|| signer.asked() > asked + 2).await;
        assert_ne!(judge(&tokens), NO_KEY);
    }
    signer.say(200, key_set("first"));
    until(|| judge(&tokens) == NO_KEY).await;
    stop.send(true).expect("is listened to");
    following.await.expect("ends");
}

#[tokio::test]
async fn a_token_of_an_unknown_key_has_the_server_asked_now_and_then() {
    let dir = tempfile::tempdir().expect("a directory");
    let signer = Signer::start(dir.path()).await;
    let settings = signer.settings(Duration::from_secs(3600));
    let tokens = Arc::new(load(&settings).await.expect("is loaded"));
    let (_stop, stopping) = watch::channel(false);
    let followed = Arc::clone(&tokens);
    let asked_every = Duration::from_secs(2);
    let began = Instant::now();
    tokio::spawn(async move {
        let server = followed.server().expect("has one");
        follow("L", &followed, server, asked_every, stopping).await;
    });
    // Each look at the token asks for it.
    until(|| judge(&tokens) == NO_KEY && signer.asked() == 3).await;
    assert!(began.elapsed() >= 2 * asked_every, "{:?}", began.elapsed());
    signer.say(200, key_set("second"));
    until(|| judge(&tokens) != NO_KEY).await;
    assert_eq!(signer.asked(), 4);
}
