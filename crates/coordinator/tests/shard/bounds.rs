//! What a client can make the coordinator keep has bounds.

use bytes::Bytes;
use logway_coordinator::{GroupSettings, Reply, RequestBody};
use logway_model::ErrorCode;
use logway_wire::messages::sync_group_request::SyncGroupRequestAssignment;
use logway_wire::messages::{JoinGroupRequest, SyncGroupRequest};

use crate::driver::Driver;
use crate::offsets::commit;
use crate::rules::{join, join_request, protocol, settings, stable};
use crate::story::error;

#[test]
fn a_group_has_so_many_members_those_that_have_yet_to_join_included() {
    let mut driver = Driver::new(GroupSettings { group_size_max: 3, ..settings() });
    stable(&mut driver);
    for expected in [
        ErrorCode::MemberIdRequired,
        ErrorCode::MemberIdRequired,
        ErrorCode::GroupMaxSizeReached,
        ErrorCode::GroupMaxSizeReached,
    ] {
        let response = join(&mut driver, 4, join_request(""));
        assert_eq!(error(response.error_code), expected);
    }
    driver.advance_ms(10_000, |_| {});
    let response = join(&mut driver, 4, join_request(""));
    assert_eq!(error(response.error_code), ErrorCode::MemberIdRequired, "ids are free again");
}

#[test]
fn a_group_that_was_larger_shrinks_when_it_is_loaded() {
    let mut driver = Driver::new(GroupSettings::default());
    let mut tokens = Vec::new();
    for _ in 0..3 {
        let fresh_id = driver.fresh_id();
        let body = RequestBody::JoinGroup { request: join_request(""), fresh_id };
        tokens.push(driver.send("c", 3, body));
    }
    driver.advance_ms(6_000, |_| {});
    let members: Vec<_> = tokens
        .into_iter()
        .map(|token| match driver.take_reply(token) {
            Some(Reply::JoinGroup(response)) => response,
            other => panic!("{other:?}"),
        })
        .collect();
    let leader = members.iter().find(|member| !member.members.is_empty()).expect("one leads");
    assert_eq!(crate::rules::sync(&mut driver, &leader.member_id, 1), ErrorCode::None);

    let mut smaller = Driver::new(GroupSettings { group_size_max: 2, ..GroupSettings::default() });
    smaller.log = std::mem::take(&mut driver.log);
    smaller.load();
    let outcomes: Vec<_> = members
        .iter()
        .map(|member| {
            let fresh_id = smaller.fresh_id();
            let request = join_request(&member.member_id);
            smaller.send("c", 3, RequestBody::JoinGroup { request, fresh_id })
        })
        .collect();
    let replies: Vec<_> =
        outcomes.into_iter().filter_map(|token| smaller.take_reply(token)).collect();
    let codes: Vec<_> = replies
        .iter()
        .map(|reply| match reply {
            Reply::JoinGroup(response) => error(response.error_code),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(codes, [ErrorCode::None, ErrorCode::None, ErrorCode::GroupMaxSizeReached]);
}

#[test]
fn a_shard_has_so_many_groups() {
    let mut driver = Driver::new(GroupSettings { groups_max: 2, ..settings() });
    let in_group =
        |name: &'static str| JoinGroupRequest { group_id: name.into(), ..join_request("") };
    for (name, expected) in [
        ("a", ErrorCode::None),
        ("b", ErrorCode::None),
        ("c", ErrorCode::PolicyViolation),
        ("a", ErrorCode::MemberIdRequired),
    ] {
        let version = if expected == ErrorCode::MemberIdRequired { 4 } else { 3 };
        let response = join(&mut driver, version, in_group(name));
        assert_eq!(error(response.error_code), expected, "{name}");
    }
    assert_eq!(commit(&mut driver, "d", &[("t", 0, 1)]), [ErrorCode::PolicyViolation]);
}

#[test]
fn members_and_groups_hold_so_many_bytes() {
    let limits = GroupSettings { member_bytes_max: 2_000, group_bytes_max: 5_000, ..settings() };
    let mut driver = Driver::new(limits);
    let with_metadata = |bytes: usize| JoinGroupRequest {
        protocols: vec![protocol("range", Bytes::from(vec![0; bytes]))],
        ..join_request("")
    };
    let response = join(&mut driver, 3, with_metadata(2_000));
    assert_eq!(error(response.error_code), ErrorCode::PolicyViolation);
    let leader = join(&mut driver, 3, with_metadata(1_500));
    assert_eq!(error(leader.error_code), ErrorCode::None);

    // An assignment that is too large fails as one that the log would refuse.
    let request = SyncGroupRequest {
        group_id: "g".into(),
        generation_id: 1,
        member_id: leader.member_id.clone(),
        assignments: vec![SyncGroupRequestAssignment {
            member_id: leader.member_id.clone(),
            assignment: Bytes::from(vec![0; 4_000]),
            ..Default::default()
        }],
        ..Default::default()
    };
    match driver.ask("c", 5, RequestBody::SyncGroup(request)) {
        Reply::SyncGroup(response) => {
            assert_eq!(error(response.error_code), ErrorCode::UnknownServerError);
        }
        other => panic!("{other:?}"),
    }

    for expected in [None, Some(ErrorCode::GroupMaxSizeReached)] {
        let fresh_id = driver.fresh_id();
        let body = RequestBody::JoinGroup { request: with_metadata(1_500), fresh_id };
        let token = driver.send("c", 3, body);
        let code = driver.take_reply(token).map(|reply| match reply {
            Reply::JoinGroup(response) => error(response.error_code),
            other => panic!("{other:?}"),
        });
        assert_eq!(code, expected, "two find room beside each other, and no third");
    }
}

#[test]
fn a_group_has_so_many_offsets() {
    let mut driver = Driver::new(GroupSettings { group_offsets_max: 2, ..settings() });
    let codes = commit(&mut driver, "g", &[("t", 0, 1), ("t", 1, 1), ("t", 0, 2), ("t", 2, 1)]);
    let (good, bad) = (ErrorCode::None, ErrorCode::InvalidCommitOffsetSize);
    assert_eq!(codes, [good, good, good, bad]);
    assert_eq!(commit(&mut driver, "g", &[("t", 1, 5), ("u", 0, 5)]), [good, bad]);
    assert_eq!(commit(&mut driver, "other", &[("t", 2, 5)]), [good]);
}
