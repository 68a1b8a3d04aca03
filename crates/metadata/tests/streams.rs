//! Streams and their shards: what the controller makes of commands, and what it refuses.

use std::collections::BTreeMap;

use logway_metadata::controller::{
    AlterConfigs, ChangeStream, ChangeStreamsAccount, Command, ConfigOperation, ControllerCommand,
    CreatePartitions, CreateStream, EndShards, EndedShard, IncrementalAlterConfigs, MakeSealingKey,
    OperationKind, PartitionsIncrease, RegisterBroker, Reshard, Resharding, ResourceConfigs,
    ResourceOperations, StreamChange,
};
use logway_metadata::record::{HashKey, HashRange, StreamMode, StreamPhase};
use logway_metadata::settings::BrokerSettings;
use logway_metadata::{
    ConfigResource, ControllerError, Intake, MetadataImage, MetadataRecord, STREAMS_FEATURE,
    StreamImage,
};
use logway_model::{BrokerId, ErrorCode, LeaderEpoch, PartitionId, TopicId, TopicName, Uuid};

const NOW_MS: i64 = 1_700_000_000_000;

struct Cluster {
    image: MetadataImage,
    broker: BrokerSettings,
}

impl Cluster {
    fn new() -> Cluster {
        let mut cluster =
            Cluster { image: MetadataImage::default(), broker: BrokerSettings::default() };
        let broker =
            RegisterBroker { id: BrokerId(0), endpoint: None, rack: None, log_dirs: Vec::new() };
        cluster.submit(broker).expect("is new");
        cluster
    }

    fn with_stream(shard_count: u32) -> Cluster {
        let mut cluster = Cluster::new();
        cluster.submit(create("clicks", shard_count)).expect("is new");
        cluster
    }

    fn submit<C: Command>(&mut self, command: C) -> Result<C::Reply, ControllerError> {
        // As it travels between nodes.
        let text = serde_json::to_string(&command.into()).expect("is text");
        let command: ControllerCommand = serde_json::from_str(&text).expect("comes back");
        let decision = command.evaluate(&self.image, &self.broker)?;
        let records: Vec<MetadataRecord> = decision
            .records
            .iter()
            .map(|record| {
                let text = serde_json::to_string(record).expect("is text");
                serde_json::from_str(&text).expect("comes back")
            })
            .collect();
        assert_eq!(records, decision.records);
        self.image = self.image.apply(&records).expect("the records fit");
        let again = MetadataImage::default().apply(&self.image.to_records()).expect("fits");
        assert_eq!(again, self.image, "a snapshot keeps it all");
        Ok(C::Reply::try_from(decision.reply).unwrap_or_else(|_| panic!("of another kind")))
    }

    fn stream(&self) -> &StreamImage {
        self.image.topic("clicks").and_then(|topic| topic.stream.as_ref()).expect("is a stream")
    }

    fn reshard(&mut self, resharding: Resharding) -> Result<(), ControllerError> {
        self.submit(Reshard { topic_id: id(), resharding, shards_max: Some(20), now_ms: NOW_MS })
    }

    fn end(&mut self, partition: i32, epoch: i32) -> Result<(), ControllerError> {
        let (partition, leader_epoch) = (PartitionId(partition), LeaderEpoch(epoch));
        let shard = EndedShard { topic_id: id(), partition, leader_epoch, offset: 7 };
        self.submit(EndShards { shards: vec![shard] }).expect("each by itself").remove(0)
    }

    /// As the leaders do, until nothing more changes.
    fn end_all(&mut self) {
        while self.stream().is_resharding() {
            let shard = |(partition, _)| EndedShard {
                topic_id: id(),
                partition,
                leader_epoch: LeaderEpoch(0),
                offset: 7,
            };
            let shards = self.stream().numbered_shards().map(shard).collect();
            self.submit(EndShards { shards }).expect("each by itself");
        }
    }

    fn check_cover(&self, count: usize) {
        let mut open: Vec<HashRange> =
            self.stream().open_shards().map(|(_, shard)| shard.range).collect();
        open.sort_by_key(|range| range.start);
        assert_eq!(open, HashRange::evenly(count));
    }
}

fn id() -> TopicId {
    TopicId(Uuid([3; 16]))
}

fn create(name: &str, shard_count: u32) -> CreateStream {
    CreateStream {
        name: name.to_owned(),
        topic_id: id(),
        shard_count,
        mode: StreamMode::Provisioned,
        max_record_kib: 1_024,
        warm_mibps: None,
        retention_ms: 86_400_000,
        tags: BTreeMap::new(),
        shards_max: Some(20),
        now_ms: NOW_MS,
        token_key: [Uuid([1; 16]), Uuid([2; 16])],
    }
}

fn code<T>(outcome: Result<T, ControllerError>) -> ErrorCode {
    outcome.map(|_| ()).expect_err("is refused").code
}

#[test]
fn the_first_stream_turns_streams_on_and_has_even_shards() {
    let mut cluster = Cluster::with_stream(3);
    assert!(cluster.image.has_feature(STREAMS_FEATURE));
    cluster.check_cover(3);
    let topic = cluster.image.topic("clicks").expect("exists");
    assert_eq!(topic.overrides["message.timestamp.type"], "LogAppendTime");
    assert_eq!(topic.intake(PartitionId(0)), Intake::Open);
    assert_eq!(code(cluster.submit(create("clicks", 1))), ErrorCode::TopicAlreadyExists);
    let other = CreateStream { topic_id: TopicId(Uuid([4; 16])), ..create("more", 18) };
    assert_eq!(code(cluster.submit(other)), ErrorCode::PolicyViolation, "3 + 18 are over 20");
}

#[test]
fn what_kafka_keeps_its_state_in_is_no_stream() {
    let mut cluster = Cluster::with_stream(1);
    for name in ["__consumer_offsets", "__transaction_state", "__share_group_state"] {
        let internal = CreateStream { topic_id: TopicId(Uuid([4; 16])), ..create(name, 1) };
        assert_eq!(code(cluster.submit(internal)), ErrorCode::InvalidTopicException, "{name}");
    }
}

#[test]
fn a_child_takes_records_when_it_is_known_where_its_parent_ends() {
    let mut cluster = Cluster::with_stream(1);
    let at = HashKey(1 << 100);
    cluster.reshard(Resharding::Split { shard: PartitionId(0), at }).expect("can be split");
    let intakes = |cluster: &Cluster| [0, 1, 2].map(|it| cluster.stream().intake(PartitionId(it)));
    assert_eq!(intakes(&cluster), [Intake::Closed, Intake::NotYet, Intake::NotYet]);
    assert!(cluster.stream().is_resharding());
    let again = cluster.reshard(Resharding::Split { shard: PartitionId(1), at: HashKey(5) });
    assert_eq!(code(again), ErrorCode::ReassignmentInProgress);
    assert_eq!(code(cluster.end(0, 1)), ErrorCode::FencedLeaderEpoch, "it leads no more");
    assert_eq!(code(cluster.end(1, 0)), ErrorCode::InvalidRequest, "it is open");
    cluster.end(0, 0).expect("it leads");
    assert_eq!(intakes(&cluster), [Intake::Closed, Intake::Open, Intake::Open]);
    let [parent, lower, upper] = &cluster.stream().shards[..] else { panic!("there are three") };
    assert_eq!(parent.closed.and_then(|end| end.offset), Some(7));
    assert!(lower.created_s * 1_000 > parent.closed.expect("is closed").at_ms);
    assert_eq!((lower.range.end, upper.range.start), (HashKey((1 << 100) - 1), at));
    assert_eq!(cluster.stream().state.phase, StreamPhase::Changed);
}

#[test]
fn only_neighbours_in_their_order_become_one() {
    let mut cluster = Cluster::with_stream(3);
    let merge = |first, second| Resharding::Merge {
        first: PartitionId(first),
        second: PartitionId(second),
    };
    for (first, second) in [(1, 0), (0, 2), (0, 0), (0, 3), (-1, 0)] {
        let refused = code(cluster.reshard(merge(first, second)));
        assert_eq!(refused, ErrorCode::InvalidRequest, "{first} and {second}");
    }
    cluster.reshard(merge(0, 1)).expect("are neighbours");
    cluster.end(0, 0).expect("it leads");
    assert_eq!(cluster.stream().intake(PartitionId(3)), Intake::NotYet, "one parent is missing");
    cluster.end(1, 0).expect("it leads");
    assert_eq!(cluster.stream().intake(PartitionId(3)), Intake::Open);
    assert_eq!(code(cluster.reshard(merge(0, 1))), ErrorCode::InvalidRequest, "they are closed");
}

#[test]
fn any_number_of_shards_is_reached_by_splits_and_merges() {
    for (from, to) in [(1, 2), (2, 4), (4, 2), (3, 5), (5, 3), (6, 1), (7, 7), (8, 16)] {
        let mut cluster = Cluster::with_stream(from);
        cluster.reshard(Resharding::Count(to)).expect("can be reached");
        cluster.end_all();
        cluster.check_cover(usize::try_from(to).expect("is small"));
        for (number, shard) in cluster.stream().numbered_shards() {
            assert!(shard.parents.len() <= 2, "{from} to {to}");
            for parent in shard.parents.iter().map(|it| cluster.stream().shard(*it)) {
                assert!(parent.expect("exists").created_s < shard.created_s, "{number}");
            }
        }
    }
    let mut cluster = Cluster::with_stream(3);
    assert_eq!(code(cluster.reshard(Resharding::Count(21))), ErrorCode::PolicyViolation);
}

#[test]
fn a_stream_is_resharded_as_long_as_its_numbers_last() {
    let mut cluster = Cluster::with_stream(1);
    let reshard = |cluster: &mut Cluster, count| {
        let resharding = Resharding::Count(count);
        cluster.submit(Reshard { topic_id: id(), resharding, shards_max: None, now_ms: NOW_MS })
    };
    for count in [u32::MAX, 10_001] {
        let refused = reshard(&mut cluster, count).expect_err("there are not so many numbers");
        assert_eq!(refused.code, ErrorCode::PolicyViolation);
        assert!(refused.message.contains("10000 shards"), "{}", refused.message);
    }
    let mut count = 1;
    let refused = loop {
        count = if count < 2_000 { count * 2 } else { count / 2 };
        match reshard(&mut cluster, count) {
            Ok(()) => cluster.end_all(),
            Err(refused) => break refused,
        }
    };
    assert!(refused.message.contains("10000 shards"), "{}", refused.message);
    assert!(cluster.stream().shards.len() > 5_000, "{}", cluster.stream().shards.len());
}

#[test]
fn what_a_stream_stands_on_cannot_be_changed_from_elsewhere() {
    let mut cluster = Cluster::with_stream(1);
    let topic = PartitionsIncrease { name: "clicks".to_owned(), count: 2, assignments: None };
    let more = CreatePartitions { topics: vec![topic], validate_only: false };
    let refused = cluster.submit(more).expect("each by itself").remove(0);
    assert_eq!(code(refused), ErrorCode::PolicyViolation);
    let resource = ConfigResource::Topic(TopicName::new("clicks").expect("is a name"));
    for (name, value) in [
        ("message.timestamp.type", "CreateTime"),
        ("cleanup.policy", "compact"),
        ("max.message.bytes", "1000"),
        ("retention.ms", "-1"),
    ] {
        let (name, value) = (name.to_owned(), Some(value.to_owned()));
        let operations = vec![ConfigOperation { name, kind: OperationKind::Set, value }];
        let resources = vec![ResourceOperations { resource: resource.clone(), operations }];
        let change = IncrementalAlterConfigs { resources, validate_only: false };
        let refused = cluster.submit(change).expect("each by itself").remove(0);
        assert_eq!(code(refused), ErrorCode::InvalidConfig);
    }
    let resources = vec![ResourceConfigs { resource, configs: Vec::new() }];
    let reset = AlterConfigs { resources, validate_only: false };
    let refused = cluster.submit(reset).expect("each by itself").remove(0);
    assert_eq!(code(refused), ErrorCode::InvalidConfig);
}

#[test]
fn consumers_and_tags_are_bounded() {
    let mut cluster = Cluster::with_stream(1);
    let mut change =
        |change| cluster.submit(ChangeStream { topic_id: id(), change, now_ms: NOW_MS });
    for number in 0..20 {
        let register = StreamChange::Register(format!("c{number}"), BTreeMap::new());
        change(register).expect("there is room");
    }
    let register = |name: &str| StreamChange::Register(name.to_owned(), BTreeMap::new());
    assert_eq!(code(change(register("c3"))), ErrorCode::DuplicateResource);
    assert_eq!(code(change(register("more"))), ErrorCode::PolicyViolation);
    change(StreamChange::Deregister("c3".to_owned())).expect("it is there");
    let gone = change(StreamChange::Deregister("c3".to_owned()));
    assert_eq!(code(gone), ErrorCode::ResourceNotFound);
    let tags = |range: std::ops::Range<i32>| {
        range.map(|number| (number.to_string(), String::new())).collect::<BTreeMap<_, _>>()
    };
    change(StreamChange::AddTags(None, tags(0..50))).expect("there is room");
    assert_eq!(code(change(StreamChange::AddTags(None, tags(50..51)))), ErrorCode::PolicyViolation);
    change(StreamChange::RemoveTags(None, vec!["0".to_owned()])).expect("it is there");
    change(StreamChange::AddTags(None, tags(50..51))).expect("there is room again");
    change(StreamChange::Retention(172_800_000)).expect("is valid");
    let topic = cluster.image.topic("clicks").expect("exists");
    assert_eq!(topic.overrides["retention.ms"], "172800000");
}

#[test]
fn what_is_to_be_deleted_stays_so() {
    let mut cluster = Cluster::with_stream(1);
    let change = |cluster: &mut Cluster, change, now_ms| {
        cluster.submit(ChangeStream { topic_id: id(), change, now_ms })
    };
    change(&mut cluster, StreamChange::BeginDeletion, NOW_MS).expect("it is there");
    for changed in [
        StreamChange::Mode(StreamMode::OnDemand),
        StreamChange::MaxRecord(2_048),
        StreamChange::Encryption(None),
        StreamChange::Retention(172_800_000),
        StreamChange::Register("c".to_owned(), BTreeMap::new()),
    ] {
        let refused = change(&mut cluster, changed, NOW_MS + 1);
        assert_eq!(code(refused), ErrorCode::ReassignmentInProgress);
    }
    change(&mut cluster, StreamChange::BeginDeletion, NOW_MS + 5).expect("it is so already");
    let state = &cluster.stream().state;
    assert_eq!((state.phase, state.phase_since_ms), (StreamPhase::Deleting, NOW_MS));
}

#[test]
fn what_is_part_of_names_has_the_form_of_one() {
    let kinesis = |name: &str, value: &str| {
        let settings = BrokerSettings::new([(name.to_owned(), value.to_owned())]);
        settings.map(|settings| settings.kinesis).map_err(|error| error.to_string())
    };
    let of_another = kinesis("kinesis.account.id", "123456789012").expect("has twelve digits");
    assert_eq!(of_another.account_id, "123456789012");
    assert_eq!(kinesis("kinesis.region", "eu-west-3").expect("is one").region, "eu-west-3");
    for (name, value) in [
        ("kinesis.account.id", "12345678901"),
        ("kinesis.account.id", "1234567890ab"),
        ("kinesis.account.id", "123456,789012"),
        ("kinesis.region", ""),
        ("kinesis.region", "eu:west"),
        ("kinesis.region", "eu,west"),
        ("kinesis.stream.delay.ms", "3600001"),
    ] {
        let refused = kinesis(name, value).expect_err("has not the form");
        assert!(refused.contains(name), "{refused}");
    }
}

#[test]
fn the_key_of_tokens_is_made_once_and_stays() {
    let key = |byte| [Uuid([byte; 16]), Uuid([byte + 1; 16])];
    let mut cluster = Cluster::new();
    assert_eq!(cluster.image.sealing_key(), None);
    cluster.submit(MakeSealingKey { key: key(5) }).expect("is made");
    assert_eq!(cluster.image.sealing_key(), Some(key(5)));
    cluster.submit(MakeSealingKey { key: key(6) }).expect("is there");
    cluster.submit(create("clicks", 1)).expect("is made");
    let account = ChangeStreamsAccount { commitment_since_ms: Some(NOW_MS), token_key: key(7) };
    cluster.submit(account).expect("is changed");
    cluster.submit(MakeSealingKey { key: key(8) }).expect("is there");
    assert_eq!(cluster.image.sealing_key(), Some(key(5)));
    let streams = cluster.image.streams().expect("is there");
    assert_eq!(streams.commitment_since_ms, Some(NOW_MS), "is left as it was");
}
