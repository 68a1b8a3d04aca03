//! A broker leads what is in its data directories, and nothing else.

use super::*;

#[test]
fn what_a_broker_has_lost_with_a_directory_others_lead() {
    let mut cluster = three();
    let (leader, epoch, isr) = cluster.state();
    let lost = leader.expect("somebody leads");
    cluster.register(lost, Vec::new());
    let (now, new_epoch, left) = cluster.state();
    assert!(now.is_some() && now != leader && new_epoch == epoch + 1 && !left.contains(&lost));
    assert_eq!(left.len(), isr.len() - 1);
    // The last one in sync stays the last one, though it cannot lead.
    let others: Vec<i32> = left;
    others.iter().for_each(|id| cluster.fence(*id));
    let (_, _, last) = cluster.state();
    assert_eq!(last.len(), 1);
    let (last, log_dirs) = (last[0], cluster.log_dirs(last[0]));
    cluster.register(last, Vec::new());
    cluster.set(last, cluster.epoch(last), BrokerState::Active).expect("is back");
    assert_eq!(cluster.state().0, None, "its directory is not there");
    cluster.fence(last);
    cluster.register(last, log_dirs);
    cluster.set(last, cluster.epoch(last), BrokerState::Active).expect("is back");
    assert_eq!(cluster.state().0, Some(last));
}

#[test]
fn who_has_lost_a_directory_does_not_lead_what_was_in_it() {
    let mut cluster = three_of_which_two_are_needed("1");
    let leader = cluster.state().0.expect("leads");
    let others: Vec<i32> = (1..=3).filter(|id| *id != leader).collect();
    cluster.fence(others[0]);
    let log_dirs = cluster.log_dirs(others[1]);
    cluster.register(others[1], vec![DirectoryId(Uuid([99; 16]))]);
    assert_eq!((cluster.state().2, cluster.eligible()), (vec![leader], vec![others[1]]));
    cluster.fence(leader);
    assert_eq!(cluster.state().0, None, "the only one that serves has not what it had");
    let elect = |election| ElectLeaders { election, partitions: vec![(TOPIC, PARTITION)] };
    for election in [Election::Preferred, Election::Unclean] {
        cluster.submit(elect(election)).expect("is judged").remove(0).expect_err("nobody can");
    }
    cluster.set(leader, cluster.epoch(leader), BrokerState::Active).expect("is back");
    assert_eq!(cluster.state().0, Some(leader));
    // The disk is back, with another start: so it is where the eligible one leads again.
    cluster.fence(leader);
    cluster.register(others[1], log_dirs);
    cluster.back(others[1], true);
    assert_eq!(cluster.state().0, Some(others[1]));
}

#[test]
fn a_replica_that_is_found_elsewhere_leads_from_there() {
    let mut cluster = three();
    let (leader, ..) = cluster.state();
    let last = leader.expect("leads");
    (1..=3).filter(|id| *id != last).for_each(|id| cluster.fence(id));
    cluster.fence(last);
    let elsewhere = DirectoryId(Uuid([99; 16]));
    cluster.register(last, vec![elsewhere]);
    cluster.set(last, cluster.epoch(last), BrokerState::Active).expect("is back");
    assert_eq!(cluster.state().0, None, "nobody knows yet where it is");
    let replica = ReplicaDirectory { topic_id: TOPIC, partition: PARTITION, directory: elsewhere };
    let assign = |replica| AssignReplicasToDirs { broker: BrokerId(last), replicas: vec![replica] };
    let gone = ReplicaDirectory { directory: DirectoryId(Uuid([98; 16])), ..replica };
    let before = cluster.image.clone();
    cluster.submit(assign(gone)).expect("is passed over");
    assert_eq!(cluster.image, before, "an earlier node of this number has said that");
    cluster.submit(assign(replica)).expect("is noted");
    assert_eq!(cluster.state().0, Some(last));
}

#[test]
fn a_replica_of_which_no_directory_was_known_is_assigned_to_one() {
    let mut cluster = three();
    let mut records = cluster.image.to_records();
    for record in &mut records {
        if let MetadataRecord::Partition(partition) = record {
            partition.directories.clear();
        }
    }
    cluster.image = MetadataImage::default().apply(&records).expect("fit, as in version 0");
    let directory = cluster.log_dirs(2)[0];
    let replica = ReplicaDirectory { topic_id: TOPIC, partition: PARTITION, directory };
    let assign = AssignReplicasToDirs { broker: BrokerId(2), replicas: vec![replica] };
    cluster.submit(assign).expect("is noted");
    let partition = cluster.partition(0);
    let of = |id| partition.directory_of(BrokerId(id));
    let unassigned = DirectoryId::UNASSIGNED;
    assert_eq!([of(1), of(2), of(3)], [unassigned, directory, unassigned]);
}
