//! A node with an empty directory takes the place of one that is lost.

use super::*;

/// The old node goes, if it may.
fn replacement(id: i32) -> RemoveBroker {
    RemoveBroker { is_replaced: true, ..removal(id) }
}

/// The start of a node with a directory of its own.
fn start_with(id: i32, directory: u8) -> StartBroker {
    StartBroker {
        id: BrokerId(id),
        incarnation: Uuid([directory; 16]),
        endpoint: None,
        listeners: Vec::new(),
        rack: None,
        log_dirs: vec![DirectoryId(Uuid([directory; 16]))],
        serves_already: false,
        was_clean: true,
    }
}

#[test]
fn a_broker_that_serves_is_not_replaced() {
    let mut cluster = three();
    let before = cluster.image.clone();
    let refusal = cluster.submit(replacement(2)).expect_err("it serves");
    assert_eq!(refusal.code, ErrorCode::DuplicateBrokerRegistration);
    assert_eq!(refusal.message, "Broker 2 serves. Stop it, and wait until it is fenced.");
    assert_eq!(cluster.image, before);
    cluster.fence(2);
    cluster.submit(replacement(2)).expect("it is dead");
}

#[test]
fn the_last_one_in_sync_is_not_replaced() {
    let mut cluster = three_of_which_two_are_needed("1");
    let [_, _, last] = all_fenced(&mut cluster);
    let refusal = cluster.submit(replacement(last)).expect_err("nobody else has the records");
    assert_eq!(refusal.code, ErrorCode::PolicyViolation);
    let expected = format!(
        "Broker {last} alone has all records of 1 partition(s), the first of which is orders-0."
    );
    assert_eq!(refusal.message, expected);
    assert_eq!(cluster.state().2, [last]);
    cluster.submit(removal(last)).expect("somebody gives them up by a removal");
}

#[test]
fn an_empty_directory_is_in_sync_with_nothing_until_its_leader_says_so_of_it() {
    let mut cluster = three_of_which_two_are_needed("1");
    let leader = cluster.state().0.expect("leads");
    let lost = if leader == 3 { 2 } else { 3 };
    let third = 6 - leader - lost;
    let old_epoch = cluster.epoch(lost);
    cluster.fence(third);
    cluster.fence(lost);
    let before = (cluster.state(), cluster.eligible());
    assert_eq!(before, ((Some(leader), 0, vec![leader]), vec![lost]), "the old one might lead");
    cluster.submit(replacement(lost)).expect("it is dead, and the leader has everything");
    assert!(!cluster.eligible().contains(&lost), "an empty directory must not lead");

    let epoch = cluster.submit(start_with(lost, 99)).expect("is the new one");
    assert!(epoch > old_epoch);
    cluster.set(lost, epoch, BrokerState::Active).expect("serves");
    assert_eq!(cluster.state(), (Some(leader), 0, vec![leader]), "it has caught up with nothing");
    assert!(cluster.partition(0).replicas.contains(&BrokerId(lost)));
    let directory = cluster.partition(0).directory_of(BrokerId(lost));
    assert_eq!(directory, DirectoryId::UNASSIGNED, "it makes its replica anew");
    // The leader dies: nobody leads rather than the empty one.
    cluster.fence(leader);
    assert_eq!(cluster.state().0, None);
    cluster.set(leader, cluster.epoch(leader), BrokerState::Active).expect("is back");
    assert_eq!(cluster.state().0, Some(leader));

    // What the leader has seen of the old life says nothing of the new one.
    let change = cluster.alter(leader, &[leader, lost], |change| {
        let of_lost = change.partitions[0].isr.last_mut().expect("is in it");
        of_lost.1 = old_epoch;
    });
    change.expect_err("that was the old directory");
    cluster.alter(leader, &[leader, lost], |_| ()).expect("it has caught up");
    assert_eq!(cluster.state().2.len(), 2);
}

#[test]
fn the_old_directory_does_not_come_back() {
    let mut cluster = three();
    cluster.fence(3);
    cluster.submit(replacement(3)).expect("it is dead");
    let epoch = cluster.submit(start_with(3, 99)).expect("is the new one");
    cluster.set(3, epoch, BrokerState::Active).expect("serves");
    let refusal = cluster.start(3, None, 7).expect_err("the old disk is back");
    assert_eq!(refusal.code, ErrorCode::BrokerIdNotRegistered);
    assert_eq!(refusal.message, "Broker 3 was removed from the cluster.");
    let before = cluster.image.clone();
    for late in [replacement(3), removal(3)] {
        cluster.submit(late).expect("was done before");
        assert_eq!(cluster.image, before, "that is the new one");
    }
    let directory = Some(DirectoryId(Uuid([99; 16])));
    let again = RemoveBroker { directory, ..replacement(3) };
    let again = cluster.submit(again).expect_err("it serves");
    assert_eq!(again.code, ErrorCode::DuplicateBrokerRegistration);
}

/// The last one in sync is removed when another one is eligible. Nobody has its records, and its successor has none.
fn removed_as_the_last(is_successor_first: bool, directory: Option<DirectoryId>) {
    let mut cluster = three_of_which_two_are_needed("1");
    let [_, second, last] = all_fenced(&mut cluster);
    if let Some(directory) = directory {
        let replicas = vec![ReplicaDirectory { topic_id: TOPIC, partition: PARTITION, directory }];
        let assigned = AssignReplicasToDirs { broker: BrokerId(last), replicas };
        cluster.submit(assigned).expect("is moved");
    }
    cluster.submit(removal(last)).expect("somebody gives it up");
    assert_eq!((cluster.state().0, cluster.eligible()), (None, vec![second]));
    let succeed = |cluster: &mut Cluster| {
        let epoch = cluster.submit(start_with(last, 99)).expect("is the new one");
        cluster.set(last, epoch, BrokerState::Active).expect("serves");
    };
    if is_successor_first {
        succeed(&mut cluster);
        assert_eq!(cluster.state().0, None, "it has nothing");
        let election = Election::Preferred;
        let elected = ElectLeaders { election, partitions: vec![(TOPIC, PARTITION)] };
        _ = cluster.submit(elected).expect("is judged");
        assert_eq!(cluster.state().0, None, "it has nothing");
    }
    cluster.back(second, false);
    assert_eq!((cluster.state().0, cluster.state().2), (Some(second), vec![second]));
    assert_eq!(cluster.eligible(), [], "what was in sync is gone with its disk");
    if !is_successor_first {
        succeed(&mut cluster);
    }
    let directory = cluster.partition(0).directory_of(BrokerId(last));
    assert_eq!(directory, DirectoryId::UNASSIGNED, "it makes its replica anew");
    cluster.fence(second);
    assert_eq!(cluster.state().0, None, "the successor must not lead");
}

#[test]
fn who_succeeds_the_last_one_in_sync_begins_with_nothing() {
    for is_successor_first in [false, true] {
        removed_as_the_last(is_successor_first, None);
        // On another disk of the broker than its metadata.
        removed_as_the_last(is_successor_first, Some(DirectoryId(Uuid([77; 16]))));
    }
}

#[test]
fn an_empty_successor_leads_when_there_is_nobody_else_and_somebody_wants_it_so() {
    let mut cluster = three();
    [1, 2].into_iter().for_each(|id| cluster.fence(id));
    cluster.submit(removal(3)).expect("is removed");
    let epoch = cluster.submit(start_with(3, 99)).expect("is the new one");
    cluster.set(3, epoch, BrokerState::Active).expect("serves");
    assert_eq!((cluster.state().0, cluster.state().2), (None, vec![3]));
    let election = Election::Unclean;
    let elected = ElectLeaders { election, partitions: vec![(TOPIC, PARTITION)] };
    cluster.submit(elected).expect("is judged").remove(0).expect("the operator wants it so");
    assert_eq!((cluster.state().0, cluster.state().2), (Some(3), vec![3]));
    let directory = cluster.partition(0).directory_of(BrokerId(3));
    assert_eq!(directory, DirectoryId::UNASSIGNED, "it makes its replica anew");
}
