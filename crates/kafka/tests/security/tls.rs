//! TLS: records pass it whole, certificates are asked for and replaced, and each listener tells of itself.

use std::sync::Arc;
use std::time::Duration;

use logway_client::{Connection, Security};
use logway_wire::messages::MetadataRequest;
use rustls::ClientConfig;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::certificates::Authority;
use super::common::*;
use super::connect_to;

fn with(tls: Arc<ClientConfig>) -> Security {
    Security { tls: Some(tls), password: None }
}

/// The settings of a broker with a listener of each kind, and its own settings.
fn settings(key: &str, more: &[(&str, &str)]) -> Vec<(String, String)> {
    let fixed = [("listeners", "127.0.0.1:0,SSL://127.0.0.1:0"), ("ssl.keystore.location", key)];
    let all = fixed.iter().chain(more);
    all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// The values of a partition.
async fn fetch_all(connection: &Connection, topic: &str, count: usize) -> Vec<String> {
    let mut all = Vec::new();
    while all.len() < count {
        let offset = i64::try_from(all.len()).expect("is small");
        let data = fetch(connection, topic, 0, offset).await;
        let fetched = values(&data);
        assert!(!fetched.is_empty());
        all.extend(fetched.into_iter().map(|(_, value)| value));
    }
    all
}

async fn start(dir: &std::path::Path, settings: &[(String, String)]) -> TestBroker {
    let settings: Vec<(&str, &str)> = settings.iter().map(|(n, v)| (&**n, &**v)).collect();
    TestBroker::start_with(dir, &settings).await
}

#[tokio::test(flavor = "multi_thread")]
async fn records_pass_whole_and_each_listener_tells_of_itself() {
    let dir = tempfile::tempdir().expect("a directory");
    let authority = Authority::new(&dir.path().join("tls"));
    let key = authority.issue("broker");
    let data = dir.path().join("data");
    let broker = start(&data, &settings(key.to_str().expect("is text"), &[])).await;
    let [plain, tls] = broker.addresses()[..] else { panic!("two addresses") };
    let connection = connect_to(tls, with(authority.client(None))).await.expect("is let in");

    create_topic(&connection, "t", 1).await;
    // Several pieces of what is copied at a time, and not the same again and again.
    let value = |at: u32| format!("{at:08}").repeat(20_000);
    for at in 0..6 {
        let response = produce(&connection, "t", 0, batch(&[&value(at)])).await;
        assert_eq!(response.error_code, 0);
    }
    let fetched = fetch_all(&connection, "t", 6).await;
    let expected: Vec<String> = (0..6).map(value).collect();
    assert!(fetched == expected, "{} records", fetched.len());
    let plainly = connect_to(plain, Security::default()).await.expect("is let in");
    assert!(fetch_all(&plainly, "t", 6).await == expected);

    for (connection, port) in [(&connection, tls.port()), (&plainly, plain.port())] {
        let metadata = connection.call(&MetadataRequest::default()).await.expect("is answered");
        assert_eq!(metadata.brokers[0].port, i32::from(port));
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_speaks_no_tls_or_trusts_another_authority_is_not_served() {
    let dir = tempfile::tempdir().expect("a directory");
    let authority = Authority::new(&dir.path().join("tls"));
    let stranger = Authority::new(&dir.path().join("other"));
    let key = authority.issue("broker");
    let broker =
        start(&dir.path().join("data"), &settings(key.to_str().expect("is text"), &[])).await;
    let tls = broker.addresses()[1];
    connect_to(tls, Security::default()).await.expect_err("plain bytes are no handshake");
    let error = connect_to(tls, with(stranger.client(None))).await.expect_err("is not trusted");
    assert!(format!("{error}").contains("invalid peer certificate"), "{error}");
    // Half a handshake holds up nobody, and not the stop.
    let mut half = TcpStream::connect(tls).await.expect("connects");
    half.write_all(&[22, 3, 1, 2, 0]).await.expect("is sent");
    connect_to(tls, with(authority.client(None))).await.expect("is let in");
    let stopped = tokio::time::timeout(Duration::from_secs(5), broker.stop()).await;
    stopped.expect("waits for no handshake");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_show_certificates_where_they_have_to() {
    let dir = tempfile::tempdir().expect("a directory");
    let authority = Authority::new(&dir.path().join("tls"));
    let stranger = Authority::new(&dir.path().join("other"));
    let (key, authorities) = (authority.issue("broker"), authority.file());
    let (key, authorities) = (key.to_str().expect("is text"), authorities.to_str());
    let authorities = authorities.expect("is text");
    for (asks, without) in [("required", false), ("requested", true)] {
        let more = [("ssl.client.auth", asks), ("ssl.truststore.location", authorities)];
        let data = dir.path().join(asks);
        let broker = start(&data, &settings(key, &more)).await;
        let tls = broker.addresses()[1];
        let connect = async |identity| {
            let client = with(authority.client(identity));
            connect_to(tls, client).await.is_ok()
        };
        assert!(connect(Some(authority.issue("alice"))).await, "{asks}");
        assert!(!connect(Some(stranger.issue("mallory"))).await, "{asks}");
        assert_eq!(connect(None).await, without, "{asks}");
        broker.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_certificate_is_for_new_connections_and_open_ones_go_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let (old, new) =
        (Authority::new(&dir.path().join("old")), Authority::new(&dir.path().join("new")));
    let key = old.issue("broker");
    let broker =
        start(&dir.path().join("data"), &settings(key.to_str().expect("is text"), &[])).await;
    let tls = broker.addresses()[1];
    let open = connect_to(tls, with(old.client(None))).await.expect("is let in");
    connect_to(tls, with(new.client(None))).await.expect_err("is not in force yet");

    std::fs::rename(new.issue("broker"), &key).expect("is replaced");
    let in_force = async {
        while connect_to(tls, with(new.client(None))).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), in_force).await.expect("comes into force");
    connect_to(tls, with(old.client(None))).await.expect_err("is in force no more");
    open.call(&MetadataRequest::default()).await.expect("goes on");
    broker.stop().await;
}
