//! The administration cases, for the calls that the crate has.

use futures_executor::block_on;
use rdkafka::admin::{
    AlterConfig, ConfigEntry, ConfigResource, ConfigSource, NewPartitions, ResourceSpecifier,
};
use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};

use crate::broker::{
    admin, admin_options, assigned, bootstrap, create_topic, fresh, led_partitions, list_offsets,
    produce, read, unjoined,
};
use crate::group::{commit_unjoined, committed};
use crate::member::Member;
use crate::record::numbered;
use crate::report::{DEADLINE, NO_SUCH_CALL, Outcome, Report, wait_until};

pub fn cases(report: &mut Report) {
    report.case("admin-topics", topics);
    report.case("admin-partitions", partitions);
    report.case("admin-topic-configs", topic_configs);
    report.case("admin-broker-configs", broker_configs);
    report.case("admin-cluster", cluster);
    report.case("admin-list-offsets", offsets);
    report.case("admin-delete-records", records);
    report.case("admin-groups", groups);
    report.case("admin-delete-groups", deleted_groups);
    report.case("admin-group-offsets", group_offsets);
    report.case("admin-delete-offsets", || NO_SUCH_CALL);
    report.case("admin-log-dirs", || NO_SUCH_CALL);
    report.case("admin-quotas", || NO_SUCH_CALL);
    report.case("admin-reassignments", || NO_SUCH_CALL);
    report.case("admin-elect-leaders", || NO_SUCH_CALL);
    report.case("admin-producers", || NO_SUCH_CALL);
}

fn names() -> KafkaResult<Vec<String>> {
    let metadata = unjoined("unused", &[]).fetch_metadata(None, DEADLINE)?;
    Ok(metadata.topics().iter().map(|topic| topic.name().to_owned()).collect())
}

fn topics() -> Outcome {
    let topic = create_topic("listed", 3, &[]);
    assert!(names()?.contains(&topic));
    assert_eq!(led_partitions(&topic), [0, 1, 2]);
    assert_eq!(delete_topic(&topic)?, Ok(()));
    wait_until(
        DEADLINE,
        || names().is_ok_and(|names| !names.contains(&topic)),
        || format!("{topic} to be gone"),
    );
    Ok(())
}

/// The broker's answer for the topic.
pub fn delete_topic(topic: &str) -> KafkaResult<Result<(), RDKafkaErrorCode>> {
    let answers = block_on(admin().delete_topics(&[topic], &admin_options()))?;
    Ok(answers
        .into_iter()
        .next()
        .expect("one topic was asked for")
        .map(drop)
        .map_err(|(_, code)| code))
}

fn partitions() -> Outcome {
    let topic = create_topic("grown", 1, &[]);
    let answers =
        block_on(admin().create_partitions([&NewPartitions::new(&topic, 4)], &admin_options()))?;
    assert!(answers[0].is_ok(), "{answers:?}");
    wait_until(
        DEADLINE,
        || led_partitions(&topic) == [0, 1, 2, 3],
        || format!("{topic} to have 4 partitions"),
    );
    produce(&topic, 3, &numbered(0..5));
    assert_eq!(read(&assigned(&topic, &[(3, 0)], &[]), 5)?.len(), 5);
    Ok(())
}

fn configs(resource: ResourceSpecifier<'_>) -> KafkaResult<ConfigResource> {
    let answers = block_on(admin().describe_configs([&resource], &admin_options()))?;
    let answer = answers.into_iter().next().expect("one resource was asked for");
    answer.map_err(KafkaError::AdminOp)
}

fn topic_configs() -> Outcome {
    let topic = create_topic("configured", 1, &[("retention.ms", "3600000")]);
    let described = |name: &str| -> Option<(String, bool)> {
        let resource = configs(ResourceSpecifier::Topic(&topic)).ok()?;
        let ConfigEntry { value, source, .. } = resource.get(name)?;
        Some((value.clone()?, *source == ConfigSource::Default))
    };
    let value = |text: &str, is_default| Some((text.to_owned(), is_default));
    assert_eq!(described("retention.ms"), value("3600000", false));
    assert_eq!(described("segment.bytes"), value("1073741824", true));
    // The older AlterConfigs: what is not named is reset.
    let alter =
        |change: AlterConfig<'_>| block_on(admin().alter_configs([&change], &admin_options()));
    let change = AlterConfig::new(ResourceSpecifier::Topic(&topic));
    assert!(alter(change.set("retention.ms", "7200000"))?[0].is_ok());
    let set = || described("retention.ms") == value("7200000", false);
    wait_until(DEADLINE, set, || "the setting to be changed".to_owned());
    assert!(alter(AlterConfig::new(ResourceSpecifier::Topic(&topic)))?[0].is_ok());
    let reset = || described("retention.ms") == value("604800000", true);
    wait_until(DEADLINE, reset, || "the setting to be reset".to_owned());
    Ok(())
}

fn broker_configs() -> Outcome {
    let metadata = unjoined("unused", &[]).fetch_metadata(None, DEADLINE)?;
    let described = configs(ResourceSpecifier::Broker(metadata.brokers()[0].id()))?;
    let value = |name| described.get(name).and_then(|entry| entry.value.as_deref());
    assert_eq!(value("num.partitions"), Some("1"));
    assert_eq!(value("message.max.bytes"), Some("1048588"));
    Ok(())
}

fn cluster() -> Outcome {
    let asker = unjoined("unused", &[]);
    let metadata = asker.fetch_metadata(None, DEADLINE)?;
    let [broker] = metadata.brokers() else { panic!("{} brokers", metadata.brokers().len()) };
    assert_eq!(format!("{}:{}", broker.host(), broker.port()), bootstrap());
    let id = asker.client().fetch_cluster_id(DEADLINE).expect("the cluster has an id");
    assert_eq!(id.len(), 22, "{id}");
    Ok(())
}

fn delete_records(topic: &str, partition: i32, before: i64) -> KafkaResult<TopicPartitionList> {
    let mut wanted = TopicPartitionList::new();
    wanted.add_partition_offset(topic, partition, Offset::Offset(before))?;
    block_on(admin().delete_records(&wanted, &admin_options()))
}

fn offsets() -> Outcome {
    let topic = create_topic("offsets", 2, &[]);
    produce(&topic, 1, &numbered(0..10));
    assert_eq!((list_offsets(&topic, 0)?, list_offsets(&topic, 1)?), ((0, 0), (0, 10)));
    delete_records(&topic, 1, 4)?;
    assert_eq!(list_offsets(&topic, 1)?, (4, 10));
    Ok(())
}

fn records() -> Outcome {
    let topic = create_topic("truncated", 1, &[]);
    produce(&topic, 0, &numbered(0..100));
    assert_eq!(delete_records(&topic, 0, 60)?.elements()[0].offset(), Offset::Offset(60));
    let first = &read(&assigned(&topic, &[(0, 0)], &[("auto.offset.reset", "earliest")]), 1)?[0];
    assert_eq!(first.number(), 60);
    let refused = delete_records(&topic, 0, 101)?.elements()[0].error();
    assert_eq!(
        refused.map_err(|error| error.rdkafka_error_code()),
        Err(Some(RDKafkaErrorCode::OffsetOutOfRange))
    );
    Ok(())
}

fn groups() -> Outcome {
    let (topic, group) = (create_topic("described", 2, &[]), fresh("described"));
    let member = Member::join(&group, &topic, &[]);
    member.wait_for_partitions(2);
    let asker = unjoined("unused", &[]);
    assert!(
        asker.fetch_group_list(None, DEADLINE)?.groups().iter().any(|found| found.name() == group)
    );
    let list = asker.fetch_group_list(Some(&group), DEADLINE)?;
    let described = &list.groups()[0];
    assert_eq!((described.state(), described.protocol()), ("Stable", "range"));
    let [one] = described.members() else { panic!("{} members", described.members().len()) };
    assert!(one.client_host().contains("127.0.0.1"), "{}", one.client_host());
    let assignment = one.assignment().expect("a stable group's member has an assignment");
    // Version, one topic, its name, two partitions.
    let name = topic.as_bytes();
    let wanted =
        [&[0, 0, 0, 1, 0, name.len() as u8], name, &[0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1]].concat();
    assert_eq!(assignment[2..2 + wanted.len()], wanted);
    Ok(())
}

/// The broker's answer for the group.
pub fn delete_group(group: &str) -> KafkaResult<Result<(), RDKafkaErrorCode>> {
    let answers = block_on(admin().delete_groups(&[group], &admin_options()))?;
    Ok(answers
        .into_iter()
        .next()
        .expect("one group was asked for")
        .map(drop)
        .map_err(|(_, code)| code))
}

fn deleted_groups() -> Outcome {
    let (topic, group) = (create_topic("deleted", 1, &[]), fresh("deleted"));
    commit_unjoined(&group, &topic, 0, 0, "")?;
    assert_eq!(delete_group(&group)?, Ok(()));
    assert_eq!(committed(&group, &topic, 1)?, [Offset::Invalid]);
    let member = Member::join(&group, &topic, &[]);
    member.wait_for_partitions(1);
    assert_eq!(delete_group(&group)?, Err(RDKafkaErrorCode::NonEmptyGroup));
    Ok(())
}

fn group_offsets() -> Outcome {
    let (topic, group) = (create_topic("group-offsets", 2, &[]), fresh("group-offsets"));
    for partition in 0..2 {
        produce(&topic, partition, &numbered(0..10));
    }
    commit_unjoined(&group, &topic, 0, 5, "")?;
    commit_unjoined(&group, &topic, 1, 8, "")?;
    assert_eq!(committed(&group, &topic, 2)?, [Offset::Offset(5), Offset::Offset(8)]);
    let member = Member::join(&group, &topic, &[]);
    member.wait_until(|seen| seen.records.len() >= 7, "7 records");
    let seen = member.leave();
    let seen = seen.lock().expect("the member has left");
    let first = seen
        .records
        .iter()
        .filter(|record| record.partition == 1)
        .map(|record| record.offset)
        .min();
    assert_eq!(first, Some(8));
    Ok(())
}
