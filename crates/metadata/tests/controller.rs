//! The controller's refusals, one by one, and the records of what it accepts.

use logway_metadata::controller::{
    AllocateProducerIds, AlterConfigs, AssignReplicasToDirs, COMMAND_RECORDS_MAX, Command,
    ConfigOperation, ControllerCommand, ControllerReply, CreatePartitions, CreateTopics,
    CreatedTopic, DeleteTopics, IncrementalAlterConfigs, NewTopic, OperationKind,
    PartitionsIncrease, RegisterBroker, ReplicaDirectory, ResourceConfigs, ResourceOperations,
    TopicReference,
};
use logway_metadata::settings::{BrokerSettings, ConfigSource, describe_topic};
use logway_metadata::{ConfigResource, ControllerError, Decision, MetadataImage};
use logway_model::ErrorCode::{
    self, BrokerIdNotRegistered, InvalidConfig, InvalidPartitions, InvalidReplicaAssignment,
    InvalidReplicationFactor, InvalidRequest, InvalidTopicException, PolicyViolation,
    TopicAlreadyExists, TopicDeletionDisabled, UnknownTopicId, UnknownTopicOrPartition,
};
use logway_model::{BrokerId, DirectoryId, PartitionId, ProducerId, TopicId, TopicName, Uuid};

/// A controller that commits at once.
struct Cluster {
    image: MetadataImage,
    broker: BrokerSettings,
}

impl Cluster {
    fn of_brokers(ids: impl IntoIterator<Item = i32>) -> Cluster {
        let (image, broker) = (MetadataImage::default(), BrokerSettings::default());
        let mut cluster = Cluster { image, broker };
        for id in ids {
            cluster.submit(RegisterBroker {
                id: BrokerId(id),
                endpoint: None,
                rack: None,
                log_dirs: Vec::new(),
            });
        }
        cluster
    }

    /// How many records it made, and the reply.
    fn submit<C: Command>(&mut self, command: C) -> (usize, C::Reply) {
        let decision = travelled(command).evaluate(&self.image, &self.broker);
        let Decision { records, reply } = decision.expect("is not refused whole");
        self.image = self.image.apply(&records).expect("the records fit");
        let reply = C::Reply::try_from(travelled_reply(reply));
        (records.len(), reply.unwrap_or_else(|_| panic!("the reply is of another kind")))
    }

    fn create(&mut self, topic: NewTopic) -> Result<CreatedTopic, ControllerError> {
        let (_, mut reply) =
            self.submit(CreateTopics { topics: vec![topic], validate_only: false });
        reply.remove(0)
    }

    fn operate(
        &mut self,
        resource: ConfigResource,
        operations: &[(&str, OperationKind, Option<&str>)],
    ) -> Result<(), ControllerError> {
        let operation = |&(name, kind, value): &(&str, OperationKind, Option<&str>)| {
            ConfigOperation { name: name.to_owned(), kind, value: value.map(str::to_owned) }
        };
        let operations = operations.iter().map(operation).collect();
        let resources = vec![ResourceOperations { resource, operations }];
        let command = IncrementalAlterConfigs { resources, validate_only: false };
        self.submit(command).1.remove(0)
    }

    fn topic_override(&self, topic: &str, setting: &str) -> Option<&str> {
        self.image.topic(topic)?.overrides.get(setting).map(String::as_str)
    }
}

fn topic(name: &str) -> NewTopic {
    let mut id = [0; 16];
    let bytes = name.as_bytes();
    let length = bytes.len().min(16);
    id[..length].copy_from_slice(&bytes[..length]);
    NewTopic {
        name: name.to_owned(),
        id: TopicId(Uuid(id)),
        num_partitions: -1,
        replication_factor: -1,
        assignments: Vec::new(),
        configs: Vec::new(),
    }
}

fn sized(name: &str, num_partitions: i32, replication_factor: i16) -> NewTopic {
    NewTopic { num_partitions, replication_factor, ..topic(name) }
}

fn assigned(name: &str, assignments: &[(i32, &[i32])]) -> NewTopic {
    let brokers = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect();
    let assignments =
        assignments.iter().map(|(partition, ids)| (*partition, brokers(ids))).collect();
    NewTopic { assignments, ..topic(name) }
}

fn configured(name: &str, configs: &[(&str, Option<&str>)]) -> NewTopic {
    let config = |(name, value): &(&str, Option<&str>)| (name.to_string(), value.map(String::from));
    NewTopic { configs: configs.iter().map(config).collect(), ..topic(name) }
}

fn named(name: &str) -> ConfigResource {
    ConfigResource::Topic(TopicName::new(name).expect("is a name"))
}

#[track_caller]
fn assert_refused<T: std::fmt::Debug>(
    result: Result<T, ControllerError>,
    code: ErrorCode,
    part: &str,
) {
    let error = result.expect_err(part);
    assert_eq!(error.code, code, "{error}");
    assert!(error.message.contains(part), "'{}' has no '{part}'", error.message);
    assert!(error.message.len() < 400, "{} bytes", error.message.len());
}

#[test]
fn topics_are_refused_for_a_reason() {
    let mut cluster = Cluster::of_brokers([1, 2]);
    cluster.create(topic("a.b")).expect("is created");
    let mut half = sized("half", -1, -1);
    half.assignments = vec![(0, vec![BrokerId(1)])];
    half.num_partitions = 1;
    let mut factor = half.clone();
    (factor.num_partitions, factor.replication_factor) = (-1, 1);
    for (topic, code, part) in [
        (topic("a.b"), TopicAlreadyExists, "Topic 'a.b' already exists"),
        (topic("a_b"), InvalidTopicException, "collides with existing topic 'a.b'"),
        (topic(""), InvalidTopicException, "empty"),
        (topic("a/b"), InvalidTopicException, "ASCII letters"),
        (topic("__cluster_metadata"), InvalidRequest, "is reserved"),
        (topic(&"x".repeat(100_000)), InvalidTopicException, "longer than 249"),
        (sized("t", 0, 1), InvalidPartitions, "larger than 0"),
        (sized("t", -2, 1), InvalidPartitions, "not -2"),
        (sized("t", i32::MAX, 1), PolicyViolation, "partitions of a topic at most"),
        (sized("t", 1, 0), InvalidReplicationFactor, "larger than 0"),
        (sized("t", 1, 3), InvalidReplicationFactor, "larger than the number of brokers, 2"),
        (half, InvalidRequest, "number of partitions must be -1"),
        (factor, InvalidRequest, "replication factor must be -1"),
        (assigned("t", &[(1, &[1])]), InvalidReplicaAssignment, "from 0 without gaps"),
        (assigned("t", &[(0, &[1]), (0, &[2])]), InvalidReplicaAssignment, "without gaps"),
        (assigned("t", &[(0, &[])]), InvalidReplicaAssignment, "at least one"),
        (assigned("t", &[(0, &[1, 1])]), InvalidReplicaAssignment, "broker 1 is listed twice"),
        (assigned("t", &[(0, &[1, 9])]), InvalidReplicaAssignment, "no broker 9"),
        (
            assigned("t", &[(0, &[1, 2]), (1, &[1])]),
            InvalidReplicaAssignment,
            "Partition 1 has 1 replicas, others of the topic have 2",
        ),
        (configured("t", &[("x", Some("1"))]), InvalidConfig, "unknown topic setting 'x'"),
        (configured("t", &[("segment.ms", Some("0"))]), InvalidConfig, "1 or more"),
        (configured("t", &[("segment.ms", None)]), InvalidConfig, "no value"),
        (
            configured(
                "t",
                &[("min.compaction.lag.ms", Some("9")), ("max.compaction.lag.ms", Some("5"))],
            ),
            InvalidConfig,
            "must not be greater than max.compaction.lag.ms, which is 5",
        ),
    ] {
        assert_refused(cluster.create(topic), code, part);
    }
    assert_eq!(cluster.image.topic_count(), 1);
}

#[test]
fn a_created_topic_is_what_was_asked_for() {
    let mut cluster = Cluster::of_brokers([1, 2, 3]);
    let created = cluster.create(sized("spread", 6, 2)).expect("is created");
    assert_eq!((created.num_partitions, created.replication_factor), (6, 2));
    let image = cluster.image.topic("spread").expect("exists");
    for id in [1, 2, 3].map(BrokerId) {
        let led = image.partitions.iter().filter(|p| p.leader == Some(id)).count();
        assert_eq!(led, 2, "broker {id} leads its share");
    }
    assert!(image.partitions.iter().all(|p| p.isr == p.replicas && p.replicas.len() == 2));

    let created = cluster.create(assigned("by-hand", &[(1, &[2, 3]), (0, &[3, 1])]));
    assert_eq!(created.expect("is created").replication_factor, 2);
    let image = cluster.image.topic("by-hand").expect("exists");
    assert_eq!(image.partitions[0].replicas, [3, 1].map(BrokerId));
    assert_eq!(image.partitions[1].leader, Some(BrokerId(2)));

    let created = cluster.create(configured("tuned", &[("retention.ms", Some(" 5 "))]));
    let overrides = created.expect("is created").overrides;
    let configs = describe_topic(&overrides, &cluster.image, &cluster.broker);
    let retention = configs.iter().find(|entry| entry.name == "retention.ms").expect("is listed");
    assert_eq!(retention.value.as_deref(), Some("5"));
    assert_eq!(retention.source, ConfigSource::DynamicTopicConfig);
    assert_eq!(cluster.topic_override("tuned", "retention.ms"), Some("5"));
}

#[test]
fn topics_of_one_request_are_judged_one_by_one() {
    let mut cluster = Cluster::of_brokers([1]);
    let topics =
        ["x.y", "twice", "x_y", "twice", "good"].into_iter().map(topic).collect::<Vec<_>>();
    let command = CreateTopics { topics, validate_only: true };
    let (records, reply) = cluster.submit(command.clone());
    let codes: Vec<_> = reply.iter().map(|r| r.as_ref().map_err(|e| e.code).err()).collect();
    let twice = Some(InvalidRequest);
    assert_eq!(codes, [None, twice, Some(InvalidTopicException), twice, None]);
    assert_eq!((records, cluster.image.topic_count()), (0, 0), "only validated");

    let (records, _) = cluster.submit(CreateTopics { validate_only: false, ..command });
    assert_eq!((records, cluster.image.topic_count()), (4, 2));
}

#[test]
fn one_command_makes_a_bounded_number_of_records() {
    let mut cluster = Cluster::of_brokers([1]);
    let most = i32::try_from(COMMAND_RECORDS_MAX - 3).expect("is small");
    let topics = vec![sized("large", most, 1), topic("small"), topic("over")];
    let (records, reply) = cluster.submit(CreateTopics { topics, validate_only: false });
    assert_eq!(records, COMMAND_RECORDS_MAX);
    assert!(reply[0].is_ok() && reply[1].is_ok());
    assert_refused(reply[2].clone(), PolicyViolation, "split it");
}

#[test]
fn topics_are_deleted_by_name_and_by_id() {
    let mut cluster = Cluster::of_brokers([1]);
    let id = cluster.create(topic("by-id")).expect("is created").id;
    cluster.create(configured("by-name", &[("segment.ms", Some("9"))])).expect("is created");
    let name = |name: &str| TopicReference::Name(name.to_owned());
    let unknown = TopicReference::Id(TopicId(Uuid([9; 16])));
    let topics = vec![name("by-name"), TopicReference::Id(id), name("by-id"), name("?"), unknown];
    let (records, reply) = cluster.submit(DeleteTopics { topics });
    assert_eq!((records, cluster.image.topic_count()), (2, 0));
    assert!(reply[0].is_ok() && reply[1].is_ok());
    assert_refused(reply[2].clone(), InvalidRequest, "'by-id' is in the request twice");
    assert_refused(reply[3].clone(), UnknownTopicOrPartition, "'?' does not exist");
    assert_refused(reply[4].clone(), UnknownTopicId, "No topic has the id CQkJ");

    cluster.create(topic("by-name")).expect("the name is free again");
    assert_eq!(cluster.topic_override("by-name", "segment.ms"), None, "settings went with it");

    let off = [("delete.topic.enable".to_owned(), "false".to_owned())];
    let broker = BrokerSettings::new(off).expect("is valid");
    let refused = DeleteTopics { topics: vec![name("by-name")] }.evaluate(&cluster.image, &broker);
    assert_refused(refused, TopicDeletionDisabled, "delete.topic.enable");
}

#[test]
fn partitions_are_only_ever_added() {
    let mut cluster = Cluster::of_brokers([1, 2]);
    cluster.create(sized("t", 2, 1)).expect("is created");
    let increase = |name: &str, count, assignments: Option<&[&[i32]]>| PartitionsIncrease {
        name: name.to_owned(),
        count,
        assignments: assignments.map(|partitions| {
            let brokers = |ids: &&[i32]| ids.iter().copied().map(BrokerId).collect();
            partitions.iter().map(brokers).collect()
        }),
    };
    for (topic, code, part) in [
        (increase("?", 3, None), UnknownTopicOrPartition, "'?' does not exist"),
        (increase("t", 2, None), InvalidPartitions, "has 2 partitions already"),
        (increase("t", -1, None), InvalidPartitions, "not -1"),
        (increase("t", i32::MAX, None), PolicyViolation, "partitions of a topic at most"),
        (increase("t", 4, Some(&[&[1]])), InvalidReplicaAssignment, "2 more partitions"),
        (increase("t", 3, Some(&[&[1, 2]])), InvalidReplicaAssignment, "has 2 replicas"),
        (increase("t", 3, Some(&[&[7]])), InvalidReplicaAssignment, "no broker 7"),
    ] {
        let command = CreatePartitions { topics: vec![topic], validate_only: false };
        assert_refused(cluster.submit(command).1.remove(0), code, part);
    }
    let grow = vec![increase("t", 4, Some(&[&[2], &[1]]))];
    let command = CreatePartitions { topics: grow, validate_only: true };
    assert_eq!(cluster.submit(command.clone()), (0, vec![Ok(4)]));
    let command = CreatePartitions { validate_only: false, ..command };
    assert_eq!(cluster.submit(command), (2, vec![Ok(4)]));
    let partitions = &cluster.image.topic("t").expect("exists").partitions;
    assert_eq!(partitions[2].replicas, [BrokerId(2)]);
}

#[test]
fn settings_change_one_by_one() {
    use OperationKind::{Append, Delete, Set, Subtract};
    let mut cluster = Cluster::of_brokers([1]);
    cluster.create(topic("t")).expect("is created");
    let policy =
        |cluster: &Cluster| cluster.topic_override("t", "cleanup.policy").map(str::to_owned);
    let t = || named("t");

    let added = cluster.operate(t(), &[("cleanup.policy", Append, Some("compact"))]);
    added.expect("starts from the default");
    assert_eq!(policy(&cluster).as_deref(), Some("delete,compact"));
    cluster.operate(t(), &[("cleanup.policy", Append, Some("compact"))]).expect("is a no-op");
    assert_eq!(policy(&cluster).as_deref(), Some("delete,compact"));
    cluster.operate(t(), &[("cleanup.policy", Subtract, Some("delete"))]).expect("is removed");
    assert_eq!(policy(&cluster).as_deref(), Some("compact"));
    cluster.operate(t(), &[("cleanup.policy", Delete, None)]).expect("ends");
    assert_eq!(policy(&cluster), None);

    let broker = ConfigResource::Broker;
    // What is not there, or never could be, has ended.
    let ended = [("segment.mss", Delete, None), ("segment.ms", Set, Some("5"))];
    cluster.operate(t(), &ended).expect("one is deleted and the other set");
    assert_eq!(cluster.topic_override("t", "segment.ms"), Some("5"));
    cluster.operate(broker(BrokerId(1)), &[("node.id", Delete, None)]).expect("was not set");
    for (resource, operation, code, part) in [
        (t(), ("segment.ms", Append, Some("1")), InvalidConfig, "is not a list"),
        (t(), ("segment.ms", Set, None), InvalidRequest, "given no value"),
        (t(), ("segment.mss", Set, Some("1")), InvalidConfig, "did you mean 'segment.ms'"),
        (t(), ("cleanup.policy", Append, Some("burn")), InvalidConfig, "any of compact, delete"),
        (named("u"), ("segment.ms", Set, Some("1")), UnknownTopicOrPartition, "'u' does not exist"),
        (broker(BrokerId(9)), ("log.roll.ms", Set, Some("1")), BrokerIdNotRegistered, "broker 9"),
        (broker(BrokerId(1)), ("node.id", Set, Some("1")), InvalidRequest, "while the broker runs"),
        (broker(BrokerId(1)), ("segment.ms", Set, Some("1")), InvalidRequest, "unknown broker"),
        (broker(BrokerId(1)), ("log.segment.bytes", Set, Some("x")), InvalidRequest, "1048576"),
    ] {
        assert_refused(cluster.operate(resource, &[operation]), code, part);
    }
    let twice = [("segment.ms", Set, Some("1")), ("segment.ms", Delete, None)];
    assert_refused(cluster.operate(t(), &twice), InvalidRequest, "'segment.ms' twice");
    let clash =
        [("min.compaction.lag.ms", Set, Some("9")), ("max.compaction.lag.ms", Set, Some("5"))];
    assert_refused(cluster.operate(t(), &clash), InvalidConfig, "must not be greater");
    let default = [("log.cleaner.min.compaction.lag.ms", Set, Some("9223372036854775807"))];
    cluster.operate(ConfigResource::BrokerDefault, &default).expect("max is as large");
}

#[test]
fn altering_configs_replaces_all_of_them() {
    let mut cluster = Cluster::of_brokers([1]);
    let created = cluster.create(configured("t", &[("segment.ms", Some("5"))]));
    created.expect("is created");
    let alter = |configs: &[(&str, &str)], validate_only| AlterConfigs {
        resources: vec![ResourceConfigs {
            resource: named("t"),
            configs: configs.iter().map(|(n, v)| (n.to_string(), Some(v.to_string()))).collect(),
        }],
        validate_only,
    };
    assert_eq!(cluster.submit(alter(&[("flush.messages", "100")], true)).0, 0);
    assert_eq!(cluster.submit(alter(&[("flush.messages", "100")], false)).0, 2);
    assert_eq!(cluster.topic_override("t", "segment.ms"), None);
    assert_eq!(cluster.topic_override("t", "flush.messages"), Some("100"));
    assert_eq!(cluster.submit(alter(&[("flush.messages", "100")], false)).0, 0, "nothing new");

    let mut command = alter(&[], false);
    command.resources.push(command.resources[0].clone());
    for result in cluster.submit(command).1 {
        assert_refused(result, InvalidRequest, "topic 't' twice");
    }
}

#[test]
fn producer_ids_are_given_out_once() {
    let mut cluster = Cluster::of_brokers([1]);
    let (_, first) = cluster.submit(AllocateProducerIds);
    let (_, second) = cluster.submit(AllocateProducerIds);
    assert_eq!(first.first, ProducerId(0));
    assert_eq!(second.first.0, first.first.0 + first.count);
    assert_eq!(cluster.image.next_producer_id(), ProducerId(2_000));
}

#[test]
fn a_broker_that_is_known_makes_no_record() {
    let mut cluster = Cluster::of_brokers([1]);
    let known =
        RegisterBroker { id: BrokerId(1), endpoint: None, rack: None, log_dirs: Vec::new() };
    assert_eq!(cluster.submit(known.clone()).0, 0);
    assert_eq!(cluster.submit(RegisterBroker { rack: Some("a".to_owned()), ..known }).0, 1);
    let broker = cluster.image.broker(BrokerId(1)).expect("is registered");
    assert_eq!(broker.rack.as_deref(), Some("a"));
}

#[test]
fn a_partition_goes_to_the_log_directory_that_holds_the_fewest() {
    let dir = |number| DirectoryId(Uuid([number; 16]));
    let mut cluster = Cluster::of_brokers([]);
    let broker =
        RegisterBroker { id: BrokerId(1), endpoint: None, rack: None, log_dirs: vec![dir(7)] };
    cluster.submit(broker.clone());
    cluster.create(sized("a", 2, 1)).expect("is created");
    // A disk is added: it is filled up to what the other holds, within one command, too.
    cluster.submit(RegisterBroker { log_dirs: vec![dir(7), dir(8)], ..broker.clone() });
    cluster.create(sized("b", 4, 1)).expect("is created");
    assert_eq!([dir(7), dir(8)].map(|dir| cluster.image.replicas_in(dir)), [3, 3]);
    // It is lost: nothing more goes there.
    cluster.submit(RegisterBroker { log_dirs: vec![dir(7)], ..broker });
    cluster.create(sized("c", 2, 1)).expect("is created");
    assert_eq!([dir(7), dir(8)].map(|dir| cluster.image.replicas_in(dir)), [5, 3]);

    let b = cluster.image.topic("b").expect("exists");
    let (topic_id, partition, directory) = (b.id, PartitionId(0), dir(8));
    assert_eq!(b.partitions[0].directory_of(BrokerId(1)), dir(8));
    let move_to = |directory, broker| AssignReplicasToDirs {
        broker: BrokerId(broker),
        replicas: vec![ReplicaDirectory { topic_id, partition, directory }],
    };
    assert_eq!(cluster.submit(move_to(directory, 1)).0, 0, "it is there");
    assert_eq!(cluster.submit(move_to(dir(7), 2)).0, 0, "not its replica");
    assert_eq!(cluster.submit(move_to(dir(7), 1)).0, 1);
    assert_eq!([dir(7), dir(8)].map(|dir| cluster.image.replicas_in(dir)), [6, 2]);
    let moved = &cluster.image.topic("b").expect("exists").partitions[0];
    assert_eq!((moved.directory_of(BrokerId(1)), moved.partition_epoch), (dir(7), 1));
}

/// A command as another node gets it.
fn travelled(command: impl Command) -> ControllerCommand {
    let text = serde_json::to_string(&command.into()).expect("is encoded");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// A reply as it comes back from another node.
fn travelled_reply(reply: ControllerReply) -> ControllerReply {
    let text = serde_json::to_string(&reply).expect("is encoded");
    let came: ControllerReply =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(came, reply, "{text}");
    came
}
