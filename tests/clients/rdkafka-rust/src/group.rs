//! The group cases.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::{Offset, TopicPartitionList};

use crate::broker::{
    create_topic, enqueue, flush, fresh, list_offsets, produce, producer, unjoined,
};
use crate::member::{Member, Seen};
use crate::record::{Record, numbered};
use crate::report::{DEADLINE, Failure, Outcome, Report, wait_until};

const FLOW_RECORDS: usize = 100_000;
const CHUNK_RECORDS: usize = 2_000;
const FLOW_DEADLINE: Duration = Duration::from_secs(60);

pub fn cases(report: &mut Report) {
    report.case("group-resume", resume);
    report.case("group-rebalance", || flow("range").map(drop));
    report.case("group-cooperative", cooperative);
    report.case("group-static", static_members);
    report.case("group-metadata", metadata);
}

/// The committed offset of each partition, as a consumer outside the group fetches it.
pub fn committed(group: &str, topic: &str, partitions: i32) -> KafkaResult<Vec<Offset>> {
    let mut asked = TopicPartitionList::new();
    asked.add_partition_range(topic, 0, partitions - 1);
    let found = unjoined(group, &[]).committed_offsets(asked, DEADLINE)?;
    Ok(found.elements().iter().map(|place| place.offset()).collect())
}

/// Commits for a group without being a member of it.
pub fn commit_unjoined(
    group: &str,
    topic: &str,
    partition: i32,
    offset: i64,
    metadata: &str,
) -> KafkaResult<()> {
    let mut wanted = TopicPartitionList::new();
    let mut place = wanted.add_partition(topic, partition);
    place.set_offset(Offset::Offset(offset))?;
    place.set_metadata(metadata);
    unjoined(group, &[]).commit(&wanted, CommitMode::Sync)
}

fn resume() -> Outcome {
    let (topic, group) = (create_topic("resume", 3, &[]), fresh("resume"));
    for partition in 0..3 {
        produce(&topic, partition, &numbered(0..100));
    }
    let first = Member::join(&group, &topic, &[]);
    first.wait_until(|seen| seen.records.len() == 300, "300 records");
    first.leave();
    assert_eq!(committed(&group, &topic, 3)?, [Offset::Offset(100); 3]);
    for partition in 0..3 {
        produce(&topic, partition, &numbered(100..110));
    }
    let second = Member::join(&group, &topic, &[]);
    second.wait_until(|seen| seen.records.len() >= 30, "30 records");
    let seen = second.leave();
    let seen = seen.lock().expect("the member has left");
    let mut places: Vec<_> =
        seen.records.iter().map(|record| (record.partition, record.offset)).collect();
    places.sort_unstable();
    assert!(
        places
            .into_iter()
            .eq((0..3).flat_map(|partition| (100..110).map(move |offset| (partition, offset))))
    );
    Ok(())
}

fn cooperative() -> Outcome {
    let (lost, gained) = flow("cooperative-sticky")?;
    assert_eq!(lost.len(), 2, "the first member lost {lost:?}");
    assert!(lost.is_subset(&gained), "the second member got {gained:?}");
    Ok(())
}

/// Records flow while a second member joins and leaves; returns what the first lost and what the second got.
fn flow(strategy: &str) -> Result<(BTreeSet<i32>, BTreeSet<i32>), Failure> {
    let (topic, group) = (create_topic("flow", 4, &[]), fresh("flow"));
    let settings = [("partition.assignment.strategy", strategy)];
    let (producer, mut sent) = (producer(&[]), 0);
    let mut send_up_to = |count| -> KafkaResult<()> {
        while sent < count {
            for (number, record) in (sent..).zip(numbered(sent..sent + CHUNK_RECORDS)) {
                enqueue(&producer, &topic, (number % 4) as i32, &record)?;
            }
            flush(&producer)?;
            sent += CHUNK_RECORDS;
        }
        Ok(())
    };
    let first = Member::join(&group, &topic, &settings);
    first.wait_for_partitions(4);
    send_up_to(20_000)?;
    let second = Member::join(&group, &topic, &settings);
    send_up_to(60_000)?;
    second.wait_for_partitions(2);
    send_up_to(80_000)?;
    second.wait_until(|seen| !seen.records.is_empty(), "records");
    let second = second.leave();
    send_up_to(FLOW_RECORDS)?;

    let numbers =
        |seen: &Seen| -> HashSet<usize> { seen.records.iter().map(Record::number).collect() };
    let by_second = numbers(&second.lock().expect("the member has left"));
    let all = || {
        // Counting comes first: to compare them takes a while.
        let seen = first.seen();
        seen.records.len() + by_second.len() >= FLOW_RECORDS
            && numbers(&seen).union(&by_second).count() == FLOW_RECORDS
    };
    wait_until(FLOW_DEADLINE, all, || "all records to be seen".to_owned());
    first.wait_for_partitions(4);
    assert!(!by_second.is_empty() && !first.seen().records.is_empty());
    let ends = (0..4)
        .map(|partition| list_offsets(&topic, partition).map(|(_, end)| end))
        .collect::<KafkaResult<Vec<_>>>()?;
    assert_eq!(ends.iter().sum::<i64>(), FLOW_RECORDS as i64);
    let wanted: Vec<_> = ends.into_iter().map(Offset::Offset).collect();
    let right = || committed(&group, &topic, 4).is_ok_and(|found| found == wanted);
    wait_until(DEADLINE, right, || format!("the committed offsets to be {wanted:?}"));
    let lost = all_of(&first.seen().lost);
    let gained = all_of(&second.lock().expect("the member has left").gained);
    Ok((lost, gained))
}

/// All the partitions that call backs told of.
fn all_of(told: &[BTreeSet<i32>]) -> BTreeSet<i32> {
    told.iter().flatten().copied().collect()
}

fn static_members() -> Outcome {
    let (topic, group) = (create_topic("static", 4, &[]), fresh("static"));
    let callbacks = |member: &Member| {
        let seen = member.seen();
        seen.gained.len() + seen.lost.len()
    };
    let stays = Member::join(&group, &topic, &[("group.instance.id", "stays")]);
    stays.wait_for_partitions(4);
    let restarts = Member::join(&group, &topic, &[("group.instance.id", "restarts")]);
    restarts.wait_for_partitions(2);
    stays.wait_for_partitions(2);
    let (had, before) = (restarts.seen().assigned.clone(), callbacks(&stays));
    restarts.leave();
    let restarted = Member::join(&group, &topic, &[("group.instance.id", "restarts")]);
    restarted.wait_for_partitions(2);
    assert_eq!(restarted.seen().assigned, had);
    for partition in 0..4 {
        produce(&topic, partition, &numbered(0..1));
    }
    stays.wait_until(|seen| seen.records.len() == 2, "a record of each partition");
    assert_eq!(callbacks(&stays), before, "the other member saw a rebalance");
    Ok(())
}

fn metadata() -> Outcome {
    let (topic, group) = (create_topic("metadata", 1, &[]), fresh("metadata"));
    produce(&topic, 0, &numbered(0..10));
    let text = "read by host-1 at 12:00, ünïcode";
    commit_unjoined(&group, &topic, 0, 7, text)?;
    let mut asked = TopicPartitionList::new();
    asked.add_partition(&topic, 0);
    let found = unjoined(&group, &[]).committed_offsets(asked, DEADLINE)?;
    let place = &found.elements()[0];
    assert_eq!((place.offset(), place.metadata()), (Offset::Offset(7), text));
    Ok(())
}
