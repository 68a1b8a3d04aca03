//! Brokers of a cluster come and go: what the controller makes of their partitions.

#[path = "cluster_commands/balance.rs"]
mod balance;
#[path = "cluster_commands/directories.rs"]
mod directories;
#[path = "cluster_commands/duty.rs"]
mod duty;
#[path = "cluster_commands/events.rs"]
mod events;
#[path = "cluster_commands/proposals.rs"]
mod proposals;
#[path = "cluster_commands/reassignments.rs"]
mod reassignments;
#[path = "cluster_commands/replacing.rs"]
mod replacing;

use logway_metadata::controller::{
    AlterPartition, AlteredPartition, AssignReplicasToDirs, BrokerLiveness, Command,
    ConfigOperation, CreateTopics, ElectLeaders, Election, FinalizeMetadataLevel,
    IncrementalAlterConfigs, IsrChange, NewTopic, OperationKind, RegisterBroker, RemoveBroker,
    ReplicaDirectory, ResourceOperations, SetBrokerState, StartBroker,
};
use logway_metadata::record::{BrokerEpoch, BrokerState, Endpoint, Listener};
use logway_metadata::settings::BrokerSettings;
use logway_metadata::{
    ConfigResource, ControllerError, Decision, MetadataImage, MetadataLevel, MetadataRecord,
    PartitionImage,
};
use logway_model::{
    BrokerId, DirectoryId, ErrorCode, LeaderEpoch, PartitionId, TopicId, TopicName, Uuid,
};

const TOPIC: TopicId = TopicId(Uuid([7; 16]));
const PARTITION: PartitionId = PartitionId(0);

/// A controller that commits at once.
#[derive(Default)]
struct Cluster {
    image: MetadataImage,
    settings: BrokerSettings,
}

impl Cluster {
    /// Brokers that serve.
    fn of(brokers: &[(i32, Option<&str>)]) -> Cluster {
        let mut cluster = Cluster::default();
        for (id, rack) in brokers {
            let epoch = cluster.start(*id, *rack, 1).expect("starts");
            cluster.set(*id, epoch, BrokerState::Active).expect("serves");
        }
        cluster
    }

    fn submit<C: Command>(&mut self, command: C) -> Result<C::Reply, ControllerError> {
        let Decision { records, reply } = command.evaluate(&self.image, &self.settings)?;
        self.image = self.image.apply(&records).expect("the records fit");
        let again = MetadataImage::default().apply(&self.image.to_records()).expect("fit");
        assert_eq!(again, self.image, "a snapshot has it all");
        Ok(reply)
    }

    fn start(
        &mut self,
        id: i32,
        rack: Option<&str>,
        incarnation: u8,
    ) -> Result<BrokerEpoch, ControllerError> {
        self.start_after(id, rack, incarnation, true)
    }

    /// A start after a stop in good order, or after a crash.
    fn start_after(
        &mut self,
        id: i32,
        rack: Option<&str>,
        incarnation: u8,
        was_clean: bool,
    ) -> Result<BrokerEpoch, ControllerError> {
        let endpoint = Endpoint { host: format!("host-{id}"), port: 9092 };
        self.submit(StartBroker {
            id: BrokerId(id),
            incarnation: Uuid([incarnation; 16]),
            endpoint: None,
            listeners: vec![Listener { name: "PLAINTEXT".to_owned(), endpoint }],
            rack: rack.map(str::to_owned),
            log_dirs: vec![DirectoryId(Uuid([id as u8; 16]))],
            serves_already: false,
            was_clean,
        })
    }

    fn set(
        &mut self,
        id: i32,
        epoch: BrokerEpoch,
        state: BrokerState,
    ) -> Result<(), ControllerError> {
        self.submit(SetBrokerState { id: BrokerId(id), epoch, state })
    }

    fn epoch(&self, id: i32) -> BrokerEpoch {
        self.image.broker_session(BrokerId(id)).expect("has started").epoch
    }

    /// A broker says which directories it has now.
    fn register(&mut self, id: i32, log_dirs: Vec<DirectoryId>) {
        let known = self.image.broker(BrokerId(id)).expect("is known");
        let (endpoint, rack) = (known.endpoint.clone(), known.rack.clone());
        let command = RegisterBroker { id: BrokerId(id), endpoint, rack, log_dirs };
        self.submit(command).expect("is registered");
    }

    fn log_dirs(&self, id: i32) -> Vec<DirectoryId> {
        self.image.broker(BrokerId(id)).expect("is known").log_dirs.clone()
    }

    fn fence(&mut self, id: i32) {
        self.set(id, self.epoch(id), BrokerState::Fenced).expect("is fenced");
    }

    fn create(&mut self, partitions: i32, replicas: i16) {
        self.create_with(partitions, replicas, &[]);
    }

    fn create_with(&mut self, partitions: i32, replicas: i16, configs: &[(&str, &str)]) {
        let config = |(name, value): &(&str, &str)| ((*name).to_owned(), Some((*value).to_owned()));
        let topic = NewTopic {
            name: "orders".to_owned(),
            id: TOPIC,
            num_partitions: partitions,
            replication_factor: replicas,
            assignments: Vec::new(),
            configs: configs.iter().map(config).collect(),
        };
        let command = CreateTopics { topics: vec![topic], validate_only: false };
        self.submit(command).expect("is judged").remove(0).expect("is created");
    }

    fn partition(&self, number: i32) -> PartitionImage {
        let topic = self.image.topic_by_id(TOPIC).expect("exists");
        topic.partition(PartitionId(number)).expect("exists").clone()
    }

    /// Leader, leader epoch and ISR of the first partition.
    fn state(&self) -> (Option<i32>, i32, Vec<i32>) {
        let partition = self.partition(0);
        let isr = partition.isr.iter().map(|id| id.0).collect();
        (partition.leader.map(|id| id.0), partition.leader_epoch.0, isr)
    }

    /// Those that may lead though they are not in sync.
    fn eligible(&self) -> Vec<i32> {
        self.partition(0).eligible.iter().map(|id| id.0).collect()
    }

    /// A broker is back, after a stop in good order or a crash, and serves.
    fn back(&mut self, id: i32, was_clean: bool) {
        let epoch = self.start_after(id, None, 2, was_clean).expect("starts");
        self.set(id, epoch, BrokerState::Active).expect("serves");
    }

    fn alter(
        &mut self,
        broker: i32,
        isr: &[i32],
        change: impl FnOnce(&mut AlterPartition),
    ) -> Result<AlteredPartition, ControllerError> {
        let partition = self.partition(0);
        let mut command = AlterPartition {
            broker: BrokerId(broker),
            broker_epoch: self.epoch(broker),
            partitions: vec![IsrChange {
                topic_id: TOPIC,
                partition: PARTITION,
                leader_epoch: partition.leader_epoch,
                partition_epoch: partition.partition_epoch,
                isr: isr.iter().map(|id| (BrokerId(*id), self.epoch(*id))).collect(),
            }],
        };
        change(&mut command);
        self.submit(command)?.remove(0)
    }
}

fn three() -> Cluster {
    let mut cluster = Cluster::of(&[(1, None), (2, None), (3, None)]);
    cluster.create(1, 3);
    cluster
}

#[test]
fn each_start_of_a_broker_begins_an_epoch_of_what_it_led() {
    let mut cluster = three();
    let (leader, epoch, _) = cluster.state();
    let leader = leader.expect("leads");
    let first = cluster.epoch(leader);
    let again = cluster.start(leader, None, 1).expect("is known");
    assert_eq!((again, cluster.state().1), (first, epoch), "the same start, sent twice");
    let second = cluster.start(leader, None, 2).expect("starts again");
    assert!(second > first);
    let (other, bumped, isr) = cluster.state();
    assert_eq!((bumped, isr.len()), (epoch + 1, 2), "others go on");
    assert_ne!(other, Some(leader));
}

#[test]
fn a_broker_that_is_alone_in_sync_leads_again_in_a_new_epoch() {
    let mut cluster = Cluster::of(&[(1, None)]);
    cluster.create(1, 1);
    assert_eq!(cluster.state(), (Some(1), 0, vec![1]));
    let epoch = cluster.start(1, None, 2).expect("starts again");
    assert_eq!(cluster.state(), (None, 1, vec![1]), "nobody else may lead");
    cluster.set(1, epoch, BrokerState::Active).expect("serves");
    assert_eq!(cluster.state(), (Some(1), 2, vec![1]));
}

#[test]
fn a_second_process_under_a_number_that_serves_is_refused() {
    let mut cluster = three();
    let start = |log_dirs| StartBroker {
        id: BrokerId(1),
        incarnation: Uuid([9; 16]),
        endpoint: None,
        listeners: Vec::new(),
        rack: None,
        log_dirs,
        serves_already: false,
        was_clean: true,
    };
    let other = vec![DirectoryId(Uuid([99; 16]))];
    let refusal = cluster.submit(start(other.clone())).expect_err("has other directories");
    assert_eq!(refusal.code, ErrorCode::DuplicateBrokerRegistration);
    cluster.fence(1);
    cluster.submit(start(other)).expect("the other one is gone");
}

#[test]
fn who_is_fenced_leads_nothing_and_leaves_the_isr_unless_it_is_the_last() {
    let mut cluster = three();
    for _ in 0..2 {
        let leader = cluster.state().0.expect("leads");
        cluster.fence(leader);
    }
    let (leader, epoch, isr) = cluster.state();
    assert_eq!((epoch, isr.len()), (2, 1));
    let last = leader.expect("leads");
    cluster.fence(last);
    assert_eq!(cluster.state(), (None, 3, vec![last]), "it has all that was committed");
    let other = (1..=3).find(|id| *id != last).expect("is one");
    cluster.set(other, cluster.epoch(other), BrokerState::Active).expect("serves");
    assert_eq!(cluster.state().0, None, "it is not in sync");
    cluster.set(last, cluster.epoch(last), BrokerState::Active).expect("serves");
    assert_eq!(cluster.state(), (Some(last), 4, vec![last]));
    let stale = BrokerEpoch(cluster.epoch(last).0 - 1);
    let refusal = cluster.set(last, stale, BrokerState::Fenced).expect_err("is of another life");
    assert_eq!(refusal.code, ErrorCode::StaleBrokerEpoch);
}

#[test]
fn a_broker_that_stops_hands_over_what_it_leads() {
    let mut cluster = three();
    let leader = cluster.state().0.expect("leads");
    cluster.set(leader, cluster.epoch(leader), BrokerState::ShuttingDown).expect("stops");
    let (next, epoch, isr) = cluster.state();
    assert!(next.is_some_and(|next| next != leader));
    assert_eq!((epoch, isr.contains(&leader)), (1, false));
}

#[test]
fn preferred_leaders_lead_when_they_are_in_sync_and_others_only_when_asked_for() {
    let mut cluster = three();
    let elect = |election| ElectLeaders { election, partitions: vec![(TOPIC, PARTITION)] };
    let code = |cluster: &mut Cluster, election| {
        let mut reply = cluster.submit(elect(election)).expect("is judged");
        reply.remove(0).map_err(|error| error.code)
    };
    let preferred = cluster.state().0.expect("leads");
    assert_eq!(code(&mut cluster, Election::Preferred), Err(ErrorCode::ElectionNotNeeded));
    cluster.fence(preferred);
    let refusal = code(&mut cluster, Election::Preferred);
    assert_eq!(refusal, Err(ErrorCode::PreferredLeaderNotAvailable));
    cluster.set(preferred, cluster.epoch(preferred), BrokerState::Active).expect("serves");
    let leader = cluster.state().0.expect("leads");
    let isr = [cluster.state().2, vec![preferred]].concat();
    cluster.alter(leader, &isr, |_| {}).expect("is in sync");
    assert_eq!(code(&mut cluster, Election::Preferred), Ok(()));
    assert_eq!(cluster.state().0, Some(preferred));

    cluster.alter(preferred, &[preferred], |_| {}).expect("shrinks");
    cluster.fence(preferred);
    assert_eq!(cluster.state().0, None);
    assert_eq!(code(&mut cluster, Election::Unclean), Ok(()));
    let (leader, _, isr) = cluster.state();
    assert_eq!(isr, [leader.expect("leads")], "what the others have is lost");
    for id in 1..=3 {
        cluster.fence(id);
    }
    let refusal = code(&mut cluster, Election::Unclean);
    assert_eq!(refusal, Err(ErrorCode::EligibleLeadersNotAvailable));
}

#[test]
fn replicas_are_placed_on_brokers_that_serve_and_spread_over_racks() {
    let racks = [(1, Some("a")), (2, Some("a")), (3, Some("a")), (4, Some("b")), (5, Some("c"))];
    let mut cluster = Cluster::of(&racks);
    cluster.fence(3);
    cluster.create(8, 3);
    let rack = |id: BrokerId| racks[id.0 as usize - 1].1;
    let mut leaders = [0; 6];
    for number in 0..8 {
        let partition = cluster.partition(number);
        assert!(!partition.replicas.contains(&BrokerId(3)), "it is fenced");
        let mut of: Vec<_> = partition.replicas.iter().map(|id| rack(*id)).collect();
        of.sort_unstable();
        of.dedup();
        assert_eq!(of.len(), 3, "{:?} are in different racks", partition.replicas);
        leaders[partition.leader.expect("leads").0 as usize] += 1;
    }
    assert_eq!(leaders, [0, 2, 2, 0, 2, 2], "each leads as many");
}

#[test]
fn three_brokers_keep_three_replicas_of_which_two_acknowledge() {
    const DEFAULT: i16 = -1;
    let two = &[(1, None), (2, None)];
    let three = &[(1, None), (2, None), (3, None)];
    let made = |brokers: &[(i32, Option<&str>)], fenced: Option<i32>, replicas, settings| {
        let mut cluster = Cluster::of(brokers);
        fenced.into_iter().for_each(|id| cluster.fence(id));
        cluster.settings = settings;
        cluster.create(1, replicas);
        let topic = cluster.image.topic_by_id(TOPIC).expect("exists");
        let in_sync_min = topic.overrides.get("min.insync.replicas").cloned();
        (topic.partitions[0].replicas.len(), in_sync_min)
    };
    let settings = |name: &str, value: &str| {
        BrokerSettings::new([(name.to_owned(), value.to_owned())]).expect("is valid")
    };
    let (own, safe) = (BrokerSettings::default, Some("2".to_owned()));
    assert_eq!(made(two, None, DEFAULT, own()), (1, None));
    assert_eq!(made(three, None, DEFAULT, own()), (3, safe.clone()));
    assert_eq!(made(three, Some(2), DEFAULT, own()), (1, None), "two serve");
    assert_eq!(made(three, None, 1, own()), (1, None), "as it was asked for");
    assert_eq!(made(two, None, 2, own()), (2, None), "one of two may go");
    let of_one = settings("default.replication.factor", "1");
    assert_eq!(made(three, None, DEFAULT, of_one), (1, None));
    let of_all = settings("min.insync.replicas", "1");
    assert_eq!(made(three, None, DEFAULT, of_all), (3, None));
}

#[test]
fn a_partition_is_not_given_to_brokers_of_which_none_serves() {
    let mut cluster = three();
    cluster.fence(2);
    cluster.fence(3);
    let topic = NewTopic {
        name: "others".to_owned(),
        id: TopicId(Uuid([8; 16])),
        num_partitions: -1,
        replication_factor: -1,
        assignments: vec![(0, vec![BrokerId(2), BrokerId(3)])],
        configs: Vec::new(),
    };
    let create = CreateTopics { topics: vec![topic], validate_only: false };
    let refusal = cluster.submit(create).expect("is judged").remove(0).expect_err("is refused");
    assert_eq!(refusal.code, ErrorCode::InvalidReplicaAssignment);
    let expected = "topic 'others': Replicas of partition 0: none of their brokers serves now.";
    assert_eq!(refusal.message, expected);
}

#[test]
fn the_only_node_of_a_cluster_that_grows_goes_on_leading() {
    let mut cluster = Cluster::default();
    let alone = RegisterBroker {
        id: BrokerId(1),
        endpoint: None,
        rack: None,
        log_dirs: vec![DirectoryId(Uuid([1; 16]))],
    };
    cluster.submit(alone).expect("is registered");
    cluster.create(1, 1);
    let before = cluster.state();
    let start = |incarnation: u8| StartBroker {
        id: BrokerId(1),
        incarnation: Uuid([incarnation; 16]),
        endpoint: None,
        listeners: Vec::new(),
        rack: None,
        log_dirs: vec![DirectoryId(Uuid([1; 16]))],
        serves_already: true,
        was_clean: true,
    };
    cluster.submit(start(1)).expect("goes on");
    assert_eq!(cluster.state(), before);
    assert!(cluster.image.is_active(BrokerId(1)));
    cluster.submit(start(2)).expect("starts");
    assert!(!cluster.image.is_active(BrokerId(1)), "that was another process");
    assert_eq!(cluster.state().0, None);
}

#[test]
fn a_broker_that_has_ended_is_fenced_unless_it_speaks_again() {
    let mut cluster = three();
    let mut liveness = BrokerLiveness::new(&cluster.image, 1_000, 0);
    let (second, third) = (BrokerId(2), BrokerId(3));
    for id in [1, 2, 3] {
        let (epoch, active) = (cluster.epoch(id), BrokerState::Active);
        assert!(liveness.heartbeat(BrokerId(id), epoch, active, 10), "it has not spoken before");
        assert!(!liveness.heartbeat(BrokerId(id), epoch, active, 10));
    }
    liveness.has_gone(second, cluster.epoch(2));
    assert_eq!(liveness.due(&cluster.image, 11), [], "it was heard since somebody looked");
    let late = liveness.take_late(120, 100);
    assert_eq!(late.len(), 3);
    liveness.heartbeat(third, cluster.epoch(3), BrokerState::Active, 121);
    liveness.has_gone(second, cluster.epoch(2));
    liveness.has_gone(third, cluster.epoch(3));
    let due = liveness.due(&cluster.image, 122);
    assert_eq!(
        due.iter().map(|it| (it.id, it.state)).collect::<Vec<_>>(),
        [(second, BrokerState::Fenced)]
    );
    cluster.fence(2);
    assert!(liveness.heartbeat(second, cluster.epoch(2), BrokerState::Active, 130));
    assert_eq!(liveness.due(&cluster.image, 130)[0].state, BrokerState::Active);
}

#[test]
fn the_silent_are_fenced_and_those_who_speak_get_what_they_want() {
    let mut cluster = three();
    let mut liveness = BrokerLiveness::new(&cluster.image, 9_000, 0);
    let epoch = |cluster: &Cluster, id| cluster.epoch(id);
    assert_eq!(liveness.due(&cluster.image, 9_000), [], "everybody gets a whole session");
    assert_eq!(liveness.next_look_ms(), Some(9_001));
    for id in 1..=2 {
        liveness.heartbeat(BrokerId(id), epoch(&cluster, id), BrokerState::Active, 5_000);
    }
    let due = liveness.due(&cluster.image, 9_001);
    let fenced =
        SetBrokerState { id: BrokerId(3), epoch: epoch(&cluster, 3), state: BrokerState::Fenced };
    assert_eq!(due, std::slice::from_ref(&fenced), "it died while there was no controller");
    cluster.submit(fenced).expect("is fenced");
    assert_eq!(liveness.due(&cluster.image, 9_002), []);
    liveness.heartbeat(BrokerId(3), epoch(&cluster, 3), BrokerState::Active, 9_500);
    let due = liveness.due(&cluster.image, 9_500);
    assert_eq!(due.len(), 1, "it is back");
    assert_eq!(due[0].state, BrokerState::Active);

    let old = epoch(&cluster, 2);
    cluster.start(2, None, 2).expect("starts again");
    liveness.follow(&cluster.image, 9_600);
    liveness.heartbeat(BrokerId(2), old, BrokerState::Active, 9_700);
    let of_two = |command: &SetBrokerState| command.id == BrokerId(2);
    assert!(!liveness.due(&cluster.image, 9_700).iter().any(of_two), "of its earlier life");
}

#[test]
fn a_level_is_finalised_once_and_says_which_records_may_be_written() {
    let mut cluster = Cluster::default();
    let level = |level| FinalizeMetadataLevel { level };
    assert_eq!(cluster.image.metadata_level(), MetadataLevel::ONE_NODE);
    cluster.submit(level(MetadataLevel::CLUSTER)).expect("is known");
    assert_eq!(cluster.image.metadata_level(), MetadataLevel::CLUSTER);
    cluster.submit(level(MetadataLevel::ONE_NODE)).expect("changes nothing");
    assert_eq!(cluster.image.metadata_level(), MetadataLevel::CLUSTER);
    let next = MetadataLevel(MetadataLevel::NEWEST.0 + 1);
    let refusal = cluster.submit(level(next)).expect_err("is not known");
    assert_eq!(refusal.code, ErrorCode::FeatureUpdateFailed);

    let records = three().image.to_records();
    let needs = |record: &&MetadataRecord| record.level() == MetadataLevel::CLUSTER;
    assert_eq!(records.iter().filter(needs).count(), 3, "the sessions of three brokers");
}

/// Three replicas, two are needed, at the level that has eligible ones.
fn three_of_which_two_are_needed(flush_messages: &str) -> Cluster {
    let mut cluster = Cluster::of(&[(1, None), (2, None), (3, None)]);
    let level = MetadataLevel::ELIGIBLE_REPLICAS;
    cluster.submit(FinalizeMetadataLevel { level }).expect("is known");
    let configs = [("min.insync.replicas", "2"), ("flush.messages", flush_messages)];
    cluster.create_with(1, 3, &configs);
    cluster
}

/// Fences all brokers, the leader last. Returns them in that order.
fn all_fenced(cluster: &mut Cluster) -> [i32; 3] {
    let leader = cluster.state().0.expect("leads");
    let others: Vec<i32> = (1..=3).filter(|id| *id != leader).collect();
    cluster.fence(others[0]);
    assert_eq!(cluster.eligible(), [], "two are in sync still");
    cluster.fence(others[1]);
    assert_eq!((cluster.state().2, cluster.eligible()), (vec![leader], vec![others[1]]));
    cluster.fence(leader);
    assert_eq!((cluster.state().0, cluster.eligible()), (None, vec![others[1]]));
    [others[0], others[1], leader]
}

#[test]
fn who_left_when_nothing_could_be_committed_any_more_may_lead() {
    let mut cluster = three_of_which_two_are_needed("1");
    let [first, second, last] = all_fenced(&mut cluster);
    cluster.back(first, true);
    assert_eq!(cluster.state().0, None, "the others have committed without it");
    cluster.back(second, false);
    let (leader, _, isr) = cluster.state();
    assert_eq!((leader, isr), (Some(second), vec![second]));
    assert_eq!(cluster.eligible(), [last], "it has all that was committed, too");
    cluster.back(last, false);
    assert_eq!(cluster.eligible(), [last]);
    cluster.alter(second, &[second, last], |_| ()).expect("has caught up");
    assert_eq!(cluster.eligible(), [], "from now on more is committed");
}

#[test]
fn who_may_have_lost_something_in_a_crash_is_not_eligible() {
    let mut cluster = three_of_which_two_are_needed("1000");
    let [_, second, last] = all_fenced(&mut cluster);
    cluster.back(second, false);
    assert_eq!((cluster.state().0, cluster.eligible()), (None, vec![]));
    cluster.back(last, false);
    assert_eq!(cluster.state().0, Some(last), "without it nothing is left");
    let mut cluster = three_of_which_two_are_needed("1000");
    let [_, second, _] = all_fenced(&mut cluster);
    cluster.back(second, true);
    assert_eq!(cluster.state().0, Some(second));
}

#[test]
fn where_fewer_are_needed_nobody_is_eligible() {
    let mut cluster = three_of_which_two_are_needed("1");
    let [_, second, last] = all_fenced(&mut cluster);
    cluster.back(last, true);
    assert_eq!(cluster.eligible(), [second]);
    let resource = ConfigResource::Topic(TopicName::new("orders").expect("a name"));
    let operation = ConfigOperation {
        name: "min.insync.replicas".to_owned(),
        kind: OperationKind::Set,
        value: Some("1".to_owned()),
    };
    let resources = vec![ResourceOperations { resource, operations: vec![operation] }];
    let command = IncrementalAlterConfigs { resources, validate_only: false };
    cluster.submit(command).expect("is judged").remove(0).expect("is valid");
    assert_eq!(cluster.eligible(), [], "the leader commits alone from now on");
}

#[test]
fn an_unclean_leader_leaves_nobody_eligible() {
    let mut cluster = three_of_which_two_are_needed("1");
    let [first, ..] = all_fenced(&mut cluster);
    cluster.back(first, true);
    let partitions = vec![(TOPIC, PARTITION)];
    let elect = ElectLeaders { election: Election::Unclean, partitions };
    cluster.submit(elect).expect("is judged").remove(0).expect("it is asked for");
    assert_eq!((cluster.state().0, cluster.eligible()), (Some(first), vec![]));
}

#[test]
fn below_the_level_that_has_eligible_replicas_there_are_none() {
    let mut cluster = Cluster::of(&[(1, None), (2, None), (3, None)]);
    cluster.create_with(1, 3, &[("min.insync.replicas", "2")]);
    (1..=3).for_each(|id| cluster.fence(id));
    assert_eq!(cluster.eligible(), []);
}

#[test]
fn a_leader_whose_disk_hangs_gives_up_to_another_in_sync() {
    let mut cluster = three();
    let (leader, epoch, _) = cluster.state();
    let leader = leader.expect("leads");
    let others: Vec<i32> = (1..=3).filter(|id| *id != leader).collect();
    let altered = cluster.alter(leader, &others, |_| ()).expect("is taken");
    let next = altered.leader.expect("is another").0;
    assert!(others.contains(&next));
    assert_eq!(cluster.state(), (Some(next), epoch + 1, others.clone()));
    let third = others[0] + others[1] - next;
    cluster.fence(third);
    let nobody = cluster.alter(next, &[third], |_| ());
    assert!(nobody.is_err(), "it is fenced, and could not lead");
}

/// The quorum's directory of a broker is its first log directory.
fn removal(id: i32) -> RemoveBroker {
    let directory = Some(DirectoryId(Uuid([id as u8; 16])));
    RemoveBroker { id: BrokerId(id), directory, is_replaced: false }
}

#[test]
fn a_broker_that_is_removed_leads_nothing_and_stays_a_replica() {
    let mut cluster = three();
    let leader = cluster.state().0.expect("leads");
    let before = cluster.partition(0).replicas;
    cluster.submit(removal(leader)).expect("is removed");
    let (next, epoch, isr) = cluster.state();
    assert!(next.is_some_and(|next| next != leader));
    assert_eq!((epoch, isr.len(), isr.contains(&leader)), (1, 2, false));
    assert_eq!(cluster.partition(0).replicas, before);
    let directory = cluster.partition(0).directory_of(BrokerId(leader));
    assert_eq!(directory, DirectoryId::UNASSIGNED, "another node of its number makes it anew");
    assert_eq!(cluster.image.replicas_in(DirectoryId(Uuid([leader as u8; 16]))), 0);
    assert_eq!(cluster.image.broker(BrokerId(leader)), None);
    assert_eq!(cluster.image.broker_session(BrokerId(leader)), None);
    assert!(!cluster.image.is_active(BrokerId(leader)));
    assert!(cluster.image.has_feature("removals"), "older nodes do not know such records");
    let removed =
        cluster.image.removed_brokers().by_directory(DirectoryId(Uuid([leader as u8; 16])));
    assert_eq!(removed.map(|it| it.id), Some(BrokerId(leader)));
    cluster.submit(removal(leader)).expect("is so already");
    assert_eq!(cluster.image.removed_brokers().iter().len(), 1);
}

#[test]
fn the_last_one_in_sync_leaves_its_partition_without_a_leader() {
    let mut cluster = three();
    let [first, second] = [0, 1].map(|_| {
        let leader = cluster.state().0.expect("leads");
        cluster.fence(leader);
        leader
    });
    let last = cluster.state().0.expect("leads");
    cluster.submit(removal(last)).expect("is removed");
    assert_eq!(cluster.state(), (None, 3, vec![last]), "nobody else has all that was committed");
    let directory = cluster.partition(0).directory_of(BrokerId(last));
    assert_eq!(directory, DirectoryId(Uuid([last as u8; 16])), "its records are nowhere else");
    for id in [first, second] {
        cluster.set(id, cluster.epoch(id), BrokerState::Active).expect("serves");
    }
    assert_eq!(cluster.state().0, None);
    // A new node under its number has nothing of it.
    let command = StartBroker {
        id: BrokerId(last),
        incarnation: Uuid([9; 16]),
        endpoint: None,
        listeners: Vec::new(),
        rack: None,
        log_dirs: vec![DirectoryId(Uuid([99; 16]))],
        serves_already: false,
        was_clean: true,
    };
    let epoch = cluster.submit(command).expect("is another broker");
    cluster.set(last, epoch, BrokerState::Active).expect("serves");
    assert_eq!(cluster.state().0, None);
    let election = Election::Unclean;
    let elected = ElectLeaders { election, partitions: vec![(TOPIC, PARTITION)] };
    cluster.submit(elected).expect("is judged").remove(0).expect("the operator wants it so");
    assert!(cluster.state().0.is_some_and(|leader| leader != last), "others have some of it");
}

#[test]
fn nobody_waits_for_a_removed_broker_that_might_have_led() {
    let mut cluster = three_of_which_two_are_needed("1");
    let [_, second, last] = all_fenced(&mut cluster);
    cluster.set(last, cluster.epoch(last), BrokerState::Active).expect("serves");
    assert_eq!((cluster.state().0, cluster.eligible()), (Some(last), vec![second]));
    cluster.submit(removal(second)).expect("is removed");
    assert_eq!((cluster.state().0, cluster.eligible()), (Some(last), vec![]));
}

#[test]
fn a_removed_broker_does_not_come_back_and_its_epochs_are_over() {
    let mut cluster = three();
    let newest = (1..=3).max_by_key(|id| cluster.epoch(*id)).expect("there are three");
    let epoch = cluster.epoch(newest);
    cluster.submit(removal(newest)).expect("is removed");
    let refusal = cluster.start(newest, None, 7).expect_err("was removed");
    assert_eq!(refusal.code, ErrorCode::BrokerIdNotRegistered);
    assert!(refusal.message.contains("was removed"), "{}", refusal.message);
    let other = RegisterBroker {
        id: BrokerId(newest),
        endpoint: None,
        rack: None,
        log_dirs: vec![DirectoryId(Uuid([newest as u8; 16]))],
    };
    cluster.submit(other).expect_err("was removed, whatever it calls its start");
    let refusal = cluster.set(newest, epoch, BrokerState::Active).expect_err("is unknown");
    assert_eq!(refusal.code, ErrorCode::BrokerIdNotRegistered);
    assert!(cluster.start(4, None, 1).expect("starts") > epoch);
}

#[test]
fn who_never_was_a_broker_cannot_be_removed() {
    let mut cluster = three();
    let unknown = RemoveBroker { directory: None, ..removal(9) };
    let refusal = cluster.submit(unknown).expect_err("is unknown");
    assert_eq!(refusal.code, ErrorCode::BrokerIdNotRegistered);
    // One that was admitted to the quorum and has not started yet.
    cluster.submit(removal(9)).expect("is removed");
    cluster.start(9, None, 1).expect_err("was removed before its first start");
    // One that the quorum does not know any more.
    cluster.submit(RemoveBroker { directory: None, ..removal(3) }).expect("is removed");
    cluster.start(3, None, 7).expect_err("was removed");
}
