//! Nodes that are known by their keys, and join tokens.

use logway_metadata::MetadataImage;
use logway_metadata::controller::{
    AdmitNodeKey, AlterConfigs, Command, ConfigOperation, ControllerError, FoundNodeKeys,
    IncrementalAlterConfigs, OperationKind, RemoveBroker, ResourceConfigs, ResourceOperations,
    join_tokens,
};
use logway_metadata::join_token::{Digest, JoinToken};
use logway_metadata::record::ConfigResource;
use logway_metadata::settings::BrokerSettings;
use logway_metadata::settings::broker::{JOIN_TOKENS_SETTING, NODE_AUTHORITY_SETTING};
use logway_model::{BrokerId, DirectoryId, ErrorCode, Uuid};

const FIRST: DirectoryId = DirectoryId(Uuid([1; 16]));
const SECOND: DirectoryId = DirectoryId(Uuid([2; 16]));
const THIRD: DirectoryId = DirectoryId(Uuid([3; 16]));
const KEY: Digest = Digest([11; 32]);
const OTHER_KEY: Digest = Digest([12; 32]);
const AUTHORITY: Digest = Digest([13; 32]);
const NOW_MS: i64 = 1_000_000;

fn submit<C: Command>(image: &mut MetadataImage, command: C) -> Result<C::Reply, ControllerError> {
    let decision = command.evaluate(image, &BrokerSettings::default())?;
    *image = image.apply(&decision.records).expect("its records fit");
    Ok(decision.reply)
}

fn founded() -> MetadataImage {
    let mut image = MetadataImage::default();
    let founded = FoundNodeKeys { directory: FIRST, key: KEY, authority: AUTHORITY };
    submit(&mut image, founded).expect("nobody is known");
    image
}

fn token(secret: u8, expires_ms: i64, uses: u32) -> JoinToken {
    JoinToken { secret: Digest([secret; 32]), expires_ms, uses }
}

/// As `logway cluster token` does it.
fn change(image: &mut MetadataImage, kind: OperationKind, token: JoinToken) {
    let operation = ConfigOperation {
        name: JOIN_TOKENS_SETTING.to_owned(),
        kind,
        value: Some(token.to_string()),
    };
    let resource = ConfigResource::BrokerDefault;
    let resources = vec![ResourceOperations { resource, operations: vec![operation] }];
    let done = submit(image, IncrementalAlterConfigs { resources, validate_only: false });
    assert_eq!(done.expect("is judged"), [Ok(())]);
}

fn admit(image: &mut MetadataImage, secret: u8, directory: DirectoryId) -> Result<(), ErrorCode> {
    let secret = Digest([secret; 32]);
    let command = AdmitNodeKey { secret, directory, key: OTHER_KEY, now_ms: NOW_MS };
    submit(image, command).map_err(|error| error.code)
}

#[test]
fn the_first_node_needs_nobody_and_is_the_only_one() {
    let mut image = founded();
    assert_eq!(image.node_keys().collect::<Vec<_>>(), [(FIRST, KEY)]);
    let overrides = image.overrides(&ConfigResource::BrokerDefault).expect("has some");
    assert_eq!(overrides[NODE_AUTHORITY_SETTING], AUTHORITY.to_string());
    let again = FoundNodeKeys { directory: FIRST, key: KEY, authority: AUTHORITY };
    submit(&mut image, again.clone()).expect("is known");
    let other = FoundNodeKeys { directory: SECOND, ..again };
    let refused = submit(&mut image, other).expect_err("is not the first");
    assert_eq!(refused.code, ErrorCode::ClusterAuthorizationFailed);
}

#[test]
fn no_client_changes_the_authority() {
    let mut image = founded();
    let operation = |kind, value: Option<&str>| ConfigOperation {
        name: NODE_AUTHORITY_SETTING.to_owned(),
        kind,
        value: value.map(str::to_owned),
    };
    for (kind, value) in [(OperationKind::Delete, None), (OperationKind::Set, Some("x"))] {
        let resource = ConfigResource::BrokerDefault;
        let resources =
            vec![ResourceOperations { resource, operations: vec![operation(kind, value)] }];
        let command = IncrementalAlterConfigs { resources, validate_only: false };
        submit(&mut image, command).expect("is judged");
    }
    let configs = vec![(JOIN_TOKENS_SETTING.to_owned(), Some(String::new()))];
    let resources = vec![ResourceConfigs { resource: ConfigResource::BrokerDefault, configs }];
    submit(&mut image, AlterConfigs { resources, validate_only: false }).expect("is judged");
    let overrides = image.overrides(&ConfigResource::BrokerDefault).expect("has some");
    assert_eq!(overrides[NODE_AUTHORITY_SETTING], AUTHORITY.to_string());
}

#[test]
fn a_token_admits_as_many_nodes_as_it_says() {
    let refused = Err(ErrorCode::ClusterAuthorizationFailed);
    assert_eq!(admit(&mut MetadataImage::default(), 5, SECOND), refused, "nodes have no keys");
    let mut image = founded();
    assert_eq!(admit(&mut image, 5, SECOND), refused, "there is no token");
    change(&mut image, OperationKind::Append, token(5, NOW_MS + 1, 2));
    change(&mut image, OperationKind::Append, token(6, NOW_MS, 2));
    assert_eq!(admit(&mut image, 6, SECOND), refused, "it has expired");
    assert_eq!(admit(&mut image, 5, FIRST), refused, "that directory has another key");
    assert_eq!(admit(&mut image, 5, SECOND), Ok(()));
    // What has expired goes with it.
    assert_eq!(join_tokens(&image), [token(5, NOW_MS + 1, 1)]);
    // The answer was lost: it counts once.
    assert_eq!(admit(&mut image, 5, SECOND), Ok(()));
    assert_eq!(join_tokens(&image).len(), 1);
    // Its directory and its key anybody can see.
    assert_eq!(admit(&mut image, 7, SECOND), refused, "with another secret");
    let late = AdmitNodeKey {
        secret: Digest([5; 32]),
        directory: SECOND,
        key: OTHER_KEY,
        now_ms: NOW_MS + 1,
    };
    assert!(submit(&mut image, late).is_err(), "the token has expired");
    let first =
        AdmitNodeKey { secret: Digest([7; 32]), directory: FIRST, key: KEY, now_ms: NOW_MS };
    assert!(submit(&mut image, first).is_err(), "nobody has admitted the first node");
    assert_eq!(admit(&mut image, 5, THIRD), Ok(()));
    assert_eq!(join_tokens(&image), []);
    assert_eq!(admit(&mut image, 5, DirectoryId(Uuid([4; 16]))), refused, "it is used up");
    assert_eq!(image.node_keys().count(), 3);
    let back = MetadataImage::default().apply(&image.to_records()).expect("fits");
    assert_eq!(back, image);
}

#[test]
fn a_revoked_token_admits_nobody_and_a_removed_node_is_not_known() {
    let mut image = founded();
    change(&mut image, OperationKind::Append, token(5, NOW_MS + 1, 2));
    change(&mut image, OperationKind::Subtract, token(5, NOW_MS + 1, 2));
    assert_eq!(admit(&mut image, 5, SECOND), Err(ErrorCode::ClusterAuthorizationFailed));
    change(&mut image, OperationKind::Append, token(6, NOW_MS + 1, 9));
    assert_eq!(admit(&mut image, 6, SECOND), Ok(()));
    let removal = RemoveBroker { id: BrokerId(2), directory: Some(SECOND), is_replaced: false };
    submit(&mut image, removal).expect("is known by its directory");
    assert_eq!(image.node_keys().collect::<Vec<_>>(), [(FIRST, KEY)]);
    assert_eq!(join_tokens(&image), [], "a token may name the removed node as one to ask");
    change(&mut image, OperationKind::Append, token(6, NOW_MS + 1, 9));
    assert_eq!(admit(&mut image, 6, SECOND), Err(ErrorCode::BrokerIdNotRegistered));
}
