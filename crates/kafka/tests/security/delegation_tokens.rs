//! Delegation tokens: who gets them, who they let in and for how long, on one node and on all.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use logway_client::{ClientError, Connection, Password, Security};
use logway_metadata::acl::{Acl, AclOperation, PatternType, Permission, ResourceType};
use logway_metadata::controller::CreateAcls;
use logway_metadata::sasl::{SaslMechanism, ScramMechanism};
use logway_model::ErrorCode;
use logway_security::sasl::Login;
use logway_wire::messages::create_delegation_token_request::CreatableRenewers;
use logway_wire::messages::describe_delegation_token_request::DescribeDelegationTokenOwner;
use logway_wire::messages::{
    CreateDelegationTokenRequest, CreateDelegationTokenResponse, DescribeAclsRequest,
    DescribeDelegationTokenRequest, DescribeDelegationTokenResponse, ExpireDelegationTokenRequest,
    MetadataRequest, RenewDelegationTokenRequest, SaslAuthenticateRequest,
    SaslAuthenticateResponse, SaslHandshakeRequest,
};
use logway_wire::{Request, WireString};

use super::common::cluster::{TestNode, until};
use super::common::*;
use super::{PASSWORD, add_user, connect_to, password};

const KEY: &str = "delegation.token.secret.key";
const OK: i16 = 0;
const NOT_ALLOWED: i16 = ErrorCode::DelegationTokenRequestNotAllowed as i16;
const NOT_FOUND: i16 = ErrorCode::DelegationTokenNotFound as i16;
const MISMATCH: i16 = ErrorCode::DelegationTokenOwnerMismatch as i16;
const DISABLED: i16 = ErrorCode::DelegationTokenAuthDisabled as i16;
const EXPIRED: i16 = ErrorCode::DelegationTokenExpired as i16;
const SHA_256: SaslMechanism = SaslMechanism::Scram(ScramMechanism::Sha256);

const LISTENERS: (&str, &str) = ("listeners", "127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0");

/// A broker with an open listener and one that asks, and these users.
async fn start(dir: &Path, users: &[&str], more: &[(&str, &str)]) -> TestBroker {
    let fixed = [LISTENERS, (KEY, "secret"), ("connection.failed.authentication.delay.ms", "0")];
    let settings: Vec<(&str, &str)> = fixed.iter().chain(more).copied().collect();
    let broker = TestBroker::start_with(dir, &settings).await;
    for user in users {
        add_user(&broker, user, PASSWORD).await;
    }
    broker
}

fn guarded(broker: &TestBroker) -> SocketAddr {
    broker.addresses()[1]
}

async fn connect_as(address: SocketAddr, user: &str) -> Connection {
    let password = Some(password(SHA_256, user, PASSWORD));
    connect_to(address, Security { tls: None, password }).await.expect("is let in")
}

async fn log_in(
    address: SocketAddr,
    mechanism: SaslMechanism,
    id: &str,
    hmac: &[u8],
) -> Result<Connection, ClientError> {
    let (user, password) = (id.to_owned(), STANDARD.encode(hmac));
    let password = Password { mechanism, user, password, is_delegation_token: true };
    connect_to(address, Security { tls: None, password: Some(password) }).await
}

/// Logs in with a token that was made.
async fn log_in_by(
    address: SocketAddr,
    token: &CreateDelegationTokenResponse,
) -> Result<Connection, ClientError> {
    log_in(address, SHA_256, &token.token_id, &token.hmac).await
}

/// A token for oneself, which `rita` may renew.
fn own() -> CreateDelegationTokenRequest {
    let renewer = CreatableRenewers {
        principal_type: "User".into(),
        principal_name: "rita".into(),
        ..Default::default()
    };
    CreateDelegationTokenRequest {
        renewers: vec![renewer],
        max_lifetime_ms: -1,
        ..Default::default()
    }
}

fn of(owner: &str) -> CreateDelegationTokenRequest {
    CreateDelegationTokenRequest {
        owner_principal_type: Some("User".into()),
        owner_principal_name: Some(WireString::copy_of(owner)),
        ..own()
    }
}

async fn create(
    connection: &Connection,
    request: &CreateDelegationTokenRequest,
) -> CreateDelegationTokenResponse {
    connection.call(request).await.expect("is answered")
}

/// The code, and when the token expires.
async fn renew(connection: &Connection, hmac: &[u8], period_ms: i64) -> (i16, i64) {
    let hmac = hmac.to_vec().into();
    let request =
        RenewDelegationTokenRequest { hmac, renew_period_ms: period_ms, ..Default::default() };
    let renewed = connection.call(&request).await.expect("is answered");
    (renewed.error_code, renewed.expiry_timestamp_ms)
}

async fn expire(connection: &Connection, hmac: &[u8], period_ms: i64) -> (i16, i64) {
    let hmac = hmac.to_vec().into();
    let request = ExpireDelegationTokenRequest {
        hmac,
        expiry_time_period_ms: period_ms,
        ..Default::default()
    };
    let ended = connection.call(&request).await.expect("is answered");
    (ended.error_code, ended.expiry_timestamp_ms)
}

async fn describe(
    connection: &Connection,
    owners: Option<&[(&'static str, &'static str)]>,
) -> DescribeDelegationTokenResponse {
    let owner = |(kind, name): &(&'static str, &'static str)| DescribeDelegationTokenOwner {
        principal_type: (*kind).into(),
        principal_name: (*name).into(),
        ..Default::default()
    };
    let owners = owners.map(|owners| owners.iter().map(owner).collect());
    let request = DescribeDelegationTokenRequest { owners, ..Default::default() };
    connection.call(&request).await.expect("is answered")
}

/// The ids of the tokens that somebody sees.
async fn seen(
    connection: &Connection,
    owners: Option<&[(&'static str, &'static str)]>,
) -> Vec<String> {
    let described = describe(connection, owners).await;
    assert_eq!(described.error_code, OK);
    described.tokens.iter().map(|token| token.token_id.to_string()).collect()
}

fn refused(outcome: Result<Connection, ClientError>) -> String {
    let error = outcome.map(|_| ()).expect_err("is not let in").to_string();
    // Kafka's words, which are the same whatever was wrong.
    assert!(error.contains("invalid credentials"), "{error}");
    error
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_lets_programs_in_as_its_owner_until_it_is_ended() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = start(dir.path(), &["alice", "rita", "eve"], &[]).await;
    let address = guarded(&broker);
    let alice = connect_as(address, "alice").await;
    let token = create(&alice, &own()).await;
    assert_eq!(token.error_code, OK);
    assert_eq!((&*token.principal_type, &*token.principal_name), ("User", "alice"));
    assert_eq!(&*token.token_requester_principal_name, "alice");
    assert_eq!((token.hmac.len(), token.token_id.len()), (64, 22));
    assert_eq!(token.expiry_timestamp_ms - token.issue_timestamp_ms, 86_400_000);
    assert_eq!(token.max_timestamp_ms - token.issue_timestamp_ms, 604_800_000);

    for mechanism in ScramMechanism::ALL.map(SaslMechanism::Scram) {
        let program = log_in(address, mechanism, &token.token_id, &token.hmac).await;
        let program = program.expect("is let in");
        program.call(&MetadataRequest::default()).await.expect("is answered");
        // Who has a token must not make more of it.
        let more = create(&program, &own()).await;
        assert_eq!((more.error_code, more.issue_timestamp_ms), (NOT_ALLOWED, -1));
        assert_eq!(&*more.principal_name, "alice");
        assert_eq!(renew(&program, &token.hmac, -1).await, (NOT_ALLOWED, -1));
        assert_eq!(expire(&program, &token.hmac, -1).await, (NOT_ALLOWED, -1));
        assert_eq!(describe(&program, None).await.error_code, NOT_ALLOWED);
        for (id, hmac) in [
            (&*token.token_id, &b"wrong"[..]),
            (&*token.token_id, &b""[..]),
            ("another", &token.hmac[..]),
            ("alice", PASSWORD.as_bytes()),
        ] {
            refused(log_in(address, mechanism, id, hmac).await);
        }
        // The HMAC is no password.
        let word = Some(password(mechanism, &token.token_id, &STANDARD.encode(&token.hmac)));
        refused(connect_to(address, Security { tls: None, password: word }).await);
    }

    let (rita, eve) = (connect_as(address, "rita").await, connect_as(address, "eve").await);
    let (code, expires) = renew(&rita, &token.hmac, 1_000_000).await;
    assert!(code == OK && expires < token.expiry_timestamp_ms, "{code}");
    assert_eq!(renew(&eve, &token.hmac, -1).await, (MISMATCH, 0));
    assert_eq!(expire(&eve, &token.hmac, -1).await, (MISMATCH, 0));
    assert_eq!(renew(&eve, b"x", -1).await, (NOT_FOUND, 0));
    assert_eq!(expire(&alice, &token.hmac, -1).await.0, OK);
    assert_eq!(expire(&alice, &token.hmac, -1).await, (NOT_FOUND, 0));
    refused(log_in_by(address, &token).await);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_not_said_who_it_is_gets_no_tokens() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = start(dir.path(), &[], &[]).await;
    let stranger = broker.connect().await;
    let token = create(&stranger, &of("alice")).await;
    assert_eq!((token.error_code, token.max_timestamp_ms), (NOT_ALLOWED, -1));
    assert_eq!((&*token.principal_name, token.hmac.len()), ("alice", 0));
    assert_eq!(renew(&stranger, b"x", -1).await, (NOT_ALLOWED, -1));
    assert_eq!(expire(&stranger, b"x", -1).await, (NOT_ALLOWED, -1));
    assert_eq!(describe(&stranger, None).await.error_code, NOT_ALLOWED);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_key_there_are_no_tokens() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = start(dir.path(), &["alice"], &[(KEY, "")]).await;
    let alice = connect_as(guarded(&broker), "alice").await;
    let token = create(&alice, &own()).await;
    assert_eq!((token.error_code, token.issue_timestamp_ms), (DISABLED, 0));
    assert_eq!(renew(&alice, b"x", -1).await, (DISABLED, 0));
    assert_eq!(expire(&alice, b"x", -1).await, (DISABLED, 0));
    assert_eq!(describe(&alice, None).await.error_code, DISABLED);
    refused(log_in(guarded(&broker), SHA_256, "t", b"x").await);
    broker.stop().await;
}

async fn allow(
    broker: &TestBroker,
    user: &str,
    operation: AclOperation,
    what: (ResourceType, &str),
) {
    let acl = Acl {
        resource_type: what.0,
        pattern: PatternType::Literal,
        name: what.1.to_owned(),
        principal: format!("User:{user}"),
        host: "*".to_owned(),
        operation,
        permission: Permission::Allow,
    };
    let created = broker.node().submit(CreateAcls { acls: vec![acl] }, None, None).await;
    assert_eq!(created.expect("is committed"), [Ok(())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn acls_say_for_whom_tokens_are_made_and_who_sees_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = [
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
        ("super.users", "User:bob"),
    ];
    let broker = start(dir.path(), &["alice", "bob", "rita", "eve"], &settings).await;
    let address = guarded(&broker);
    let (alice, bob) = (connect_as(address, "alice").await, connect_as(address, "bob").await);
    let (rita, eve) = (connect_as(address, "rita").await, connect_as(address, "eve").await);

    // For another user it takes a permission, which a super user has.
    let denied = ErrorCode::DelegationTokenAuthorizationFailed.code();
    let token = create(&alice, &of("bob")).await;
    assert_eq!((token.error_code, token.issue_timestamp_ms, &*token.token_id), (denied, -1, ""));
    allow(&broker, "alice", AclOperation::CreateTokens, (ResourceType::User, "User:bob")).await;
    let of_bob = create(&alice, &of("bob")).await;
    assert_eq!((of_bob.error_code, &*of_bob.principal_name), (OK, "bob"));
    assert_eq!(&*of_bob.token_requester_principal_name, "alice");
    let of_alice = create(&bob, &of("alice")).await;
    assert_eq!(of_alice.error_code, OK);
    assert_eq!(create(&eve, &own()).await.error_code, OK, "for oneself it takes none");

    // A program is the owner, not who asked: bob may describe the cluster, and alice may not.
    let acls = DescribeAclsRequest {
        resource_type_filter: 1,
        pattern_type_filter: 1,
        operation: 1,
        permission_type: 1,
        resource_name_filter: None,
        principal_filter: None,
        host_filter: None,
        ..Default::default()
    };
    let cluster = ErrorCode::ClusterAuthorizationFailed.code();
    for (token, code) in [(&of_bob, OK), (&of_alice, cluster)] {
        let program = log_in_by(address, token).await.expect("is let in");
        assert_eq!(program.call(&acls).await.expect("is answered").error_code, code);
    }

    // Who asked sees it and does not change it.
    let id = of_bob.token_id.to_string();
    assert!(seen(&alice, None).await.contains(&id));
    assert_eq!(renew(&alice, &of_bob.hmac, -1).await, (MISMATCH, 0));
    assert_eq!(seen(&bob, None).await.len(), 3, "a super user sees all");
    assert_eq!(seen(&bob, Some(&[("User", "eve")])).await.len(), 1);
    assert_eq!(seen(&bob, Some(&[("User", "rita")])).await.len(), 3, "as their renewer");
    assert_eq!(seen(&bob, Some(&[("Group", "rita")])).await.len(), 0);
    assert_eq!(seen(&bob, Some(&[])).await.len(), 0);
    assert_eq!(seen(&rita, None).await.len(), 3);

    // Others see what they are allowed to: a token by its id, or those of a user.
    assert_eq!(seen(&eve, None).await.len(), 1);
    allow(&broker, "eve", AclOperation::Describe, (ResourceType::DelegationToken, &id)).await;
    assert_eq!(seen(&eve, None).await.len(), 2);
    assert_eq!(seen(&eve, Some(&[("User", "bob")])).await, [&*id]);
    allow(&broker, "eve", AclOperation::DescribeTokens, (ResourceType::User, "User:alice")).await;
    assert_eq!(seen(&eve, None).await.len(), 3);

    // Owners and renewers are users.
    let kind = ErrorCode::InvalidPrincipalType.code();
    let group = Some(WireString::from("Group"));
    let of_group = CreateDelegationTokenRequest { owner_principal_type: group, ..of("bob") };
    let token = create(&bob, &of_group).await;
    assert_eq!((token.error_code, token.issue_timestamp_ms), (kind, -1));
    assert_eq!(create(&alice, &of_group).await.error_code, denied);
    let mut by_group = own();
    by_group.renewers[0].principal_type = "Group".into();
    assert_eq!(create(&alice, &by_group).await.error_code, kind);
    broker.stop().await;
}

async fn at_version<R: Request>(connection: &Connection, request: &R, version: i16) -> R::Response {
    let pending = connection.send(request, version).await.expect("is sent");
    pending.response().await.expect("is answered")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_would_take_too_much_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = start(dir.path(), &["alice"], &[]).await;
    let alice = connect_as(guarded(&broker), "alice").await;
    let violation = ErrorCode::PolicyViolation.code();
    let renewers = vec![own().renewers.remove(0); 65];
    let many = CreateDelegationTokenRequest { renewers, ..own() };
    assert_eq!(create(&alice, &many).await.error_code, violation);
    assert_eq!(create(&alice, &of(&"x".repeat(5_000))).await.error_code, violation);
    let long = b"x".repeat(100_000);
    assert_eq!(renew(&alice, &long, i64::MIN).await, (NOT_FOUND, 0));
    assert_eq!(expire(&alice, &long, i64::MAX).await, (NOT_FOUND, 0));
    for lifetime in [i64::MIN, i64::MAX] {
        let request = CreateDelegationTokenRequest { max_lifetime_ms: lifetime, ..own() };
        let token = create(&alice, &request).await;
        assert_eq!(token.error_code, OK);
        assert_eq!(renew(&alice, &token.hmac, lifetime).await.0, OK);
        assert_eq!(expire(&alice, &token.hmac, lifetime).await.0, OK);
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_without_requesters_are_answered_without() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = start(dir.path(), &["alice"], &[]).await;
    let alice = connect_as(guarded(&broker), "alice").await;
    for version in 1..=3_i16 {
        // The older versions have no place for an owner.
        let request = CreateDelegationTokenRequest { max_lifetime_ms: 60_000, ..own() };
        let made = at_version(&alice, &request, version).await;
        assert_eq!((made.error_code, &*made.principal_name), (OK, "alice"), "{version}");
        let all = DescribeDelegationTokenRequest { owners: None, ..Default::default() };
        let described = at_version(&alice, &all, version).await;
        assert_eq!(described.tokens.len(), usize::try_from(version).expect("is small"));
        let requester = if version < 3 { "" } else { "alice" };
        for token in described.tokens {
            assert_eq!(&*token.token_requester_principal_name, requester, "{version}");
            assert_eq!(&*token.renewers[0].principal_name, "rita");
        }
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_whose_time_is_over_is_refused_and_then_removed() {
    let dir = tempfile::tempdir().expect("a directory");
    let often = [("delegation.token.expiry.check.interval.ms", "20")];
    let broker = start(dir.path(), &["alice"], &[]).await;
    let alice = connect_as(guarded(&broker), "alice").await;
    let short = CreateDelegationTokenRequest { max_lifetime_ms: 1, ..own() };
    let token = create(&alice, &short).await;
    assert_eq!(token.expiry_timestamp_ms - token.issue_timestamp_ms, 1);
    let mut renewed = renew(&alice, &token.hmac, -1).await;
    while renewed.0 == OK {
        renewed = renew(&alice, &token.hmac, -1).await;
    }
    assert_eq!(renewed, (EXPIRED, 0));
    assert_eq!(expire(&alice, &token.hmac, 0).await, (EXPIRED, 0));
    refused(log_in_by(guarded(&broker), &token).await);
    let long = create(&alice, &own()).await;
    broker.stop().await;

    let broker = start(dir.path(), &[], &often).await;
    let is_gone = || broker.node().image().delegation_tokens().count() == 1;
    until("the token is removed", is_gone).await;
    let alice = connect_as(guarded(&broker), "alice").await;
    assert_eq!(renew(&alice, &token.hmac, -1).await, (NOT_FOUND, 0));
    log_in_by(guarded(&broker), &long).await.expect("is let in after a restart");
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_another_key_the_tokens_before_are_good_for_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = start(dir.path(), &["alice"], &[]).await;
    let alice = connect_as(guarded(&broker), "alice").await;
    let token = create(&alice, &own()).await;
    broker.stop().await;
    let broker = start(dir.path(), &[], &[(KEY, "another")]).await;
    let alice = connect_as(guarded(&broker), "alice").await;
    refused(log_in_by(guarded(&broker), &token).await);
    assert_eq!(seen(&alice, None).await.len(), 0);
    assert_eq!(renew(&alice, &token.hmac, -1).await, (NOT_FOUND, 0));
    assert_eq!(expire(&alice, &token.hmac, -1).await, (NOT_FOUND, 0));
    broker.stop().await;
}

/// Says on a connection who the client is; gives the last answer.
async fn say(connection: &Connection, login: (Login, Vec<u8>)) -> SaslAuthenticateResponse {
    let (mut login, mut token) = login;
    let mechanism = WireString::from_static(login.mechanism().name());
    let handshake = SaslHandshakeRequest { mechanism, ..Default::default() };
    assert_eq!(connection.call(&handshake).await.expect("is answered").error_code, OK);
    loop {
        let request = SaslAuthenticateRequest { auth_bytes: token.into(), ..Default::default() };
        let answer = connection.call(&request).await.expect("is answered");
        assert_eq!(answer.error_code, OK, "{:?}", answer.error_message);
        match login.step(&answer.auth_bytes).expect("is an answer") {
            Some(next) => token = next,
            None => return answer,
        }
    }
}

fn by_token(token: &CreateDelegationTokenResponse) -> (Login, Vec<u8>) {
    let hmac = STANDARD.encode(&token.hmac);
    Login::by_token(ScramMechanism::Sha256, &token.token_id, &hmac).expect("begins")
}

fn by_password(user: &str) -> (Login, Vec<u8>) {
    Login::new(SHA_256, user, PASSWORD).expect("begins")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_with_its_token_or_before() {
    for (reauth_ms, max_ms) in [("0", 3_000), ("1000", 1_000), ("100000", 3_000)] {
        let dir = tempfile::tempdir().expect("a directory");
        let more = [("connections.max.reauth.ms", reauth_ms)];
        let broker = start(dir.path(), &["alice"], &more).await;
        let address = guarded(&broker);
        let alice = connect_as(address, "alice").await;
        let short = CreateDelegationTokenRequest { max_lifetime_ms: 3_000, ..own() };
        let token = create(&alice, &short).await;
        let program = connect_to(address, Security::default()).await.expect("connects");
        let lifetime_ms = say(&program, by_token(&token)).await.session_lifetime_ms;
        assert!((1..=max_ms).contains(&lifetime_ms), "{reauth_ms}: {lifetime_ms}");
        let over = async {
            while program.call(&MetadataRequest::default()).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(UNTIL_MAX, over).await.expect("it ends");
        broker.stop().await;
    }
}

/// What somebody may do goes by how it has said last who it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_can_go_from_a_password_to_a_token_of_the_same_user_and_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = start(dir.path(), &["alice", "bob"], &[]).await;
    let address = guarded(&broker);
    let alice = connect_as(address, "alice").await;
    let (token, other) = (create(&alice, &own()).await, create(&alice, &of("bob")).await);
    assert_eq!((token.error_code, other.error_code), (OK, OK));
    say(&alice, by_token(&token)).await;
    assert_eq!(describe(&alice, None).await.error_code, NOT_ALLOWED);
    say(&alice, by_password("alice")).await;
    assert_eq!(describe(&alice, None).await.error_code, OK);

    // Nor does a token make another user of it.
    let handshake =
        SaslHandshakeRequest { mechanism: "SCRAM-SHA-256".into(), ..Default::default() };
    assert_eq!(alice.call(&handshake).await.expect("is answered").error_code, OK);
    let (mut login, first) = by_token(&other);
    let ask = async |bytes: Vec<u8>| {
        let request = SaslAuthenticateRequest { auth_bytes: bytes.into(), ..Default::default() };
        alice.call(&request).await.expect("is answered")
    };
    let challenge = ask(first).await.auth_bytes;
    let proof = login.step(&challenge).expect("is one").expect("there is more");
    assert_eq!(ask(proof).await.error_code, ErrorCode::SaslAuthenticationFailed.code());
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_of_a_cluster_knows_the_tokens_and_changes_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = [
        ("listeners", "SASL_PLAINTEXT://127.0.0.1:0"),
        (KEY, "secret"),
        ("connection.failed.authentication.delay.ms", "0"),
    ];
    let mut nodes: Vec<TestNode> = Vec::new();
    for name in ["1", "2", "3"] {
        let join: Vec<&str> = nodes.iter().map(|node| node.address.as_str()).collect();
        let path = dir.path().join(name);
        let node = TestNode::try_start(&path, "127.0.0.1:0", &join, &settings).await;
        nodes.push(node.expect("starts"));
    }
    let brokers: Vec<&TestBroker> = nodes.iter().map(|node| &node.broker).collect();
    add_user(brokers[0], "alice", PASSWORD).await;
    let knows_alice = |broker: &TestBroker| broker.node().image().users().count() == 1;
    until("every node knows alice", || brokers.iter().all(|broker| knows_alice(broker))).await;

    for (asked, broker) in brokers.iter().enumerate() {
        let alice = connect_as(broker.address, "alice").await;
        let token = create(&alice, &own()).await;
        assert_eq!(token.error_code, OK, "{asked}");
        let count = |broker: &TestBroker| broker.node().image().delegation_tokens().count();
        until("every node knows it", || brokers.iter().all(|broker| count(broker) == 1)).await;
        for other in &brokers {
            log_in_by(other.address, &token).await.expect("is let in");
        }
        let other = connect_as(brokers[(asked + 1) % 3].address, "alice").await;
        assert_eq!(renew(&other, &token.hmac, 60_000).await.0, OK);
        assert_eq!(expire(&other, &token.hmac, -1).await.0, OK);
        until("every node has lost it", || brokers.iter().all(|broker| count(broker) == 0)).await;
        for other in &brokers {
            refused(log_in_by(other.address, &token).await);
        }
    }
    for node in nodes {
        node.broker.end_at_once().await;
    }
}
