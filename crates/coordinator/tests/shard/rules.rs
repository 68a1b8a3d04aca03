//! The rules of Kafka's group protocol, one by one.

use bytes::Bytes;
use logway_coordinator::{GroupSettings, Reply, RequestBody, RequestToken};
use logway_model::ErrorCode;
use logway_wire::WireString;
use logway_wire::messages::join_group_request::JoinGroupRequestProtocol;
use logway_wire::messages::leave_group_request::MemberIdentity;
use logway_wire::messages::{
    HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse,
    SyncGroupRequest,
};

use crate::driver::{Driver, subscription};
use crate::story::error;

/// A driver whose groups do not wait for more members at first.
pub(crate) fn driver() -> Driver {
    Driver::new(settings())
}

pub(crate) fn settings() -> GroupSettings {
    GroupSettings { initial_rebalance_delay_ms: 0, ..GroupSettings::default() }
}

pub(crate) fn join_request(member_id: &str) -> JoinGroupRequest {
    JoinGroupRequest {
        group_id: "g".into(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 60_000,
        member_id: WireString::copy_of(member_id),
        protocol_type: "consumer".into(),
        protocols: vec![protocol("range", subscription(&["t"]))],
        ..Default::default()
    }
}

pub(crate) fn protocol(name: &str, metadata: Bytes) -> JoinGroupRequestProtocol {
    JoinGroupRequestProtocol { name: WireString::copy_of(name), metadata, ..Default::default() }
}

/// The answer to a JoinGroup that does not have to wait for others.
pub(crate) fn join(
    driver: &mut Driver,
    version: i16,
    request: JoinGroupRequest,
) -> JoinGroupResponse {
    let fresh_id = driver.fresh_id();
    let token = driver.send("c", version, RequestBody::JoinGroup { request, fresh_id });
    driver.advance_ms(0, |_| {});
    driver.settle_all();
    match driver.take_reply(token).expect("nothing is waited for") {
        Reply::JoinGroup(response) => response,
        other => panic!("{other:?}"),
    }
}

/// A JoinGroup whose answer may wait.
fn join_later(driver: &mut Driver, version: i16, request: JoinGroupRequest) -> RequestToken {
    let fresh_id = driver.fresh_id();
    driver.send("c", version, RequestBody::JoinGroup { request, fresh_id })
}

fn joined(driver: &mut Driver, token: RequestToken) -> JoinGroupResponse {
    match driver.take_reply(token).expect("the join phase is over") {
        Reply::JoinGroup(response) => response,
        other => panic!("{other:?}"),
    }
}

/// Makes a group of one, stable, and returns the member.
pub(crate) fn stable(driver: &mut Driver) -> JoinGroupResponse {
    let member = join(driver, 3, join_request(""));
    assert_eq!(error(member.error_code), ErrorCode::None);
    assert_eq!(sync(driver, &member.member_id, member.generation_id), ErrorCode::None);
    member
}

pub(crate) fn sync(driver: &mut Driver, member_id: &str, generation_id: i32) -> ErrorCode {
    let request = SyncGroupRequest {
        group_id: "g".into(),
        generation_id,
        member_id: WireString::copy_of(member_id),
        ..Default::default()
    };
    sync_with(driver, request)
}

fn sync_with(driver: &mut Driver, request: SyncGroupRequest) -> ErrorCode {
    match driver.ask("c", 5, RequestBody::SyncGroup(request)) {
        Reply::SyncGroup(response) => error(response.error_code),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn heartbeat(driver: &mut Driver, member_id: &str, generation_id: i32) -> ErrorCode {
    let request = HeartbeatRequest {
        group_id: "g".into(),
        generation_id,
        member_id: WireString::copy_of(member_id),
        ..Default::default()
    };
    match driver.ask("c", 4, RequestBody::Heartbeat(request)) {
        Reply::Heartbeat(response) => error(response.error_code),
        other => panic!("{other:?}"),
    }
}

fn leave(driver: &mut Driver, version: i16, request: LeaveGroupRequest) -> LeaveGroupResponse {
    match driver.ask("c", version, RequestBody::LeaveGroup(request)) {
        Reply::LeaveGroup(response) => response,
        other => panic!("{other:?}"),
    }
}

#[test]
fn joins_that_cannot_be_are_refused() {
    let mut driver = driver();
    let valid = || join_request("");
    let cases = [
        (JoinGroupRequest { group_id: "".into(), ..valid() }, ErrorCode::InvalidGroupId),
        (
            JoinGroupRequest { session_timeout_ms: 5_999, ..valid() },
            ErrorCode::InvalidSessionTimeout,
        ),
        (
            JoinGroupRequest { session_timeout_ms: 1_800_001, ..valid() },
            ErrorCode::InvalidSessionTimeout,
        ),
        (join_request("nobody"), ErrorCode::UnknownMemberId),
        (
            JoinGroupRequest { protocol_type: "".into(), ..valid() },
            ErrorCode::InconsistentGroupProtocol,
        ),
        (
            JoinGroupRequest { protocols: Vec::new(), ..valid() },
            ErrorCode::InconsistentGroupProtocol,
        ),
    ];
    for (request, expected) in cases {
        let response = join(&mut driver, 3, request.clone());
        assert_eq!(error(response.error_code), expected, "{request:?}");
    }
    assert_eq!(driver.shard.group_count(), 0, "a join that is refused leaves no group behind");
}

#[test]
fn who_has_no_protocol_in_common_is_refused() {
    let mut driver = driver();
    stable(&mut driver);
    let other_kind = JoinGroupRequest { protocol_type: "connect".into(), ..join_request("") };
    let other_assignor =
        JoinGroupRequest { protocols: vec![protocol("sticky", Bytes::new())], ..join_request("") };
    for request in [other_kind, other_assignor] {
        let response = join(&mut driver, 3, request);
        assert_eq!(error(response.error_code), ErrorCode::InconsistentGroupProtocol);
    }
}

#[test]
fn most_votes_choose_the_protocol_among_those_that_all_support() {
    let mut driver = Driver::new(GroupSettings::default());
    let preferences =
        [["a", "b", "c"].as_slice(), ["b", "a"].as_slice(), ["c", "b", "a"].as_slice()];
    let tokens = preferences.map(|names| {
        let protocols = names.iter().map(|name| protocol(name, Bytes::new())).collect();
        join_later(&mut driver, 3, JoinGroupRequest { protocols, ..join_request("") })
    });
    driver.advance_ms(10_000, |_| {});
    for token in tokens {
        let response = joined(&mut driver, token);
        // `c` is not supported by all, so the third votes for `b` too.
        assert_eq!(response.protocol_name.as_deref(), Some("b"));
    }
}

#[test]
fn an_id_is_required_from_version_4_on_and_not_of_static_members() {
    let mut driver = driver();
    let refused = join(&mut driver, 4, join_request(""));
    assert_eq!(error(refused.error_code), ErrorCode::MemberIdRequired);
    assert!(refused.member_id.starts_with("c-"), "{}", refused.member_id);
    let accepted = join(&mut driver, 4, join_request(&refused.member_id));
    assert_eq!(error(accepted.error_code), ErrorCode::None);

    let mut driver = self::driver();
    let instance = JoinGroupRequest { group_instance_id: Some("i".into()), ..join_request("") };
    assert_eq!(error(join(&mut driver, 5, instance).error_code), ErrorCode::None);

    let mut driver = self::driver();
    let response = join(&mut driver, 3, join_request(""));
    assert_eq!(error(response.error_code), ErrorCode::None, "version 3 joins at once");
}

#[test]
fn an_id_that_is_not_used_is_forgotten_and_holds_nobody_up_for_longer() {
    let mut driver = driver();
    let refused = join(&mut driver, 4, join_request(""));
    assert_eq!(driver.shard.group_count(), 1);
    driver.advance_ms(10_000, |_| {});
    assert_eq!(driver.shard.group_count(), 0, "the group was only waiting for it");
    let late = join(&mut driver, 4, join_request(&refused.member_id));
    assert_eq!(error(late.error_code), ErrorCode::UnknownMemberId);

    let member = stable(&mut driver);
    join(&mut driver, 4, join_request(""));
    let token = join_later(&mut driver, 4, join_request(&member.member_id));
    assert_eq!(driver.take_reply(token), None, "the one with a new id is waited for");
    driver.advance_ms(10_000, |_| {});
    assert_eq!(joined(&mut driver, token).generation_id, 2);
}

#[test]
fn the_first_rebalance_waits_for_more_members_but_not_for_ever() {
    let mut driver = Driver::new(GroupSettings::default());
    let request = JoinGroupRequest { rebalance_timeout_ms: 7_000, ..join_request("") };
    let first = join_later(&mut driver, 3, request.clone());
    let mut tokens = vec![first];
    for _ in 0..3 {
        driver.advance_ms(2_000, |_| {});
        assert_eq!(driver.replies.len(), 0);
        tokens.push(join_later(&mut driver, 3, request.clone()));
    }
    driver.advance_ms(1_000, |_| {});
    for token in tokens {
        assert_eq!(joined(&mut driver, token).generation_id, 1, "all at the rebalance timeout");
    }
}

#[test]
fn followers_that_join_again_with_nothing_new_get_the_same_answer() {
    let mut driver = Driver::new(GroupSettings::default());
    let tokens = [(); 2].map(|()| join_later(&mut driver, 3, join_request("")));
    driver.advance_ms(6_000, |_| {});
    let [leader, follower] = tokens.map(|token| joined(&mut driver, token));
    // While the leader assigns, the leader too may have missed its answer.
    for member in [&leader, &follower] {
        let again = join(&mut driver, 3, join_request(&member.member_id));
        assert_eq!(&again, member);
    }
    assert_eq!(sync(&mut driver, &leader.member_id, 1), ErrorCode::None);
    assert_eq!(sync(&mut driver, &follower.member_id, 1), ErrorCode::None);
    assert_eq!(join(&mut driver, 3, join_request(&follower.member_id)), follower);

    let changed = JoinGroupRequest {
        protocols: vec![protocol("range", subscription(&["t", "u"]))],
        ..join_request(&follower.member_id)
    };
    let waiting = join_later(&mut driver, 3, changed);
    assert_eq!(heartbeat(&mut driver, &leader.member_id, 1), ErrorCode::RebalanceInProgress);
    join(&mut driver, 3, join_request(&leader.member_id));
    assert_eq!(joined(&mut driver, waiting).generation_id, 2);
}

#[test]
fn a_leader_that_joins_again_makes_a_rebalance() {
    let mut driver = driver();
    let member = stable(&mut driver);
    let again = join(&mut driver, 3, join_request(&member.member_id));
    assert_eq!((again.generation_id, again.members.len()), (2, 1));
}

#[test]
fn requests_of_others_and_of_other_generations_are_refused_in_every_state() {
    let mut driver = driver();
    assert_eq!(heartbeat(&mut driver, "m", 0), ErrorCode::UnknownMemberId, "no group");
    assert_eq!(sync(&mut driver, "m", 0), ErrorCode::UnknownMemberId, "no group");

    let member = join(&mut driver, 3, join_request(""));
    let id = &member.member_id;
    // Completing the rebalance.
    assert_eq!(heartbeat(&mut driver, id, 1), ErrorCode::None);
    assert_eq!(heartbeat(&mut driver, id, 2), ErrorCode::IllegalGeneration);
    assert_eq!(heartbeat(&mut driver, "m", 1), ErrorCode::UnknownMemberId);
    assert_eq!(sync(&mut driver, id, 0), ErrorCode::IllegalGeneration);
    let named = |protocol_type: &'static str, protocol_name: &'static str| SyncGroupRequest {
        group_id: "g".into(),
        generation_id: 1,
        member_id: id.clone(),
        protocol_type: Some(protocol_type.into()),
        protocol_name: Some(protocol_name.into()),
        ..Default::default()
    };
    for other in [named("connect", "range"), named("consumer", "sticky")] {
        assert_eq!(sync_with(&mut driver, other), ErrorCode::InconsistentGroupProtocol);
    }
    assert_eq!(sync_with(&mut driver, named("consumer", "range")), ErrorCode::None);
    // Stable.
    assert_eq!(heartbeat(&mut driver, id, 1), ErrorCode::None);
    assert_eq!(heartbeat(&mut driver, id, 0), ErrorCode::IllegalGeneration);
    assert_eq!(sync(&mut driver, id, 1), ErrorCode::None, "a repetition");
    // Preparing a rebalance.
    join_later(&mut driver, 3, join_request(""));
    assert_eq!(heartbeat(&mut driver, id, 1), ErrorCode::RebalanceInProgress);
    assert_eq!(heartbeat(&mut driver, id, 2), ErrorCode::IllegalGeneration);
    assert_eq!(sync(&mut driver, id, 1), ErrorCode::RebalanceInProgress);
    // Empty.
    driver.advance_ms(2_000_000, |_| {});
    driver.settle_all();
    assert_eq!(heartbeat(&mut driver, id, 1), ErrorCode::UnknownMemberId);
    assert_eq!(sync(&mut driver, id, 1), ErrorCode::UnknownMemberId);
    let late = join(&mut driver, 3, join_request(id));
    assert_eq!(error(late.error_code), ErrorCode::UnknownMemberId);
    for body in [
        RequestBody::SyncGroup(SyncGroupRequest::default()),
        RequestBody::Heartbeat(HeartbeatRequest::default()),
        RequestBody::LeaveGroup(LeaveGroupRequest::default()),
    ] {
        let code = match driver.ask("c", 4, body) {
            Reply::SyncGroup(response) => response.error_code,
            Reply::Heartbeat(response) => response.error_code,
            Reply::LeaveGroup(response) => response.error_code,
            other => panic!("{other:?}"),
        };
        assert_eq!(error(code), ErrorCode::InvalidGroupId);
    }
}

#[test]
fn a_request_that_is_sent_again_takes_the_place_of_the_first() {
    let mut driver = driver();
    let member = stable(&mut driver);
    let newcomer = join(&mut driver, 4, join_request(""));
    assert_eq!(error(newcomer.error_code), ErrorCode::MemberIdRequired);
    // The newcomer, which has yet to come back with its id, is waited for.
    let once = join_later(&mut driver, 3, join_request(&member.member_id));
    let twice = join_later(&mut driver, 3, join_request(&member.member_id));
    assert_eq!(error(joined(&mut driver, once).error_code), ErrorCode::RebalanceInProgress);
    driver.advance_ms(60_000, |_| {});
    assert_eq!(error(joined(&mut driver, twice).error_code), ErrorCode::None);
}

#[test]
fn members_leave_alone_together_and_by_an_operators_hand() {
    let mut driver = Driver::new(GroupSettings::default());
    let plain = join_later(&mut driver, 3, join_request(""));
    let instance = |id: &'static str| JoinGroupRequest {
        group_instance_id: Some(id.into()),
        ..join_request("")
    };
    join_later(&mut driver, 5, instance("one"));
    join_later(&mut driver, 5, instance("two"));
    driver.advance_ms(6_000, |_| {});
    let plain = joined(&mut driver, plain);

    let identity = |member_id: &str, instance_id: Option<&'static str>| MemberIdentity {
        member_id: WireString::copy_of(member_id),
        group_instance_id: instance_id.map(WireString::from),
        ..Default::default()
    };
    let request = LeaveGroupRequest {
        group_id: "g".into(),
        members: vec![
            identity("", Some("one")),
            identity("", Some("nobody")),
            identity("somebody else", Some("two")),
            identity("nobody", None),
        ],
        ..Default::default()
    };
    let response = leave(&mut driver, 3, request);
    assert_eq!(error(response.error_code), ErrorCode::None);
    let codes: Vec<_> = response.members.iter().map(|each| error(each.error_code)).collect();
    assert_eq!(
        codes,
        [
            ErrorCode::None,
            ErrorCode::UnknownMemberId,
            ErrorCode::FencedInstanceId,
            ErrorCode::UnknownMemberId
        ]
    );
    assert_eq!(heartbeat(&mut driver, &plain.member_id, 1), ErrorCode::RebalanceInProgress);

    let single = |member_id: &WireString| LeaveGroupRequest {
        group_id: "g".into(),
        member_id: member_id.clone(),
        ..Default::default()
    };
    let response = leave(&mut driver, 2, single(&plain.member_id));
    assert_eq!((error(response.error_code), response.members.len()), (ErrorCode::None, 0));
    let response = leave(&mut driver, 2, single(&plain.member_id));
    assert_eq!(error(response.error_code), ErrorCode::UnknownMemberId);
}

#[test]
fn who_leaves_while_waiting_is_told() {
    let mut driver = Driver::new(GroupSettings::default());
    let tokens = [(); 2].map(|()| join_later(&mut driver, 3, join_request("")));
    driver.advance_ms(6_000, |_| {});
    let members = tokens.map(|token| joined(&mut driver, token));
    let follower = members.iter().find(|member| member.members.is_empty()).expect("one follows");
    let request = SyncGroupRequest {
        group_id: "g".into(),
        generation_id: 1,
        member_id: follower.member_id.clone(),
        ..Default::default()
    };
    let waiting = driver.send("c", 5, RequestBody::SyncGroup(request));
    let request = LeaveGroupRequest {
        group_id: "g".into(),
        member_id: follower.member_id.clone(),
        ..Default::default()
    };
    leave(&mut driver, 0, request);
    match driver.take_reply(waiting) {
        Some(Reply::SyncGroup(response)) => {
            assert_eq!(error(response.error_code), ErrorCode::UnknownMemberId);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_new_member_whose_client_is_gone_does_not_wait_for_ever() {
    let mut driver = driver();
    let member = stable(&mut driver);
    // The rebalance waits for the old member, which is alive but very patient.
    let patient = JoinGroupRequest {
        session_timeout_ms: 1_800_000,
        rebalance_timeout_ms: 1_800_000,
        ..join_request(&member.member_id)
    };
    let rejoined = join(&mut driver, 3, patient);
    sync(&mut driver, &member.member_id, rejoined.generation_id);
    let newcomer = join_later(&mut driver, 3, join_request(""));
    driver.advance_ms(299_999, |_| {});
    assert_eq!(driver.take_reply(newcomer), None);
    driver.advance_ms(1, |_| {});
    let refused = joined(&mut driver, newcomer);
    assert_eq!(error(refused.error_code), ErrorCode::UnknownMemberId);
}

#[test]
fn version_0_has_one_timeout_for_both() {
    let mut driver = driver();
    let member = stable(&mut driver);
    let request = JoinGroupRequest { rebalance_timeout_ms: -1, ..join_request(&member.member_id) };
    let member = join(&mut driver, 0, request);
    sync(&mut driver, &member.member_id, member.generation_id);
    let metadata = driver.shard.group("g").and_then(|group| group.metadata().cloned());
    let metadata = metadata.expect("the group is in the log");
    assert_eq!(metadata.members[0].rebalance_timeout_ms, 10_000);
}

#[test]
fn a_static_member_that_came_back_over_a_slow_log_has_to_be_heard_of_again() {
    let mut driver = driver();
    let instance =
        || JoinGroupRequest { group_instance_id: Some("one".into()), ..join_request("") };
    let member = join(&mut driver, 9, instance());
    assert_eq!(sync_static(&mut driver, &member), ErrorCode::None);

    let back = join_later(&mut driver, 9, instance());
    driver.advance_ms(20_000, |_| {});
    assert_eq!(driver.take_reply(back), None, "the log has yet to know the new id");
    driver.settle_all();
    let back = joined(&mut driver, back);
    assert_eq!((error(back.error_code), back.generation_id), (ErrorCode::None, 1));

    driver.advance_ms(9_999, |_| {});
    let members = |driver: &Driver| driver.shard.group("g").map_or(0, |group| group.member_count());
    assert_eq!(members(&driver), 1, "its session begins with the answer");
    driver.advance_ms(1, |_| {});
    assert_eq!(members(&driver), 0);
}

pub(crate) fn sync_static(driver: &mut Driver, member: &JoinGroupResponse) -> ErrorCode {
    let request = SyncGroupRequest {
        group_id: "g".into(),
        generation_id: member.generation_id,
        member_id: member.member_id.clone(),
        group_instance_id: Some("one".into()),
        ..Default::default()
    };
    sync_with(driver, request)
}
