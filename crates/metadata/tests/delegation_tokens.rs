//! Delegation tokens: what the controller makes of commands, and what it refuses.

use logway_metadata::controller::{
    ChangedToken, Command, ControllerCommand, CreateDelegationToken, ExpireDelegationToken,
    RemoveExpiredTokens, RenewDelegationToken, TOKEN_NAMES_MAX_BYTES, TOKEN_RENEWERS_MAX,
    TOKENS_MAX, TOKENS_OF_OWNER_MAX,
};
use logway_metadata::credential::Bytes;
use logway_metadata::delegation_token::DelegationToken;
use logway_metadata::settings::BrokerSettings;
use logway_metadata::{ControllerError, MetadataImage, MetadataRecord};
use logway_model::{ErrorCode, TimestampMs};

const NOW_MS: i64 = 1_700_000_000_000;
const FEATURE: &str = "delegation_tokens";

struct Cluster {
    image: MetadataImage,
    broker: BrokerSettings,
}

impl Cluster {
    fn with(settings: &[(&str, &str)]) -> Cluster {
        let settings =
            settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let broker = BrokerSettings::new(settings).expect("are valid");
        Cluster { image: MetadataImage::default(), broker }
    }

    /// Tokens are renewed for 100 ms, and live 1,000 ms at most.
    fn new() -> Cluster {
        Cluster::with(&[
            ("delegation.token.secret.key", "secret"),
            ("delegation.token.expiry.time.ms", "100"),
            ("delegation.token.max.lifetime.ms", "1000"),
        ])
    }

    fn submit<C: Command>(&mut self, command: C) -> Result<C::Reply, ControllerError> {
        // As it travels between nodes.
        let text = serde_json::to_string(&command.into()).expect("is text");
        let command: ControllerCommand = serde_json::from_str(&text).expect("comes back");
        let decision = command.evaluate(&self.image, &self.broker)?;
        self.image = self.image.apply(&decision.records).expect("the records fit");
        Ok(C::Reply::try_from(decision.reply).unwrap_or_else(|_| panic!("of another kind")))
    }

    fn renew(
        &mut self,
        digest: u8,
        requester: &str,
        period_ms: i64,
        after_ms: i64,
    ) -> Result<i64, ErrorCode> {
        let renew = RenewDelegationToken {
            hmac_digest: Bytes(vec![digest]),
            requester: requester.to_owned(),
            period_ms,
            now_ms: at(after_ms),
        };
        since(self.submit(renew))
    }

    fn expire(
        &mut self,
        digest: u8,
        requester: &str,
        period_ms: i64,
        after_ms: i64,
    ) -> Result<i64, ErrorCode> {
        let expire = ExpireDelegationToken {
            hmac_digest: Bytes(vec![digest]),
            requester: requester.to_owned(),
            period_ms,
            now_ms: at(after_ms),
        };
        since(self.submit(expire))
    }

    fn token(&self) -> Option<&DelegationToken> {
        self.image.delegation_tokens().token("t").map(AsRef::as_ref)
    }
}

fn at(after_ms: i64) -> TimestampMs {
    TimestampMs(NOW_MS + after_ms)
}

/// When a token expires, in ms since it was made.
fn since(changed: Result<ChangedToken, ControllerError>) -> Result<i64, ErrorCode> {
    changed.map(|token| token.expires_ms.0 - NOW_MS).map_err(|error| error.code)
}

/// A token `t` with the digest 1, of alice, whom admin has asked for it; bob may renew it.
fn create() -> CreateDelegationToken {
    CreateDelegationToken {
        id: "t".to_owned(),
        hmac_digest: Bytes(vec![1]),
        owner: "alice".to_owned(),
        requester: "admin".to_owned(),
        renewers: vec!["bob".to_owned()],
        lifetime_max_ms: -1,
        now_ms: at(0),
    }
}

#[test]
fn the_first_token_turns_tokens_on_and_has_the_times_of_the_settings() {
    let mut cluster = Cluster::new();
    let decision = create().evaluate(&cluster.image, &cluster.broker).expect("is taken");
    let MetadataRecord::Feature(feature) = &decision.records[0] else { panic!("{decision:?}") };
    assert_eq!((&*feature.name, feature.level), (FEATURE, 1));
    let made = cluster.submit(create()).expect("is taken");
    assert_eq!((made.issued_ms, made.expires_ms, made.max_ms), (at(0), at(100), at(1_000)));
    assert_eq!(cluster.token(), Some(&made));
    assert!(cluster.image.has_feature(FEATURE));
    let second = CreateDelegationToken { id: "u".to_owned(), ..create() };
    let decision = second.evaluate(&cluster.image, &cluster.broker).expect("is taken");
    assert_eq!(decision.records.len(), 1, "it is on already");
}

#[test]
fn a_shorter_life_can_be_asked_for_and_no_longer_one() {
    for (asked_ms, expires_ms, max_ms) in
        [(-1, 100, 1_000), (0, 100, 1_000), (50, 50, 50), (500, 100, 500), (i64::MAX, 100, 1_000)]
    {
        let create = CreateDelegationToken { lifetime_max_ms: asked_ms, ..create() };
        let made = Cluster::new().submit(create).expect("is taken");
        assert_eq!((made.expires_ms, made.max_ms), (at(expires_ms), at(max_ms)), "{asked_ms}");
    }
    let max = i64::MAX.to_string();
    let mut cluster = Cluster::with(&[
        ("delegation.token.secret.key", "secret"),
        ("delegation.token.expiry.time.ms", &max),
        ("delegation.token.max.lifetime.ms", &max),
    ]);
    let made = cluster.submit(create()).expect("is taken");
    assert_eq!((made.expires_ms.0, made.max_ms.0), (i64::MAX, i64::MAX));
    assert_eq!(cluster.renew(1, "alice", -1, 5), Ok(i64::MAX - NOW_MS));
}

#[test]
fn its_owner_and_its_renewers_renew_a_token_and_nobody_else() {
    let mut cluster = Cluster::new();
    cluster.submit(create()).expect("is taken");
    assert_eq!(cluster.renew(1, "alice", -1, 50), Ok(150));
    assert_eq!(cluster.renew(1, "bob", 20, 60), Ok(80));
    assert_eq!(cluster.renew(1, "bob", 500, 70), Ok(170), "no longer than the settings say");
    for other in ["admin", "eve", ""] {
        let mismatch = Err(ErrorCode::DelegationTokenOwnerMismatch);
        assert_eq!(cluster.renew(1, other, -1, 80), mismatch, "{other}");
        assert_eq!(cluster.expire(1, other, -1, 80), mismatch, "{other}");
    }
    assert_eq!(cluster.renew(2, "alice", -1, 80), Err(ErrorCode::DelegationTokenNotFound));
    assert_eq!(cluster.expire(2, "alice", -1, 80), Err(ErrorCode::DelegationTokenNotFound));
}

#[test]
fn a_token_is_not_renewed_beyond_its_life() {
    let mut cluster = Cluster::new();
    let life = CreateDelegationToken { lifetime_max_ms: 120, ..create() };
    cluster.submit(life).expect("is taken");
    assert_eq!(cluster.renew(1, "alice", -1, 90), Ok(120));
    assert_eq!(cluster.renew(1, "alice", -1, 120), Ok(120), "at its last moment");
    assert_eq!(cluster.renew(1, "alice", -1, 121), Err(ErrorCode::DelegationTokenExpired));
    assert_eq!(cluster.renew(1, "eve", -1, 121), Err(ErrorCode::DelegationTokenExpired));
}

#[test]
fn a_token_is_ended_now_or_in_a_while() {
    let mut cluster = Cluster::new();
    cluster.submit(create()).expect("is taken");
    assert_eq!(cluster.expire(1, "bob", 500, 10), Ok(510), "as in Kafka, also later than before");
    assert_eq!(cluster.expire(1, "bob", i64::MAX, 10), Ok(1_000));
    assert_eq!(cluster.expire(1, "alice", 0, 20), Ok(20));
    assert_eq!(cluster.expire(1, "alice", 0, 21), Err(ErrorCode::DelegationTokenExpired));
    assert!(cluster.token().is_some_and(|token| token.has_expired(at(21))));
    assert_eq!(cluster.expire(1, "alice", -1, 30), Ok(30), "one that has expired is removed");
    assert_eq!(cluster.token(), None);
    assert_eq!(cluster.expire(1, "alice", -1, 30), Err(ErrorCode::DelegationTokenNotFound));
}

#[test]
fn expired_tokens_are_removed_and_others_stay() {
    let mut cluster = Cluster::new();
    cluster.submit(create()).expect("is taken");
    let id = "longer".to_owned();
    let hmac_digest = Bytes(vec![2]);
    cluster
        .submit(CreateDelegationToken { id, hmac_digest, now_ms: at(50), ..create() })
        .expect("is taken");
    cluster.submit(RemoveExpiredTokens { now_ms: at(100) }).expect("is taken");
    assert_eq!(cluster.image.delegation_tokens().count(), 2);
    cluster.submit(RemoveExpiredTokens { now_ms: at(101) }).expect("is taken");
    assert_eq!(cluster.token(), None);
    assert!(cluster.image.delegation_tokens().token("longer").is_some());
    assert_eq!(cluster.renew(1, "alice", -1, 101), Err(ErrorCode::DelegationTokenNotFound));
}

#[test]
fn without_a_secret_key_there_are_no_tokens() {
    for settings in [&[][..], &[("delegation.token.secret.key", "")]] {
        let mut cluster = Cluster::with(settings);
        let disabled = ErrorCode::DelegationTokenAuthDisabled;
        assert_eq!(cluster.submit(create()).expect_err("is off").code, disabled);
        assert_eq!(cluster.renew(1, "alice", -1, 0), Err(disabled));
        assert_eq!(cluster.expire(1, "alice", -1, 0), Err(disabled));
        assert!(!cluster.image.has_feature(FEATURE));
    }
}

#[test]
fn tokens_and_their_names_are_bounded() {
    let refused = |cluster: &mut Cluster, create| {
        cluster.submit::<CreateDelegationToken>(create).expect_err("is too much").code
    };
    let mut cluster = Cluster::new();
    let renewers = vec!["r".to_owned(); TOKEN_RENEWERS_MAX + 1];
    let many = CreateDelegationToken { renewers, ..create() };
    assert_eq!(refused(&mut cluster, many), ErrorCode::PolicyViolation);
    let long = CreateDelegationToken { owner: "o".repeat(TOKEN_NAMES_MAX_BYTES), ..create() };
    assert_eq!(refused(&mut cluster, long), ErrorCode::PolicyViolation);

    let mut made = 0_u32;
    let mut next = |owner: &str| {
        made += 1;
        let (id, hmac_digest) = (made.to_string(), Bytes(made.to_be_bytes().to_vec()));
        CreateDelegationToken { id, hmac_digest, owner: owner.to_owned(), ..create() }
    };
    for owner in 0..TOKENS_MAX / TOKENS_OF_OWNER_MAX {
        for _ in 0..TOKENS_OF_OWNER_MAX {
            cluster.submit(next(&owner.to_string())).expect("there is room");
        }
        assert_eq!(refused(&mut cluster, next(&owner.to_string())), ErrorCode::PolicyViolation);
    }
    assert_eq!(cluster.image.delegation_tokens().count(), TOKENS_MAX);
    assert_eq!(refused(&mut cluster, next("another")), ErrorCode::PolicyViolation);
    cluster.submit(RemoveExpiredTokens { now_ms: at(101) }).expect("one command removes all");
    assert_eq!(cluster.image.delegation_tokens().count(), 0);
}

#[test]
fn a_digest_is_not_printed() {
    let printed =
        format!("{:?}", CreateDelegationToken { hmac_digest: Bytes(vec![77; 32]), ..create() });
    assert!(printed.contains("32 bytes") && !printed.contains("77"), "{printed}");
}
