//! How far groups are behind, among the metrics.

mod common;

use common::*;
use logway_client::Connection;
use logway_wire::WireString;
use logway_wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use logway_wire::messages::{FindCoordinatorRequest, OffsetCommitRequest};

/// Commits offsets of a group without members, from partition 0 on.
async fn commit(connection: &Connection, group: &str, offsets: &[i64]) {
    let find = FindCoordinatorRequest {
        coordinator_keys: vec![WireString::copy_of(group)],
        ..Default::default()
    };
    let partition = |(partition_index, &committed_offset)| OffsetCommitRequestPartition {
        partition_index,
        committed_offset,
        ..Default::default()
    };
    let topic = OffsetCommitRequestTopic {
        name: WireString::copy_of("t"),
        partitions: (0..).zip(offsets).map(partition).collect(),
        ..Default::default()
    };
    let commit = OffsetCommitRequest {
        group_id: WireString::copy_of(group),
        generation_id_or_member_epoch: -1,
        topics: vec![topic],
        ..Default::default()
    };
    let committing = async {
        loop {
            connection.call(&find).await.expect("is answered");
            let pending = connection.send(&commit, 9).await.expect("is sent");
            let response = pending.response().await.expect("is answered");
            // Until the shard of the group is there.
            if response.topics[0].partitions.iter().all(|partition| partition.error_code == 0) {
                return;
            }
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), committing).await.expect("in time");
}

/// The lines of the metrics that begin with a name.
fn lines<'a>(metrics: &'a str, name: &str) -> Vec<&'a str> {
    metrics.lines().filter(|line| line.starts_with(name)).collect()
}

#[tokio::test]
async fn lag_is_shown_of_as_many_groups_as_there_is_room_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings =
        [("logway.group.lag.partitions.max", "4"), ("offsets.topic.num.partitions", "3")];
    let broker = TestBroker::start_with(dir.path(), &settings).await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", 3).await;
    let before = now_ms();
    for partition in 0..3 {
        produce(&connection, "t", partition, batch(&["a", "b", "c"])).await;
    }
    commit(&connection, "a", &[1, 3]).await;
    commit(&connection, "b", &[0, 0, 0]).await;
    commit(&connection, "c", &[0]).await;
    let too_long = "d".repeat(256);
    commit(&connection, &too_long, &[0]).await;

    broker.refresh_metrics().await;
    let metrics = broker.metrics();
    assert_eq!(
        lines(&metrics, "logway_group_lag_records{"),
        [
            r#"logway_group_lag_records{group="a",topic="t",partition="0"} 2"#,
            r#"logway_group_lag_records{group="a",topic="t",partition="1"} 0"#,
            r#"logway_group_lag_records{group="c",topic="t",partition="0"} 3"#,
        ]
    );
    assert_eq!(
        lines(&metrics, "logway_group_lag_groups_left_out"),
        ["logway_group_lag_groups_left_out 2"]
    );
    let seconds: Vec<f64> = lines(&metrics, "logway_group_lag_seconds{")
        .into_iter()
        .map(|line| line.rsplit_once(' ').expect("has a value").1.parse().expect("a number"))
        .collect();
    let seconds_max = (now_ms() - before) as f64 / 1_000.0;
    let [late, caught_up, behind] = seconds[..] else { panic!("{seconds:?}") };
    assert!(caught_up == 0.0 && (0.0..=seconds_max).contains(&late), "{seconds:?} {seconds_max}");
    assert!((0.0..=seconds_max).contains(&behind), "{seconds:?} {seconds_max}");
    broker.stop().await;
}

#[tokio::test]
async fn a_group_with_many_partitions_keeps_no_others_from_being_shown() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings =
        [("logway.group.lag.partitions.max", "4"), ("offsets.topic.num.partitions", "3")];
    let broker = TestBroker::start_with(dir.path(), &settings).await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", 4).await;
    // The first by name takes all the room.
    commit(&connection, "a", &[0, 0, 0, 0]).await;
    for group in ["b", "c", "d"] {
        commit(&connection, group, &[0]).await;
    }
    broker.refresh_metrics().await;
    let metrics = broker.metrics();
    let shown = ["b", "c", "d"].map(|group| {
        format!(r#"logway_group_lag_records{{group="{group}",topic="t",partition="0"}} 0"#)
    });
    assert_eq!(lines(&metrics, "logway_group_lag_records{"), shown);
    assert_eq!(
        lines(&metrics, "logway_group_lag_groups_left_out"),
        ["logway_group_lag_groups_left_out 1"]
    );
    broker.stop().await;
}

#[tokio::test]
async fn a_measurement_takes_its_memory_where_answers_take_theirs() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", 1).await;
    commit(&connection, "a", &[0]).await;
    let building = &broker.node().memory.building;
    let all = building.try_take(building.limit_bytes()).expect("nothing is being built");
    broker.refresh_metrics().await;
    assert!(building.is_contended(), "it waits");
    assert!(lines(&broker.metrics(), "logway_group_lag_records{").is_empty());
    drop(all);
    // The one that was begun goes on.
    until(|| !lines(&broker.metrics(), "logway_group_lag_records{").is_empty()).await;
    broker.stop().await;
}
