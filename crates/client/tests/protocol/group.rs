//! Being a member of a group, told as transcripts of what a coordinator was asked.

use std::collections::BTreeSet;
use std::time::Duration;

use logway_client::{ClientError, GroupConsumer, GroupEvent, GroupOptions, StartAt};
use logway_model::{ErrorCode, Offset, PartitionId, TopicId, TopicPartition, Uuid};

use crate::fake_broker::{TOPIC_ID, topic};
use crate::fake_coordinator::{Answers, FakeCoordinator};

/// Heartbeats come fast, commits only when they must.
fn options() -> GroupOptions {
    GroupOptions {
        heartbeat_interval: Duration::from_millis(5),
        commit_interval: Some(Duration::from_secs(3600)),
        ..GroupOptions::default()
    }
}

async fn member(coordinator: &FakeCoordinator, options: GroupOptions) -> GroupConsumer {
    let topics = BTreeSet::from([topic()]);
    let member = GroupConsumer::open(&coordinator.client(), "g", topics, options).await;
    member.expect("the topic exists")
}

fn partition() -> TopicPartition {
    TopicPartition::new(topic(), PartitionId(0))
}

/// The next event in a word.
async fn next(member: &mut GroupConsumer) -> &'static str {
    match member.next().await.expect("it overcomes this") {
        Some(GroupEvent::Assigned(partitions)) => {
            assert_eq!(partitions, BTreeSet::from([partition()]));
            "assigned"
        }
        Some(GroupEvent::Revoked) => "revoked",
        Some(GroupEvent::Lost) => "lost",
        Some(GroupEvent::Fetched(_)) => "fetched",
        None => "the end",
    }
}

#[tokio::test]
async fn a_member_joins_with_the_id_it_is_given_commits_and_leaves() {
    let joins = [ErrorCode::MemberIdRequired].into();
    let coordinator = FakeCoordinator::start(Answers { joins, ..Answers::default() }).await;
    let mut member = member(&coordinator, options()).await;
    assert_eq!(next(&mut member).await, "assigned");
    member.consumed(&partition(), Offset(7));
    member.close().await.expect("nothing is wrong");
    let expected = [
        "join as '': MEMBER_ID_REQUIRED",
        "join as 'member-1': NONE",
        "sync as 'member-1' in 1: NONE",
        "commit 7 as 'member-1' in 1: NONE",
        "leave as 'member-1'",
    ];
    assert_eq!(coordinator.transcript(), expected);
}

#[tokio::test]
async fn a_rebalance_commits_and_joins_again_with_the_same_id() {
    let heartbeats = [ErrorCode::None, ErrorCode::RebalanceInProgress].into();
    let coordinator = FakeCoordinator::start(Answers { heartbeats, ..Answers::default() }).await;
    let mut member = member(&coordinator, options()).await;
    assert_eq!(next(&mut member).await, "assigned");
    member.consumed(&partition(), Offset(7));
    assert_eq!(next(&mut member).await, "revoked");
    assert_eq!(next(&mut member).await, "assigned");
    let expected = [
        "join as '': NONE",
        "sync as 'member-1' in 1: NONE",
        "heartbeat of 'member-1': REBALANCE_IN_PROGRESS",
        "commit 7 as 'member-1' in 1: NONE",
        "join as 'member-1': NONE",
        "sync as 'member-1' in 2: NONE",
    ];
    assert_eq!(coordinator.transcript(), expected);
}

#[tokio::test]
async fn a_member_that_was_taken_for_dead_commits_nothing_and_joins_as_somebody_new() {
    for code in [ErrorCode::UnknownMemberId, ErrorCode::IllegalGeneration] {
        let heartbeats = [code].into();
        let coordinator =
            FakeCoordinator::start(Answers { heartbeats, ..Answers::default() }).await;
        let mut member = member(&coordinator, options()).await;
        assert_eq!(next(&mut member).await, "assigned");
        member.consumed(&partition(), Offset(7));
        assert_eq!(next(&mut member).await, "lost");
        assert_eq!(next(&mut member).await, "assigned");
        let expected = [
            "join as '': NONE".to_owned(),
            "sync as 'member-1' in 1: NONE".to_owned(),
            format!("heartbeat of 'member-1': {code}"),
            "join as '': NONE".to_owned(),
            "sync as 'member-2' in 2: NONE".to_owned(),
        ];
        assert_eq!(coordinator.transcript(), expected);
    }
}

#[tokio::test]
async fn a_commit_tells_a_member_that_it_is_none_any_more() {
    let commits = [ErrorCode::UnknownMemberId].into();
    let coordinator = FakeCoordinator::start(Answers { commits, ..Answers::default() }).await;
    let often = GroupOptions { commit_interval: Some(Duration::from_millis(5)), ..options() };
    let mut member = member(&coordinator, often).await;
    assert_eq!(next(&mut member).await, "assigned");
    member.consumed(&partition(), Offset(7));
    assert_eq!(next(&mut member).await, "lost");
    let last = coordinator.transcript().pop();
    assert_eq!(last.as_deref(), Some("commit 7 as 'member-1' in 1: UNKNOWN_MEMBER_ID"));
}

#[tokio::test]
async fn what_could_not_be_committed_during_a_rebalance_is_committed_later() {
    let commits = [ErrorCode::RebalanceInProgress].into();
    let coordinator = FakeCoordinator::start(Answers { commits, ..Answers::default() }).await;
    let often = GroupOptions { commit_interval: Some(Duration::from_millis(5)), ..options() };
    let mut member = member(&coordinator, often).await;
    assert_eq!(next(&mut member).await, "assigned");
    member.consumed(&partition(), Offset(7));
    let is_committed = |line: &String| line == "commit 7 as 'member-1' in 1: NONE";
    while !coordinator.transcript().iter().any(is_committed) {
        let waited = tokio::time::timeout(Duration::from_millis(5), member.next()).await;
        assert!(waited.is_err(), "nothing happens but commits");
    }
}

#[tokio::test]
async fn joining_begins_again_when_the_group_or_its_coordinator_changes() {
    let joins = [ErrorCode::None, ErrorCode::NotCoordinator, ErrorCode::CoordinatorLoadInProgress];
    let syncs = [ErrorCode::RebalanceInProgress, ErrorCode::UnknownMemberId];
    let (joins, syncs) = (joins.into(), syncs.into());
    let coordinator = FakeCoordinator::start(Answers { joins, syncs, ..Answers::default() }).await;
    let mut member = member(&coordinator, options()).await;
    assert_eq!(next(&mut member).await, "assigned");
    let expected = [
        "join as '': NONE",
        "sync as 'member-1' in 1: REBALANCE_IN_PROGRESS",
        "join as 'member-1': NOT_COORDINATOR",
        "join as 'member-1': COORDINATOR_LOAD_IN_PROGRESS",
        "join as 'member-1': NONE",
        "sync as 'member-1' in 2: UNKNOWN_MEMBER_ID",
        "join as '': NONE",
        "sync as 'member-2' in 3: NONE",
    ];
    assert_eq!(coordinator.transcript(), expected);
    assert!(coordinator.look_ups() >= 5, "it looks for the coordinator each time");
}

#[tokio::test]
async fn what_will_not_pass_is_reported_at_once() {
    let refusals = [
        ErrorCode::InconsistentGroupProtocol,
        ErrorCode::InvalidSessionTimeout,
        ErrorCode::GroupMaxSizeReached,
        ErrorCode::GroupAuthorizationFailed,
    ];
    for code in refusals {
        let joins = [code].into();
        let coordinator = FakeCoordinator::start(Answers { joins, ..Answers::default() }).await;
        let error = member(&coordinator, options()).await.next().await.expect_err("refused");
        assert_eq!(error.code(), Some(code), "{error}");
        assert_eq!(coordinator.transcript().len(), 1);
    }
    let heartbeats = [ErrorCode::GroupAuthorizationFailed].into();
    let coordinator = FakeCoordinator::start(Answers { heartbeats, ..Answers::default() }).await;
    let mut member = member(&coordinator, options()).await;
    assert_eq!(next(&mut member).await, "assigned");
    let refused = member.next().await;
    assert!(matches!(refused, Err(ClientError::Refused { .. })), "{refused:?}");
}

#[tokio::test]
async fn a_member_that_is_busy_for_too_long_leaves() {
    let coordinator = FakeCoordinator::start(Answers::default()).await;
    let impatient = GroupOptions { poll_interval_max: Duration::from_millis(20), ..options() };
    let mut member = member(&coordinator, impatient).await;
    assert_eq!(next(&mut member).await, "assigned");
    let has_left = |line: &String| line == "leave as 'member-1'";
    while !coordinator.transcript().iter().any(has_left) {
        tokio::task::yield_now().await;
    }
    assert_eq!(next(&mut member).await, "lost");
}

#[tokio::test]
async fn a_committed_offset_beyond_the_end_is_not_gone_on_from() {
    for (committed, is_found) in [(50, true), (100, true), (101, false)] {
        let answers = Answers { committed: Some(committed), ..Answers::default() };
        let coordinator = FakeCoordinator::start(answers).await;
        // From the end there is nothing to read, from a committed offset before it there is.
        let start_at = logway_client::StartAt::End;
        let consumer = logway_client::ConsumerOptions { stops_at_end: true, ..Default::default() };
        let mut member =
            member(&coordinator, GroupOptions { start_at, consumer, ..options() }).await;
        assert_eq!(next(&mut member).await, "assigned");
        let waits = tokio::time::timeout(Duration::from_millis(100), member.next()).await.is_err();
        assert_eq!(waits, is_found && committed < 100, "{committed}");
    }
}

#[tokio::test]
async fn what_is_noted_beside_an_offset_is_known_to_the_next_member() {
    let coordinator = FakeCoordinator::start(Answers::default()).await;
    let mut first = member(&coordinator, options()).await;
    assert_eq!(next(&mut first).await, "assigned");
    first.consumed_noting(&partition(), Offset(7), "9-12".to_owned());
    first.close().await.expect("nothing is wrong");
    let id = TopicId(TOPIC_ID);
    assert_eq!(coordinator.noted(), [format!("topic={id} 9-12")]);

    let metadata: &str = format!("topic={id} 9-12").leak();
    let answers = Answers { committed: Some(7), metadata, ..Answers::default() };
    let coordinator = FakeCoordinator::start(answers).await;
    let mut second = member(&coordinator, options()).await;
    assert_eq!(next(&mut second).await, "assigned");
    assert_eq!(second.note(&partition()), Some((Offset(7), "9-12")));
}

#[tokio::test]
async fn an_offset_of_a_topic_that_was_deleted_says_nothing_about_the_one_of_its_name() {
    let former = TopicId(Uuid([8; 16]));
    let metadata: &str = format!("topic={former} 9-12").leak();
    let answers = Answers { committed: Some(7), metadata, ..Answers::default() };
    let coordinator = FakeCoordinator::start(answers).await;
    let at_end = GroupOptions { start_at: StartAt::End, ..options() };
    let mut member = member(&coordinator, at_end).await;
    assert_eq!(next(&mut member).await, "assigned");
    assert_eq!(member.note(&partition()), None);
    member.close().await.expect("nothing is wrong");
    let transcript = coordinator.transcript();
    assert!(transcript.contains(&"commit 0 as 'member-1' in 1: NONE".to_owned()), "{transcript:?}");
    assert_eq!(coordinator.noted(), [format!("topic={}", TopicId(TOPIC_ID))]);
}

#[tokio::test]
async fn who_commits_in_time_learns_that_it_was_taken_for_dead() {
    let commits = [ErrorCode::None, ErrorCode::UnknownMemberId].into();
    let coordinator = FakeCoordinator::start(Answers { commits, ..Answers::default() }).await;
    let at_once = GroupOptions { commit_interval: Some(Duration::ZERO), ..options() };
    let mut member = member(&coordinator, at_once).await;
    assert_eq!(next(&mut member).await, "assigned");
    for is_member in [true, false] {
        member.consumed(&partition(), Offset(7));
        assert_eq!(member.commit_in_time().await.expect("can be asked"), is_member);
    }
}
