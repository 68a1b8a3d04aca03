//! Moves that nobody has asked for.

use std::collections::BTreeMap;

use logway_metadata::balance::{BalanceRules, Occasion, Occasions, Sizes, UnaskedMoves, moves_for};
use logway_metadata::controller::{AlterPartitionReassignments, BalanceUnasked, PartitionMove};
use logway_metadata::event::events_of;

use super::*;

const RULES: BalanceRules = BalanceRules { gone_ms: 60_000, disk_percent: 80 };

const NO_DISKS: BTreeMap<BrokerId, u8> = BTreeMap::new();

/// So long a broker that is new is left alone.
const SETTLED_MS: u64 = 10_000;

fn next(occasions: &mut Occasions, cluster: &Cluster, now_ms: u64) -> Option<Occasion> {
    occasions.follow(&cluster.image, now_ms);
    occasions.next(&cluster.image, RULES, &NO_DISKS, now_ms)
}

fn join(cluster: &mut Cluster, id: i32) {
    let epoch = cluster.start(id, None, 1).expect("starts");
    cluster.set(id, epoch, BrokerState::Active).expect("serves");
}

fn sizes(cluster: &Cluster, bytes: u64) -> Sizes {
    let topic = cluster.image.topic_by_id(TOPIC).expect("exists");
    topic.numbered_partitions().map(|(number, _)| ((TOPIC, number), bytes)).collect()
}

/// Begins what an occasion is for. Says how many partitions that moves.
fn balance(cluster: &mut Cluster, occasion: Occasion) -> usize {
    let UnaskedMoves { moves, bytes } = moves_for(&cluster.image, occasion, &sizes(cluster, 10));
    let reply = cluster.submit(BalanceUnasked { occasion, moves, bytes }).expect("is judged");
    assert!(reply.iter().all(Result::is_ok), "{reply:?}");
    reply.len()
}

fn moved(cluster: &Cluster) -> Vec<i32> {
    let topic = cluster.image.topic_by_id(TOPIC).expect("exists");
    let numbered = topic.numbered_partitions();
    numbered.filter(|(_, it)| it.reassignment.is_some()).map(|(number, _)| number.0).collect()
}

fn cancel(cluster: &mut Cluster) {
    let cancelled = |number: i32| PartitionMove {
        topic_id: TOPIC,
        partition: PartitionId(number),
        replicas: None,
    };
    let moves = moved(cluster).into_iter().map(cancelled).collect();
    let command = AlterPartitionReassignments { moves, may_change_count: false };
    cluster.submit(command).expect("is judged");
}

#[test]
fn a_broker_that_has_joined_gets_its_share_once_it_has_settled() {
    let mut cluster = Cluster::of(&[(1, None), (2, None)]);
    cluster.create(6, 1);
    let mut occasions = Occasions::new(&cluster.image, 0);
    assert_eq!(next(&mut occasions, &cluster, SETTLED_MS), None, "nobody is new");
    join(&mut cluster, 3);
    assert_eq!(next(&mut occasions, &cluster, 20_000), None, "others may be about to join");
    let joined = Occasion::Joined(BrokerId(3));
    assert_eq!(next(&mut occasions, &cluster, 20_000 + SETTLED_MS), Some(joined));
    assert_eq!(balance(&mut cluster, joined), 2, "a third of six");
    occasions.is_over(joined);
    // What somebody has cancelled is not begun again.
    cancel(&mut cluster);
    assert_eq!(moved(&cluster), []);
    assert_eq!(next(&mut occasions, &cluster, 200_000), None);
}

#[test]
fn a_broker_that_falls_silent_while_it_settles_is_not_waited_for() {
    let mut cluster = Cluster::of(&[(1, None), (2, None)]);
    cluster.create(6, 1);
    let mut occasions = Occasions::new(&cluster.image, 0);
    join(&mut cluster, 3);
    assert_eq!(next(&mut occasions, &cluster, 1_000), None);
    cluster.fence(3);
    assert_eq!(next(&mut occasions, &cluster, 50_000), None);
    cluster.back(3, true);
    assert_eq!(next(&mut occasions, &cluster, 51_000), None, "it has just come back");
    let joined = Some(Occasion::Joined(BrokerId(3)));
    assert_eq!(next(&mut occasions, &cluster, 51_000 + SETTLED_MS), joined);
}

#[test]
fn others_get_the_replicas_of_a_broker_that_is_gone_for_long() {
    let mut cluster = Cluster::of(&[(1, None), (2, None), (3, None), (4, None)]);
    cluster.create(8, 2);
    let held = |cluster: &Cluster| {
        (0..8).filter(|it| cluster.partition(*it).target().contains(&BrokerId(4))).count()
    };
    let count = held(&cluster);
    assert!(count > 0);
    let mut occasions = Occasions::new(&cluster.image, 0);
    cluster.fence(4);
    assert_eq!(next(&mut occasions, &cluster, 1_000), None);
    assert_eq!(next(&mut occasions, &cluster, 60_999), None, "it may come back");
    let gone = Occasion::Gone(BrokerId(4));
    assert_eq!(next(&mut occasions, &cluster, 61_000), Some(gone));
    assert_eq!(balance(&mut cluster, gone), count, "its own and no others");
    assert_eq!(held(&cluster), 0);
    occasions.is_over(gone);
    assert_eq!(next(&mut occasions, &cluster, 500_000), None, "its replicas are on their way");
    cancel(&mut cluster);
    assert_eq!(next(&mut occasions, &cluster, 500_000), None, "it was told once");
    // It is back, and may have nothing.
    cluster.back(4, true);
    assert_eq!(next(&mut occasions, &cluster, 600_000), None);
    let joined = Some(Occasion::Joined(BrokerId(4)));
    assert_eq!(next(&mut occasions, &cluster, 600_000 + SETTLED_MS), joined);
}

#[test]
fn what_nobody_can_copy_and_what_has_nowhere_to_go_stays() {
    let mut cluster = Cluster::of(&[(1, None), (2, None), (3, None)]);
    cluster.create(3, 3);
    cluster.fence(3);
    let gone = Occasion::Gone(BrokerId(3));
    let none = UnaskedMoves::default();
    assert_eq!(moves_for(&cluster.image, gone, &sizes(&cluster, 10)), none, "two are too few");
    let mut cluster = Cluster::of(&[(1, None), (2, None)]);
    cluster.create(4, 1);
    cluster.fence(1);
    let gone = Occasion::Gone(BrokerId(1));
    assert_eq!(moves_for(&cluster.image, gone, &sizes(&cluster, 10)), none, "it alone has them");
}

#[test]
fn a_disk_that_becomes_full_is_told_once_until_it_was_emptier() {
    let cluster = three();
    let mut occasions = Occasions::new(&cluster.image, 0);
    let mut look = |percent: u8, is_over: bool| {
        let disks = BTreeMap::from([(BrokerId(1), 10), (BrokerId(2), percent)]);
        occasions.follow_disks(RULES, &disks);
        let occasion = occasions.next(&cluster.image, RULES, &disks, 0);
        if let Some(occasion) = occasion.filter(|_| is_over) {
            occasions.is_over(occasion);
        }
        occasion
    };
    let full = |percent| Some(Occasion::Full { broker: BrokerId(2), percent });
    assert_eq!(look(79, true), None);
    assert_eq!(look(80, false), full(80));
    assert_eq!(look(81, true), full(81), "the first time nothing could be begun");
    assert_eq!(look(90, true), None);
    assert_eq!(look(76, true), None, "a little emptier");
    assert_eq!(look(85, true), None);
    assert_eq!(look(75, true), None);
    assert_eq!(look(80, true), full(80));
}

#[test]
fn who_is_drained_or_leaves_is_no_occasion() {
    let mut cluster = Cluster::of(&[(1, None), (2, None), (3, None)]);
    cluster.create(3, 2);
    let mut occasions = Occasions::new(&cluster.image, 0);
    for (id, duty) in [(2, "follow"), (3, "leave")] {
        duty::set_duty(&mut cluster, ConfigResource::Broker(BrokerId(id)), Some(duty))
            .expect("is set");
        cluster.fence(id);
    }
    assert_eq!(next(&mut occasions, &cluster, 0), None);
    assert_eq!(next(&mut occasions, &cluster, 100_000), None);
}

#[test]
fn why_it_is_done_is_an_event() {
    let mut cluster = Cluster::of(&[(1, None), (2, None)]);
    cluster.create(6, 1);
    join(&mut cluster, 3);
    let occasion = Occasion::Joined(BrokerId(3));
    let UnaskedMoves { moves, bytes } = moves_for(&cluster.image, occasion, &sizes(&cluster, 10));
    let command = BalanceUnasked { occasion, moves, bytes };
    let decision = command.evaluate(&cluster.image, &cluster.settings).expect("is judged");
    let events = events_of(&cluster.image, &decision.records);
    let told: Vec<&str> =
        events.iter().filter(|it| it.kind.word() == "balance_begun").map(|it| &*it.text).collect();
    let expected = "the cluster balances itself, because node 3 has joined and holds nothing: 2 \
                    partitions to move, 20 bytes to copy";
    assert_eq!(told, [expected]);
    let none = BalanceUnasked { occasion, moves: Vec::new(), bytes: 0 };
    let decision = none.evaluate(&cluster.image, &cluster.settings).expect("is judged");
    assert_eq!(decision.records, [], "nothing is moved");
}

#[test]
fn it_is_set_for_all_brokers() {
    let mut cluster = three();
    let mut set = |resource, name: &str, value: &str| {
        let (kind, name, value) = (OperationKind::Set, name.to_owned(), Some(value.to_owned()));
        let operations = vec![ConfigOperation { name, kind, value }];
        let resources = vec![ResourceOperations { resource, operations }];
        let command = IncrementalAlterConfigs { resources, validate_only: false };
        let outcome = cluster.submit(command).expect("is judged").remove(0);
        outcome.map_err(|refusal| refusal.message)
    };
    let name = "logway.auto.balance.enable";
    let refusal = set(ConfigResource::Broker(BrokerId(1)), name, "true").expect_err("is refused");
    assert_eq!(refusal, format!("{name} is one for all brokers; it cannot be set for one."));
    set(ConfigResource::BrokerDefault, name, "true").expect("is set");
    set(ConfigResource::BrokerDefault, "logway.auto.balance.last", "x").expect_err("is to be read");
}
