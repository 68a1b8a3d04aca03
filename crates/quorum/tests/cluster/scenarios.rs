//! One story each.

use std::time::Duration;

use logway_metadata::ControllerError;
use logway_metadata::controller::{AllocateProducerIds, CreateTopics, NewTopic, RegisterBroker};
use logway_model::{BrokerId, DirectoryId, TopicId, Uuid};
use logway_quorum::{
    AdmissionRefusal, MembersChange, MetadataQuorum, Mutation, QuorumError, Start,
};
use tokio::time::{Instant, sleep, timeout};

use crate::in_virtual_time;
use crate::nodes::{DiskPace, Nodes};

pub(crate) fn topic(number: u32) -> CreateTopics {
    let mut id = [1; 16];
    id[..4].copy_from_slice(&number.to_be_bytes());
    let topic = NewTopic {
        name: format!("topic-{number}"),
        id: TopicId(Uuid(id)),
        num_partitions: 1,
        replication_factor: 1,
        assignments: Vec::new(),
        configs: Vec::new(),
    };
    CreateTopics { topics: vec![topic], validate_only: false }
}

pub(crate) async fn register(quorum: &MetadataQuorum) -> Result<(), QuorumError> {
    let broker =
        RegisterBroker { id: BrokerId(1), endpoint: None, rack: None, log_dirs: Vec::new() };
    quorum.submit(broker).await.map(|_| ())
}

/// Creates a topic, which the asked node then knows.
pub(crate) async fn create(quorum: &MetadataQuorum, number: u32) -> Result<(), QuorumError> {
    let committed = quorum.submit(topic(number)).await?;
    let result: Result<_, ControllerError> = committed.reply.into_iter().next().expect("is one");
    result?;
    assert!(quorum.image().topic(&format!("topic-{number}")).is_some(), "who asked sees it");
    Ok(())
}

#[test]
fn one_node_grows_to_three_voters_and_every_node_takes_commands() {
    in_virtual_time(async {
        let mut nodes = Nodes::new(1);
        nodes.grow_to(3, 3).await;
        register(&nodes.quorum(2)).await.expect("is forwarded");
        for number in 1..=3 {
            create(&nodes.quorum(number), number as u32).await.expect("is created");
        }
        let index = nodes.quorum(3).indexed_image().index;
        nodes
            .until("all have all", |nodes| {
                nodes.running().all(|(_, quorum)| quorum.indexed_image().index >= index)
            })
            .await;
        for (number, quorum) in nodes.running() {
            assert_eq!(quorum.image(), nodes.quorum(1).image(), "node {number}");
            assert_eq!(quorum.members().len(), 3);
        }
        let ids: Vec<_> = nodes.all.values().map(|node| node.id.expect("is known").0).collect();
        assert_eq!(ids, [1, 2, 3]);
    });
}

#[test]
fn a_killed_leader_is_followed_within_half_a_second() {
    let mut times = Vec::new();
    for seed in 0..20 {
        let time = in_virtual_time(async move {
            let mut nodes = Nodes::new(seed);
            // A sync takes up to 20 ms.
            nodes.set_disk_pace(DiskPace { pause_max_ms: 20, ..DiskPace::FAST });
            nodes.grow_to(3, 3).await;
            register(&nodes.quorum(1)).await.expect("is registered");
            let leader = nodes.led().await;
            let other = if leader == 1 { 2 } else { 1 };
            nodes.kill(leader);
            let begin = Instant::now();
            create(&nodes.quorum(other), 1).await.expect("is created");
            let time = begin.elapsed();
            nodes.start(leader).await.expect("is back");
            nodes
                .until("it follows", |nodes| {
                    nodes.quorum(leader).image().topic("topic-1").is_some()
                })
                .await;
            time
        });
        times.push(time);
    }
    times.sort();
    println!("until a command is committed after kill -9: {times:?}");
    assert!(times[times.len() - 1] < Duration::from_millis(500), "{times:?}");
}

#[test]
fn what_a_controller_decides_by_itself_goes_to_no_other_one() {
    in_virtual_time(async {
        let mut nodes = Nodes::new(1);
        nodes.grow_to(3, 3).await;
        register(&nodes.quorum(1)).await.expect("is registered");
        let leader = nodes.led().await;
        let others: Vec<_> = (1..=3).filter(|&number| number != leader).collect();
        let refused = nodes.quorum(others[0]).submit_as_controller(topic(1)).await;
        assert!(matches!(refused, Err(QuorumError::NotLeader)), "{refused:?}");

        for &other in &others {
            nodes.network.cut_both(&nodes.address(leader), &nodes.address(other));
        }
        // It does not know yet that it is alone.
        let quorum = nodes.quorum(leader);
        let late = tokio::spawn(async move { quorum.submit_as_controller(topic(2)).await });
        create(&nodes.quorum(others[0]), 3).await.expect("another one leads");
        nodes.network.heal();
        let late = late.await.expect("no panic");
        assert!(matches!(late, Err(QuorumError::OutcomeUnknown)), "{late:?}");
        create(&nodes.quorum(leader), 4).await.expect("it is back");
        for number in 1..=2 {
            assert!(nodes.quorum(leader).image().topic(&format!("topic-{number}")).is_none());
        }
    });
}

/// Whatever the change of the voters has come to then: who leads without the first node gets changes committed.
#[test]
fn a_first_node_that_is_lost_while_others_become_voters_is_done_without_or_nobody_leads() {
    let mut led = 0;
    for seed in 0..60 {
        in_virtual_time(async {
            let mut nodes = Nodes::new(seed);
            nodes.found().await;
            for number in 2..=3 {
                nodes.add(number, None, Start::Join);
                nodes.join(number).await.unwrap_or_else(|error| panic!("node {number}: {error}"));
            }
            sleep(Duration::from_millis(seed * 12)).await;
            for other in 2..=3 {
                nodes.network.cut_both(&nodes.address(1), &nodes.address(other));
            }
            sleep(Duration::from_secs(3)).await;
            let leads = |number: usize| {
                let quorum = nodes.quorum(number);
                quorum.status().leader == nodes.all[&number].id
            };
            if leads(2) || leads(3) {
                led += 1;
                let committed = nodes.quorum(2).submit(AllocateProducerIds).await;
                committed.unwrap_or_else(|error| {
                    panic!("seed {seed}: {error}: {:#?}", nodes.statuses())
                });
            }
        });
    }
    assert!(led > 10, "{led} led");
}

#[test]
fn a_leader_that_stops_cleanly_is_followed_at_once() {
    for seed in 0..10 {
        in_virtual_time(async move {
            let mut nodes = Nodes::new(seed);
            nodes.grow_to(3, 3).await;
            register(&nodes.quorum(1)).await.expect("is registered");
            let leader = nodes.led().await;
            sleep(Duration::from_secs(1)).await;
            let begin = Instant::now();
            assert!(nodes.quorum(leader).hand_over().await, "another node leads");
            let time = begin.elapsed();
            assert!(time < Duration::from_millis(50), "seed {seed}: {time:?}");
            nodes.quorum(leader).shutdown().await.expect("stops");
            let other = if leader == 1 { 2 } else { 1 };
            let begin = Instant::now();
            create(&nodes.quorum(other), 1).await.expect("is created");
            let time = begin.elapsed();
            assert!(time < Duration::from_millis(100), "seed {seed}: {time:?}");
        });
    }
}

#[test]
fn a_node_that_joins_and_has_nothing_yet_never_founds_a_cluster() {
    in_virtual_time(async {
        let mut nodes = Nodes::new(1);
        nodes.found().await;
        // It is admitted, and killed before the leader reaches it.
        nodes.add(2, None, Start::Join);
        let address = nodes.address(2);
        nodes.network.cut(&nodes.address(1), "nobody");
        nodes.join(2).await.expect("is admitted");
        nodes.network.cut_both(&nodes.address(1), &address);
        nodes.add(3, Some(3), Start::Join);
        nodes.start(3).await.expect("waits, not admitted by anybody");
        sleep(Duration::from_secs(10)).await;
        assert_eq!(nodes.quorum(3).status().leader, None);
        assert!(nodes.quorum(3).members().is_empty());
        nodes.kill(3);
        nodes.start(3).await.expect("waits again");
        sleep(Duration::from_secs(10)).await;
        assert_eq!(nodes.quorum(3).status().leader, None);
    });
}

/// A change of the voters that is not committed needs those before it, of whom the founder is the only one here.
#[test]
fn a_node_may_stop_as_soon_as_the_others_are_shown_as_voters() {
    for seed in 0..20 {
        in_virtual_time(async move {
            let mut nodes = Nodes::new(seed);
            nodes.found().await;
            register(&nodes.quorum(1)).await.expect("is registered");
            for number in 2..=3 {
                nodes.add(number, None, Start::Join);
                nodes.join(number).await.unwrap_or_else(|error| panic!("node {number}: {error}"));
            }
            nodes.until("three vote", |nodes| nodes.quorum(1).status().voters.len() == 3).await;
            nodes.kill(1);
            let asked = nodes.quorum(2);
            let told = timeout(Duration::from_secs(20), asked.submit(AllocateProducerIds));
            let told = told.await.unwrap_or_else(|_| panic!("seed {seed}: nobody leads"));
            told.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        });
    }
}

#[test]
fn a_known_number_with_an_empty_disk_is_refused_until_it_is_removed() {
    in_virtual_time(async {
        let mut nodes = Nodes::new(1);
        nodes.grow_to(3, 3).await;
        register(&nodes.quorum(1)).await.expect("is registered");
        nodes.power_cut(2);
        // The same number with a new disk.
        nodes.add(12, Some(2), Start::Join);
        let refusal = nodes.join(12).await.expect_err("is known with another disk");
        let QuorumError::Admission(AdmissionRefusal::NumberTaken { id, .. }) = refusal else {
            panic!("{refusal}")
        };
        assert_eq!(id, BrokerId(2));
        // Nor does it take the other one's place in elections or commits when it just starts.
        nodes.start(12).await.expect("waits");
        let removed = nodes.quorum(3).change_members(MembersChange::remove(BrokerId(2))).await;
        assert_eq!(removed.expect("is removed"), BrokerId(2));
        nodes.kill(12);
        nodes.join(12).await.expect("its number is free");
        nodes.until("it votes", |nodes| nodes.quorum(12).status().voters.len() == 3).await;
        create(&nodes.quorum(12), 1).await.expect("is created");
    });
}

#[test]
fn a_leader_that_is_removed_hands_over_first() {
    in_virtual_time(async {
        let mut nodes = Nodes::new(3);
        nodes.grow_to(4, 3).await;
        register(&nodes.quorum(1)).await.expect("is registered");
        let leader = nodes.led().await;
        let id = nodes.all[&leader].id.expect("is known");
        let asked = nodes.quorum(leader);
        let removed = asked.change_members(MembersChange::remove(id));
        let removed = timeout(Duration::from_secs(10), removed).await.expect("in bounded time");
        assert_eq!(removed.expect("another one does it"), id);
        nodes.kill(leader);
        nodes
            .until("the learner votes in its place", |nodes| {
                nodes.running().all(|(_, quorum)| {
                    let voters = quorum.status().voters;
                    voters.len() == 3 && voters.iter().all(|voter| voter.id != id)
                })
            })
            .await;
        let (number, quorum) = nodes.running().next().expect("runs");
        let told = quorum.submit(AllocateProducerIds).await;
        told.unwrap_or_else(|error| panic!("node {number}: {error}"));
    });
}

/// Node 3 is away while the log is dropped, and its power fails at some change of its disk while it gets
/// the snapshot. Says what goes wrong.
async fn get_snapshot(seed: u64, mutation: Option<Mutation>) -> Result<(), String> {
    let mut nodes = Nodes::new(seed);
    nodes.mutation = mutation;
    nodes.grow_to(3, 3).await;
    register(&nodes.quorum(1)).await.expect("is registered");
    let away = (1..=3).find(|&number| Some(number) != nodes.leader()).expect("follows");
    nodes.kill(away);
    let asked = if away == 1 { 2 } else { 1 };
    for _ in 0..60 {
        nodes.quorum(asked).submit(AllocateProducerIds).await.expect("are given");
    }
    for (_, quorum) in nodes.running() {
        quorum.snapshot().await.expect("is written");
    }
    // The log before the snapshot is dropped with the next commits.
    for _ in 0..20 {
        nodes.quorum(asked).submit(AllocateProducerIds).await.expect("are given");
    }
    nodes.crash_at_change(away, seed);
    _ = nodes.start(away).await;
    sleep(Duration::from_secs(2)).await;
    nodes.power_cut(away);
    nodes.start(away).await.map_err(|error| error.to_string())?;
    let index = nodes.quorum(asked).indexed_image().index;
    nodes.until("it has all", |nodes| nodes.quorum(away).indexed_image().index >= index).await;
    assert_eq!(nodes.quorum(away).image(), nodes.quorum(asked).image());
    Ok(())
}

#[test]
fn the_power_may_fail_at_any_point_of_a_snapshot_that_another_node_sends() {
    for seed in (1..60).step_by(4) {
        let got = in_virtual_time(get_snapshot(seed, None));
        got.unwrap_or_else(|error| panic!("change {seed}: {error}"));
    }
}

#[test]
fn a_log_that_is_dropped_too_early_is_noticed() {
    let early = Some(Mutation::PurgesEarly);
    let found = (1..60).find_map(|seed| in_virtual_time(get_snapshot(seed, early)).err());
    let error = found.expect("the power fails between the two");
    assert!(error.contains("that is gone or older"), "{error}");
}

#[test]
fn a_minority_refuses_commands_in_bounded_time_and_leads_nobody() {
    in_virtual_time(async {
        let mut nodes = Nodes::new(5);
        nodes.grow_to(3, 3).await;
        register(&nodes.quorum(1)).await.expect("is registered");
        let leader = nodes.led().await;
        for other in (1..=3).filter(|&number| number != leader) {
            nodes.network.cut_both(&nodes.address(leader), &nodes.address(other));
        }
        let begin = Instant::now();
        let error = create(&nodes.quorum(leader), 1).await.expect_err("has no majority");
        assert!(begin.elapsed() < Duration::from_secs(6), "{:?}", begin.elapsed());
        assert!(matches!(error, QuorumError::OutcomeUnknown | QuorumError::NoMajority), "{error}");
        let error = create(&nodes.quorum(leader), 2).await.expect_err("has no majority");
        assert!(matches!(error, QuorumError::NoMajority), "{error}");
        let other = if leader == 1 { 2 } else { 1 };
        create(&nodes.quorum(other), 3).await.expect("the majority goes on");
        nodes.network.heal();
        nodes
            .until("the old leader follows", |nodes| {
                nodes.quorum(leader).image().topic("topic-3").is_some()
            })
            .await;
    });
}

#[test]
fn who_cannot_hear_the_leader_does_not_disturb_those_who_can() {
    for is_one_way in [false, true] {
        in_virtual_time(async move {
            let mut nodes = Nodes::new(7);
            nodes.grow_to(3, 3).await;
            register(&nodes.quorum(1)).await.expect("is registered");
            let leader = nodes.led().await;
            let epoch = nodes.quorum(leader).status().epoch;
            let deaf = (1..=3).find(|&number| number != leader).expect("follows");
            nodes.network.cut(&nodes.address(leader), &nodes.address(deaf));
            if !is_one_way {
                nodes.network.cut(&nodes.address(deaf), &nodes.address(leader));
            }
            for number in 0..20 {
                sleep(Duration::from_millis(250)).await;
                create(&nodes.quorum(leader), number).await.expect("is created");
            }
            assert_eq!(nodes.quorum(leader).status().epoch, epoch);
            nodes.network.heal();
            nodes
                .until("it has all", |nodes| nodes.quorum(deaf).image().topic("topic-19").is_some())
                .await;
            assert_eq!(nodes.quorum(leader).status().epoch, epoch, "nor when it is back");
        });
    }
}

/// openraft#2080: the old leader reaches one node only, and its heartbeats kept that one from voting.
#[test]
fn a_leader_that_reaches_a_bridge_only_does_not_keep_the_majority_from_electing() {
    in_virtual_time(async {
        let mut nodes = Nodes::new(9);
        nodes.grow_to(5, 5).await;
        register(&nodes.quorum(1)).await.expect("is registered");
        let leader = nodes.led().await;
        let others: Vec<usize> = (1..=5).filter(|&number| number != leader).collect();
        let [bridge, a, b, isolated] = others[..] else { panic!("there are five") };
        for number in [a, b] {
            nodes.network.cut_both(&nodes.address(leader), &nodes.address(number));
        }
        for number in [leader, bridge, a, b] {
            nodes.network.cut_both(&nodes.address(isolated), &nodes.address(number));
        }
        create(&nodes.quorum(a), 1).await.expect("the majority elects");
        assert_ne!(nodes.leader(), Some(leader));
    });
}

/// Messages get from the leader to the others, but none gets back.
#[test]
fn a_leader_that_hears_nobody_does_not_keep_others_from_electing() {
    in_virtual_time(async {
        let mut nodes = Nodes::new(11);
        nodes.grow_to(3, 3).await;
        register(&nodes.quorum(1)).await.expect("is registered");
        let leader = nodes.led().await;
        for other in (1..=3).filter(|&number| number != leader) {
            nodes.network.cut(&nodes.address(other), &nodes.address(leader));
        }
        let other = if leader == 1 { 2 } else { 1 };
        create(&nodes.quorum(other), 1).await.expect("the others elect");
    });
}

#[test]
fn a_disk_that_stalls_under_the_leader_ends_no_leadership() {
    in_virtual_time(async {
        let mut nodes = Nodes::new(13);
        nodes.grow_to(3, 3).await;
        register(&nodes.quorum(1)).await.expect("is registered");
        let leader = nodes.led().await;
        let epoch = nodes.quorum(leader).status().epoch;
        nodes.set_disk_pace(DiskPace { pause_max_ms: 250, stalls: 0, stall_max_ms: 1 });
        for number in 0..20 {
            create(&nodes.quorum(leader), number).await.expect("is created");
        }
        assert_eq!(nodes.quorum(leader).status().epoch, epoch);
    });
}

#[test]
fn a_leader_whose_disk_hangs_is_followed_by_another_one() {
    in_virtual_time(async {
        let mut nodes = Nodes::new(14);
        nodes.grow_to(3, 3).await;
        register(&nodes.quorum(1)).await.expect("is registered");
        let leader = nodes.led().await;
        let other = (1..=3).find(|&number| number != leader).expect("is one");
        nodes.hang_disk(Some((leader, 1)));
        let began = Instant::now();
        // The leader cannot write it down; nobody knows what comes of it.
        let unknown = nodes.quorum(leader).submit(topic(1)).await.map(|_| ());
        assert!(matches!(unknown, Err(QuorumError::OutcomeUnknown)), "{unknown:?}");
        create(&nodes.quorum(other), 2).await.expect("another one leads");
        let took = began.elapsed();
        assert!(took < Duration::from_secs(10), "{took:?}");
        nodes.hang_disk(None);
        sleep(Duration::from_secs(60)).await;
        create(&nodes.quorum(leader), 3).await.expect("it follows again");
        let (one, two) = (nodes.quorum(leader), nodes.quorum(other));
        nodes.until("both have the same", |_| one.image() == two.image()).await;
    });
}

#[test]
fn a_node_that_moves_tells_the_others_where_it_is() {
    in_virtual_time(async {
        let mut nodes = Nodes::new(15);
        nodes.grow_to(3, 3).await;
        register(&nodes.quorum(1)).await.expect("is registered");
        let follower = (1..=3).find(|&number| Some(number) != nodes.leader()).expect("follows");
        nodes.kill(follower);
        nodes.all.get_mut(&follower).expect("is there").address = "elsewhere:9093".to_owned();
        nodes.start(follower).await.expect("is back");
        let id = nodes.all[&follower].id.expect("is known");
        nodes
            .until("all know", |nodes| {
                nodes.running().all(|(_, quorum)| {
                    let mut members = quorum.members().into_iter();
                    members.any(|member| member.id == id && member.address == "elsewhere:9093")
                })
            })
            .await;
        create(&nodes.quorum(follower), 1).await.expect("is created");
    });
}

#[test]
fn a_node_that_was_always_alone_and_had_no_name_grows() {
    in_virtual_time(async {
        let mut nodes = Nodes::new(17);
        nodes.add(1, Some(1), Start::Found);
        let node = nodes.all.get_mut(&1).expect("is there");
        let (address, directory) = (node.address.clone(), node.directory);
        (node.address, node.directory) = (String::new(), DirectoryId::UNASSIGNED);
        nodes.start(1).await.expect("founds a cluster");
        register(&nodes.quorum(1)).await.expect("is registered");
        nodes.kill(1);
        let node = nodes.all.get_mut(&1).expect("is there");
        (node.address, node.directory) = (address.clone(), directory);
        nodes.start(1).await.expect("is back");
        for number in 2..=3 {
            nodes.add(number, None, Start::Join);
            nodes.join(number).await.expect("is admitted");
        }
        nodes
            .until("all know node 1", |nodes| {
                nodes.running().all(|(_, quorum)| {
                    quorum.members().iter().any(|member| member.address == address)
                        && quorum.status().voters.len() == 3
                })
            })
            .await;
        create(&nodes.quorum(3), 1).await.expect("is created");
    });
}

#[test]
fn a_leader_that_comes_back_does_not_take_old_metadata_for_the_newest() {
    in_virtual_time(async {
        for seed in 0..20 {
            let mut nodes = Nodes::new(100 + seed);
            nodes.grow_to(3, 3).await;
            let leader = nodes.led().await;
            register(&nodes.quorum(1)).await.expect("is registered");
            let asked = 1 + leader % 3;
            create(&nodes.quorum(asked), 1).await.expect("is created");
            // Nobody else could be elected meanwhile.
            (1..=3).for_each(|number| nodes.power_cut(number));
            for number in 1..=3 {
                nodes.start(number).await.expect("is back");
            }
            let quorum = nodes.quorum(leader);
            quorum.wait_until_current().await.expect("there is a leader");
            assert!(quorum.image().topic("topic-1").is_some(), "seed {seed}: it was committed");
        }
    });
}
