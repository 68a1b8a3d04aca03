//! What a leader proposes of who is in sync: AlterPartition.

use super::*;

#[test]
fn the_leader_says_who_is_in_sync() {
    let mut cluster = three();
    let leader = cluster.state().0.expect("leads");
    let other = (1..=3).find(|id| *id != leader).expect("is one");
    let altered = cluster.alter(leader, &[leader], |_| {}).expect("shrinks");
    assert_eq!((altered.partition_epoch, altered.leader_epoch), (1, LeaderEpoch(0)));
    cluster.alter(leader, &[leader, other], |_| {}).expect("grows");
    assert_eq!(cluster.state(), (Some(leader), 0, vec![leader, other]));
    let same = cluster.alter(leader, &[leader, other], |_| {}).expect("is so");
    assert_eq!(same.partition_epoch, 2, "nothing was committed");
}

#[test]
fn what_a_late_or_wrong_leader_says_is_refused() {
    let mut cluster = three();
    let leader = cluster.state().0.expect("leads");
    let others: Vec<i32> = (1..=3).filter(|id| *id != leader).collect();
    cluster.fence(others[1]);
    let all = [leader, others[0], others[1]];
    let mut code = |broker, isr: &[i32], change: fn(&mut AlterPartition)| {
        cluster.alter(broker, isr, change).expect_err("is refused").code
    };
    assert_eq!(code(leader, &all, |_| {}), ErrorCode::IneligibleReplica, "one is fenced");
    let stale = |command: &mut AlterPartition| command.partitions[0].isr[1].1.0 -= 1;
    assert_eq!(code(leader, &all[..2], stale), ErrorCode::IneligibleReplica, "of another life");
    let old = |command: &mut AlterPartition| command.partitions[0].partition_epoch -= 1;
    assert_eq!(code(leader, &all[..1], old), ErrorCode::InvalidUpdateVersion);
    let fenced = |command: &mut AlterPartition| command.partitions[0].leader_epoch.0 -= 1;
    assert_eq!(code(leader, &all[..1], fenced), ErrorCode::FencedLeaderEpoch);
    let ahead = |command: &mut AlterPartition| command.partitions[0].leader_epoch.0 += 1;
    assert_eq!(code(leader, &all[..1], ahead), ErrorCode::NotController);
    assert_eq!(code(others[0], &all[..2], |_| {}), ErrorCode::InvalidRequest, "does not lead");
    assert_eq!(code(leader, &[], |_| {}), ErrorCode::InvalidRequest, "nobody could lead");
    assert_eq!(code(leader, &[leader, leader], |_| {}), ErrorCode::InvalidRequest);
    let stale = |command: &mut AlterPartition| command.broker_epoch.0 += 1;
    assert_eq!(code(leader, &all[..1], stale), ErrorCode::StaleBrokerEpoch);
    let unknown =
        |command: &mut AlterPartition| command.partitions[0].topic_id = TopicId(Uuid([8; 16]));
    assert_eq!(code(leader, &all[..1], unknown), ErrorCode::UnknownTopicId);
}

#[test]
fn a_late_copy_of_a_refused_proposal_is_not_taken_when_its_broker_serves_again() {
    let mut cluster = three();
    let leader = cluster.state().0.expect("leads");
    let others: Vec<i32> = (1..=3).filter(|id| *id != leader).collect();
    cluster.fence(others[0]);
    cluster.fence(others[1]);
    let mut refused = None;
    let keep = |command: &mut AlterPartition| refused = Some(command.clone());
    let refusal = cluster.alter(leader, &[leader, others[0]], keep).expect_err("it is fenced");
    assert_eq!(refusal.code, ErrorCode::IneligibleReplica);
    let refused = refused.expect("was sent");
    // The leader goes on without it, and commits.
    let is_back = cluster.set(others[0], cluster.epoch(others[0]), BrokerState::Active);
    is_back.expect("it serves in the same life");
    let late = cluster.submit(refused).expect("is judged").remove(0).expect_err("is late");
    assert_eq!(late.code, ErrorCode::InvalidUpdateVersion);
    assert_eq!(cluster.state().2, [leader]);
    cluster.alter(leader, &[leader, others[0]], |_| {}).expect("it has caught up");
}

#[test]
fn a_proposal_that_never_can_be_taken_changes_nothing() {
    let mut cluster = three();
    let leader = cluster.state().0.expect("leads");
    let other = (1..=3).find(|id| *id != leader).expect("is one");
    cluster.alter(leader, &[leader], |_| {}).expect("shrinks");
    let before = cluster.image.clone();
    let old_life = |command: &mut AlterPartition| command.partitions[0].isr[1].1.0 -= 1;
    cluster.alter(leader, &[leader, other], old_life).expect_err("of another life");
    assert_eq!(cluster.image, before);
    cluster.fence(other);
    let before = cluster.image.clone();
    let old = |command: &mut AlterPartition| command.partitions[0].partition_epoch -= 1;
    cluster.alter(leader, &[leader, other], old).expect_err("is late");
    assert_eq!(cluster.image, before);
}
