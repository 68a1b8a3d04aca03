//! What people are told of changes of the cluster.

use logway_metadata::event::events_of;
use logway_metadata::record::Reassignment;

use super::duty::set_duty;
use super::*;

/// What the records of a command are told as.
fn told<C: Command>(cluster: &mut Cluster, command: C) -> Vec<(&'static str, String)> {
    let Decision { records, .. } =
        command.evaluate(&cluster.image, &cluster.settings).expect("is taken");
    let events = events_of(&cluster.image, &records);
    cluster.image = cluster.image.apply(&records).expect("the records fit");
    events.into_iter().map(|event| (event.kind.word(), event.text)).collect()
}

fn lines(of: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
    of.iter().map(|(kind, text)| (*kind, (*text).to_owned())).collect()
}

fn set(cluster: &Cluster, id: i32, state: BrokerState) -> SetBrokerState {
    SetBrokerState { id: BrokerId(id), epoch: cluster.epoch(id), state }
}

#[test]
fn what_a_dead_node_led_is_one_line_however_many_partitions_that_are() {
    let mut cluster = Cluster::of(&[(1, None), (2, None)]);
    cluster.create(400, 2);
    let fenced = set(&cluster, 1, BrokerState::Fenced);
    let names = "orders-0 orders-1 orders-2 and 397 more";
    let all = told(&mut cluster, fenced);
    assert_eq!(all.len(), 3, "{all:?}");
    let dead = "node 1 is not heard any more: others lead what it led, where they can";
    assert_eq!(all[0], ("node_fenced", dead.to_owned()));
    assert!(
        all[1].1.starts_with("node 2 was elected leader of 200 partitions: orders-"),
        "{all:?}"
    );
    let out = format!("node 1 is not in sync any more with 400 partitions: {names}");
    assert_eq!(all[2], ("replicas_out_of_sync", out));
    let back = set(&cluster, 1, BrokerState::Active);
    assert_eq!(told(&mut cluster, back), lines(&[("node_serves", "node 1 serves")]));
    let again = set(&cluster, 1, BrokerState::Active);
    assert_eq!(told(&mut cluster, again), [], "nothing has changed");
}

#[test]
fn what_has_no_leader_any_more_is_said_and_what_a_topic_is_made_with_is_not() {
    let mut cluster = Cluster::of(&[(1, None)]);
    let topic = NewTopic {
        name: "orders".to_owned(),
        id: TOPIC,
        num_partitions: 1,
        replication_factor: 1,
        assignments: Vec::new(),
        configs: Vec::new(),
    };
    let create = CreateTopics { topics: vec![topic], validate_only: false };
    assert_eq!(told(&mut cluster, create), []);
    let stops = set(&cluster, 1, BrokerState::ShuttingDown);
    let expected = [
        ("node_stops", "node 1 stops in good order"),
        ("leaders_lost", "node 1 leads no more, and nobody else can lead, partition orders-0"),
    ];
    assert_eq!(told(&mut cluster, stops), lines(&expected));
    set_duty(&mut cluster, ConfigResource::Broker(BrokerId(1)), Some("leave")).expect("is set");
    let removed = RemoveBroker { directory: None, ..removal(1) };
    let left = told(&mut cluster, removed);
    assert!(left.iter().all(|(kind, _)| *kind != "node_duty"), "nobody has its number: {left:?}");
    assert!(left.contains(&("node_left", "node 1 has left the cluster for good".to_owned())));
    let finalised =
        "the feature removals is finalised at level 1: nodes that do not know it cannot follow";
    assert!(left.contains(&("feature_finalised", finalised.to_owned())), "{left:?}");
}

#[test]
fn a_move_begins_and_comes_to_its_end_or_is_cancelled() {
    let mut cluster = Cluster::of(&[(1, None), (2, None), (3, None)]);
    cluster.create(1, 2);
    let ids = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect::<Vec<_>>();
    let known = cluster.partition(0);
    let original = known.replicas.clone();
    let target = ids(&[3]);
    let record = |replicas: Vec<BrokerId>, reassignment: Option<Reassignment>| {
        MetadataRecord::partition(logway_metadata::record::PartitionRecord {
            topic_id: TOPIC,
            partition: PARTITION,
            directories: Vec::new(),
            isr: replicas.clone(),
            replicas,
            eligible: Vec::new(),
            reassignment,
            leader: known.leader,
            leader_epoch: known.leader_epoch,
            partition_epoch: known.partition_epoch + 1,
        })
    };
    let moving = Reassignment { original: original.clone(), target: target.clone() };
    let begun = record(ids(&[1, 2, 3]), Some(moving));
    let kinds = |image: &MetadataImage, record: &MetadataRecord| {
        let events = events_of(image, std::slice::from_ref(record));
        let moves = events.into_iter().filter(|event| event.text.contains("move"));
        moves.map(|event| (event.kind.word(), event.text)).collect::<Vec<_>>()
    };
    let expected = [("moves_begun", "a move was begun of partition orders-0")];
    assert_eq!(kinds(&cluster.image, &begun), lines(&expected));
    let image = cluster.image.apply(std::slice::from_ref(&begun)).expect("fits");
    assert_eq!(kinds(&image, &begun), [], "it is on its way already");
    let expected = [("moves_done", "a move has come to its end of partition orders-0")];
    assert_eq!(kinds(&image, &record(target, None)), lines(&expected));
    let expected = [("moves_cancelled", "a move was cancelled of partition orders-0")];
    assert_eq!(kinds(&image, &record(original, None)), lines(&expected));
}
