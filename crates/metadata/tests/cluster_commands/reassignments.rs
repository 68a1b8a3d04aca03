//! Partitions are moved to other brokers.

use logway_metadata::controller::PartitionsIncrease;
use logway_metadata::controller::{AlterPartitionReassignments, CreatePartitions, PartitionMove};

use super::*;

/// Five brokers and a partition on the first three of them, in order, led by the first.
fn five() -> Cluster {
    let mut cluster = Cluster::of(&[(1, None), (2, None), (3, None), (4, None), (5, None)]);
    let topic = NewTopic {
        name: "orders".to_owned(),
        id: TOPIC,
        num_partitions: -1,
        replication_factor: -1,
        assignments: vec![(0, brokers(&[1, 2, 3]))],
        configs: vec![("min.insync.replicas".to_owned(), Some("2".to_owned()))],
    };
    let command = CreateTopics { topics: vec![topic], validate_only: false };
    cluster.submit(command).expect("is judged").remove(0).expect("is created");
    cluster
}

fn brokers(ids: &[i32]) -> Vec<BrokerId> {
    ids.iter().copied().map(BrokerId).collect()
}

fn reassign(
    cluster: &mut Cluster,
    replicas: Option<&[i32]>,
    may_change_count: bool,
) -> Result<(), ErrorCode> {
    let replicas = replicas.map(brokers);
    let moves = vec![PartitionMove { topic_id: TOPIC, partition: PARTITION, replicas }];
    let command = AlterPartitionReassignments { moves, may_change_count };
    cluster.submit(command).expect("is judged").remove(0).map_err(|refusal| refusal.code)
}

fn moves(cluster: &mut Cluster, replicas: &[i32]) {
    reassign(cluster, Some(replicas), true).expect("is moved");
}

fn replicas(cluster: &Cluster) -> Vec<i32> {
    cluster.partition(0).replicas.iter().map(|id| id.0).collect()
}

fn is_moving(cluster: &Cluster) -> bool {
    cluster.partition(0).reassignment.is_some()
}

/// Each replica is in a directory of its own broker.
fn check_places(cluster: &Cluster) {
    let partition = cluster.partition(0);
    for id in &partition.replicas {
        assert_eq!(partition.directory_of(*id), DirectoryId(Uuid([id.0 as u8; 16])));
    }
    assert_eq!(partition.directories.len(), partition.replicas.len());
}

#[test]
fn the_old_replicas_leave_in_the_commit_that_has_the_new_ones_in_sync() {
    let mut cluster = five();
    moves(&mut cluster, &[4, 5, 3]);
    assert_eq!(replicas(&cluster), [4, 5, 3, 1, 2], "those that stay come first");
    assert_eq!(cluster.state(), (Some(1), 0, vec![1, 2, 3]), "nothing has changed for clients");
    check_places(&cluster);
    assert_eq!(cluster.image.features().filter(|it| it.0 == "reassignments").count(), 1);
    cluster.alter(1, &[1, 2, 3, 4], |_| {}).expect("one has caught up");
    assert_eq!((replicas(&cluster), is_moving(&cluster)), (vec![4, 5, 3, 1, 2], true));
    let altered = cluster.alter(1, &[1, 2, 3, 4, 5], |_| {}).expect("the other has, too");
    assert_eq!((replicas(&cluster), is_moving(&cluster)), (vec![4, 5, 3], false));
    assert_eq!(cluster.state(), (Some(4), 1, vec![3, 4, 5]));
    assert_eq!((altered.leader, altered.leader_epoch.0), (Some(BrokerId(4)), 1));
    check_places(&cluster);
}

#[test]
fn a_replica_less_is_a_new_epoch_also_where_the_leader_stays() {
    let mut cluster = five();
    moves(&mut cluster, &[1, 2, 4]);
    assert_eq!(cluster.state().1, 0, "nobody lost a replica yet");
    cluster.alter(1, &[1, 2, 3, 4], |_| {}).expect("has caught up");
    assert_eq!(cluster.state(), (Some(1), 1, vec![1, 2, 4]));
}

#[test]
fn who_stays_and_is_not_in_sync_holds_nothing_up() {
    let mut cluster = five();
    cluster.fence(3);
    moves(&mut cluster, &[3, 4, 5]);
    cluster.alter(1, &[1, 2, 4, 5], |_| {}).expect("both have caught up");
    assert_eq!((replicas(&cluster), cluster.state().2), (vec![3, 4, 5], vec![4, 5]));
}

#[test]
fn fewer_replicas_wait_until_all_of_them_are_in_sync() {
    let mut cluster = five();
    cluster.alter(1, &[1, 2], |_| {}).expect("3 lags");
    moves(&mut cluster, &[2, 3]);
    assert!(is_moving(&cluster), "2 alone would be left");
    cluster.alter(1, &[1, 2, 3], |_| {}).expect("3 has caught up");
    assert_eq!((replicas(&cluster), cluster.state()), (vec![2, 3], (Some(2), 1, vec![2, 3])));
}

#[test]
fn another_order_and_fewer_of_those_in_sync_are_done_at_once() {
    let mut cluster = five();
    moves(&mut cluster, &[3, 2, 1]);
    assert_eq!((replicas(&cluster), is_moving(&cluster)), (vec![3, 2, 1], false));
    assert_eq!(cluster.state().0, Some(1), "an election makes the first one the leader");
    moves(&mut cluster, &[3]);
    assert_eq!((replicas(&cluster), cluster.state()), (vec![3], (Some(3), 1, vec![3])));
}

#[test]
fn a_replica_that_is_lost_in_the_commit_that_ends_a_move_is_in_no_directory() {
    let mut cluster = five();
    [2, 3, 1].into_iter().for_each(|id| cluster.fence(id));
    moves(&mut cluster, &[3, 2, 1]);
    cluster.set(1, cluster.epoch(1), BrokerState::Active).expect("serves");
    assert!(is_moving(&cluster), "nobody who stays could lead when it was begun");
    cluster.submit(removal(2)).expect("is removed");
    assert_eq!((replicas(&cluster), is_moving(&cluster)), (vec![3, 2, 1], false));
    let directory = cluster.partition(0).directory_of(BrokerId(2));
    assert_eq!(directory, DirectoryId::UNASSIGNED, "another node of its number makes it anew");
}

#[test]
fn a_cancelled_move_leaves_everything_as_it_was() {
    let mut cluster = five();
    let before = cluster.partition(0);
    moves(&mut cluster, &[5, 4, 3]);
    cluster.alter(1, &[1, 2, 3, 5], |_| {}).expect("one has caught up");
    reassign(&mut cluster, None, true).expect("is cancelled");
    let after = cluster.partition(0);
    assert_eq!((&after.replicas, &after.isr), (&before.replicas, &before.isr));
    assert_eq!((&after.directories, after.leader), (&before.directories, before.leader));
    assert_eq!((after.reassignment, after.leader_epoch), (None, LeaderEpoch(1)));
    let refusal = reassign(&mut cluster, None, true);
    assert_eq!(refusal, Err(ErrorCode::NoReassignmentInProgress));
}

#[test]
fn a_leader_that_loses_its_replica_by_a_cancelled_move_hands_over() {
    let mut cluster = five();
    moves(&mut cluster, &[5, 2, 3]);
    cluster.alter(1, &[1, 2, 3], |_| {}).expect("nothing has changed");
    moves(&mut cluster, &[5, 4, 3]);
    cluster.alter(1, &[1, 2, 3, 5], |_| {}).expect("5 has caught up");
    let elect =
        ElectLeaders { election: Election::Preferred, partitions: vec![(TOPIC, PARTITION)] };
    cluster.submit(elect).expect("is judged").remove(0).expect("5 leads");
    reassign(&mut cluster, None, true).expect("is cancelled");
    assert_eq!((replicas(&cluster), cluster.state().2), (vec![1, 2, 3], vec![1, 2, 3]));
    assert_eq!(cluster.state().0, Some(1));
}

#[test]
fn another_target_replaces_the_first_and_the_way_back_stays() {
    let mut cluster = five();
    moves(&mut cluster, &[1, 2, 4]);
    cluster.alter(1, &[1, 2], |_| {}).expect("3 lags");
    moves(&mut cluster, &[1, 2, 5]);
    assert_eq!(replicas(&cluster), [1, 2, 5, 3], "4 is not to have it any more");
    reassign(&mut cluster, None, true).expect("is cancelled");
    assert_eq!(replicas(&cluster), [1, 2, 3]);
    moves(&mut cluster, &[1, 2, 4]);
    moves(&mut cluster, &[1, 2, 3]);
    assert_eq!((replicas(&cluster), is_moving(&cluster)), (vec![1, 2, 3], false));
}

#[test]
fn what_would_lose_acknowledged_records_is_refused() {
    let mut cluster = five();
    moves(&mut cluster, &[4, 5]);
    cluster.alter(1, &[1, 4], |_| {}).expect("the others lag");
    cluster.fence(1);
    assert_eq!(cluster.state(), (Some(4), 1, vec![4]));
    let invalid = Err(ErrorCode::InvalidReplicaAssignment);
    assert_eq!(reassign(&mut cluster, None, true), invalid);
    assert_eq!(reassign(&mut cluster, Some(&[1, 2, 5]), true), invalid);
    assert_eq!(reassign(&mut cluster, Some(&[1, 4, 5]), true), Ok(()));
}

#[test]
fn the_last_step_takes_no_replica_that_is_needed_to_acknowledge() {
    let mut cluster = five();
    moves(&mut cluster, &[4, 2, 3]);
    for id in [2, 3] {
        cluster.fence(id);
    }
    cluster.alter(1, &[1, 4], |_| {}).expect("4 has caught up");
    assert_eq!(cluster.state(), (Some(1), 0, vec![1, 4]), "two have what is acknowledged");
    cluster.set(3, cluster.epoch(3), BrokerState::Active).expect("serves");
    cluster.alter(1, &[1, 3, 4], |_| {}).expect("3 has caught up");
    assert_eq!((replicas(&cluster), cluster.state().2), (vec![4, 2, 3], vec![3, 4]));
}

#[test]
fn wrong_targets_are_refused_in_the_order_of_kafka() {
    let mut cluster = five();
    let mut code = |replicas: &[i32], may| reassign(&mut cluster, Some(replicas), may);
    let invalid = Err(ErrorCode::InvalidReplicaAssignment);
    for wrong in [&[] as &[i32], &[1, 1], &[1, 9]] {
        assert_eq!(code(wrong, false), invalid, "{wrong:?}");
    }
    assert_eq!(code(&[1, 2], false), Err(ErrorCode::InvalidReplicationFactor));
    assert_eq!(code(&[1, 2, 3], false), Ok(()), "it has them");
    let asked = PartitionMove { topic_id: TOPIC, partition: PARTITION, replicas: None };
    let unknown = PartitionMove { partition: PartitionId(1), ..asked.clone() };
    let moves = vec![asked.clone(), asked, unknown];
    let command = AlterPartitionReassignments { moves, may_change_count: true };
    let reply = cluster.submit(command).expect("is judged");
    let codes: Vec<_> = reply.into_iter().map(|it| it.expect_err("is refused").code).collect();
    let expected = [
        ErrorCode::NoReassignmentInProgress,
        ErrorCode::InvalidRequest,
        ErrorCode::UnknownTopicOrPartition,
    ];
    assert_eq!(codes, expected);
}

#[test]
fn new_partitions_of_a_topic_on_its_way_have_as_many_replicas_as_it_is_to_have() {
    let mut cluster = five();
    moves(&mut cluster, &[4, 5]);
    let topic = PartitionsIncrease { name: "orders".to_owned(), count: 2, assignments: None };
    let command = CreatePartitions { topics: vec![topic], validate_only: false };
    cluster.submit(command).expect("is judged").remove(0).expect("are made");
    assert_eq!(cluster.partition(1).replicas.len(), 2);
}
