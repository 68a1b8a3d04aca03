//! A quorum of one on a simulated disk that loses what was not synced: a power cut at any point
//! loses no committed record, and a disk that is full or broken is an error, not a lie.

use std::path::Path;
use std::sync::Arc;

use logway_log::fs::SimFs;
use logway_log::fs::sim::{Failure, Fault, SimOperation};
use logway_metadata::controller::{
    AllocateProducerIds, CreateTopics, DeleteTopics, NewTopic, RegisterBroker, TopicReference,
};
use logway_model::{BrokerId, DirectoryId, TopicId, Uuid};
use logway_quorum::{Committed, MetadataQuorum, QuorumError, QuorumOptions};
use tokio::runtime::Runtime;

/// Few enough that a run takes several snapshots and drops parts of the log.
const SNAPSHOT_INTERVAL_ENTRIES: u64 = 4;

/// Every step of a run waits for the one before it, so runs of one seed do the same.
fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runs")
}

fn options(fs: &SimFs) -> QuorumOptions {
    QuorumOptions {
        fs: Arc::new(fs.clone()),
        snapshot_interval_entries: SNAPSHOT_INTERVAL_ENTRIES,
        ..QuorumOptions::new(Path::new("data/metadata"), Arc::default())
    }
}

async fn register(quorum: &MetadataQuorum) -> Result<(), QuorumError> {
    let broker =
        RegisterBroker { id: BrokerId(1), endpoint: None, rack: None, log_dirs: Vec::new() };
    quorum.submit(broker).await.map(Committed::into_reply)
}

async fn create(quorum: &MetadataQuorum, number: u8) -> Result<(), QuorumError> {
    let topic = NewTopic {
        name: format!("topic-{number}"),
        id: TopicId(Uuid([number + 1; 16])),
        num_partitions: 2,
        replication_factor: 1,
        assignments: Vec::new(),
        configs: Vec::new(),
    };
    let command = CreateTopics { topics: vec![topic], validate_only: false };
    Ok(quorum.submit(command).await?.reply.remove(0).map(drop)?)
}

async fn delete(quorum: &MetadataQuorum, number: u8) -> Result<(), QuorumError> {
    let topics = vec![TopicReference::Name(format!("topic-{number}"))];
    Ok(quorum.submit(DeleteTopics { topics }).await?.reply.remove(0).map(drop)?)
}

/// What was acknowledged before the end.
#[derive(Debug, Default)]
struct Acknowledged {
    created: Vec<u8>,
    deleted: Vec<u8>,
    producer_ids_end: i64,
}

/// Creates and deletes topics until the machine stops.
async fn work(fs: &SimFs, acknowledged: &mut Acknowledged) -> Result<(), QuorumError> {
    let quorum = MetadataQuorum::open(options(fs)).await?;
    register(&quorum).await?;
    for number in 0..8 {
        create(&quorum, number).await?;
        acknowledged.created.push(number);
        if number % 3 == 0 {
            let block = quorum.submit(AllocateProducerIds).await?.reply;
            acknowledged.producer_ids_end = block.first.0 + block.count;
        }
        if number % 4 == 3 {
            delete(&quorum, number).await?;
            acknowledged.deleted.push(number);
        }
        if number % 4 == 2 {
            quorum.snapshot().await?;
        }
    }
    quorum.shutdown().await
}

async fn check(fs: &SimFs, acknowledged: &Acknowledged, when: &str) {
    let quorum = MetadataQuorum::open(options(fs)).await.unwrap_or_else(|error| {
        panic!("{when}: does not open: {error}");
    });
    let image = quorum.image();
    let has = |number: &u8| image.topic(&format!("topic-{number}")).is_some();
    for number in &acknowledged.created {
        let is_deleted = acknowledged.deleted.contains(number);
        // The last delete may have been committed without an answer.
        assert!(has(number) || is_deleted || number % 4 == 3, "{when}: lost {acknowledged:?}");
    }
    assert!(!acknowledged.deleted.iter().any(has), "{when}: came back, {acknowledged:?}");
    for topic in image.topics() {
        assert_eq!(topic.partitions.len(), 2, "{when}: {topic:?} is half a topic");
    }
    let next = image.next_producer_id().0;
    assert!(next >= acknowledged.producer_ids_end, "{when}: producer ids twice");
    register(&quorum).await.unwrap_or_else(|error| panic!("{when}: {error}"));
    create(&quorum, 100).await.unwrap_or_else(|error| panic!("{when}: {error}"));
}

#[test]
fn a_power_cut_at_any_point_loses_nothing_that_was_committed() {
    // Each seed takes its share of the points, so that all are tried without taking long.
    const SEEDS: u64 = 2;
    for seed in 0..SEEDS {
        let fs = SimFs::new(seed);
        let whole = runtime().block_on(work(&fs, &mut Acknowledged::default()));
        whole.expect("no power cut, no error");
        let changes = fs.changes();
        for at in (1 + seed..=changes).step_by(SEEDS as usize) {
            let fs = SimFs::new(seed);
            fs.crash_at_change(at);
            let mut acknowledged = Acknowledged::default();
            // A cut while the files are being closed goes unnoticed, as it may.
            _ = runtime().block_on(work(&fs, &mut acknowledged));
            let when = format!("seed {seed}, power cut at change {at} of {changes}");
            runtime().block_on(check(&fs.crash(), &acknowledged, &when));
        }
    }
}

/// The process is killed at each point, the next one shows what it finds, which others act upon, as a
/// rule goes on, and the power fails.
#[test]
fn what_a_start_shows_after_a_kill_is_not_lost_in_a_power_cut() {
    const SEEDS: u64 = 8;
    for seed in 0..SEEDS {
        let whole = SimFs::new(seed);
        let done = runtime().block_on(work(&whole, &mut Acknowledged::default()));
        done.expect("nothing fails");
        let changes = whole.changes();
        // The first ones make the files.
        let first = 1..=40;
        let others = (41 + seed..=changes).step_by(SEEDS as usize);
        for at in first.chain(others) {
            let fs = SimFs::new(seed);
            fs.crash_at_change(at);
            let mut acknowledged = Acknowledged::default();
            _ = runtime().block_on(work(&fs, &mut acknowledged));
            let when = format!("seed {seed}, kill at change {at} of {changes}");
            let fs = fs.kill();
            runtime().block_on(async {
                let quorum = MetadataQuorum::open(options(&fs)).await;
                let quorum =
                    quorum.unwrap_or_else(|error| panic!("{when}: does not open: {error}"));
                let image = quorum.image();
                let shown = |number: &u8| image.topic(&format!("topic-{number}")).is_some();
                acknowledged.created = (0..8).filter(shown).collect();
                acknowledged.producer_ids_end = image.next_producer_id().0;
                // And goes on.
                if (at + seed) % 3 > 0 {
                    register(&quorum).await.unwrap_or_else(|error| panic!("{when}: {error}"));
                    create(&quorum, 50).await.unwrap_or_else(|error| panic!("{when}: {error}"));
                    acknowledged.created.push(50);
                }
            });
            runtime().block_on(check(&fs.crash(), &acknowledged, &when));
        }
    }
}

#[test]
fn a_failed_sync_stops_the_quorum_and_a_restart_tells_the_truth() {
    for seed in 0..12 {
        let fs = SimFs::new(seed);
        fs.inject(Fault::new(SimOperation::Sync, Failure::Io).in_path("log.redb").after(10 + seed));
        let mut acknowledged = Acknowledged::default();
        let error = runtime().block_on(work(&fs, &mut acknowledged)).expect_err("the sync failed");
        assert!(error.to_string().contains("log.redb"), "seed {seed}: {error}");
        runtime().block_on(check(&fs.crash(), &acknowledged, &format!("seed {seed}")));
    }
}

#[test]
fn a_stopped_quorum_says_so_and_still_shows_its_image() {
    runtime().block_on(async {
        let fs = SimFs::new(1);
        let quorum = MetadataQuorum::open(options(&fs)).await.expect("opens");
        register(&quorum).await.expect("is registered");
        create(&quorum, 1).await.expect("is created");
        quorum.check_running().expect("runs");
        fs.inject(Fault::new(SimOperation::Sync, Failure::Io));
        for number in 2..4 {
            let error = create(&quorum, number).await.expect_err("the sync failed");
            assert!(matches!(error, QuorumError::Stopped { .. }), "{error}");
        }
        quorum.check_running().expect_err("stopped");
        assert_eq!(quorum.image().topic_count(), 1);
    });
}

#[test]
fn on_a_full_disk_only_what_makes_space_is_committed() {
    const MIB: u64 = 1 << 20;
    runtime().block_on(async {
        let fs = SimFs::new(1);
        let quorum = MetadataQuorum::open(options(&fs)).await.expect("opens");
        register(&quorum).await.expect("is registered");
        for number in 0..8 {
            create(&quorum, number).await.expect("is created");
        }
        fs.set_capacity_bytes(MIB);
        let error = create(&quorum, 9).await.expect_err("there is no space");
        assert!(matches!(error, QuorumError::DiskFull { .. }), "{error}");
        for number in 0..8 {
            delete(&quorum, number).await.expect("is deleted");
        }
        fs.set_capacity_bytes(100 * MIB);
        create(&quorum, 9).await.expect("there is space again");
        quorum.snapshot().await.expect("and for a snapshot");
    });
}

#[test]
fn a_broker_that_starts_on_a_full_disk_can_say_where_it_is_reached_and_what_it_can_use() {
    const MIB: u64 = 1 << 20;
    runtime().block_on(async {
        let fs = SimFs::new(1);
        let quorum = MetadataQuorum::open(options(&fs)).await.expect("opens");
        register(&quorum).await.expect("is registered");
        fs.set_capacity_bytes(MIB);
        create(&quorum, 1).await.expect_err("there is no space");
        // A directory has failed, or is back.
        let directory = DirectoryId(Uuid([7; 16]));
        let registration = RegisterBroker {
            id: BrokerId(1),
            endpoint: None,
            rack: None,
            log_dirs: vec![directory],
        };
        let before = quorum.status().high_watermark;
        quorum.submit(registration).await.expect("is registered");
        assert!(quorum.status().high_watermark > before, "it was written down");
    });
}

#[test]
fn a_disk_that_becomes_full_under_a_commit_delays_it_and_stops_nothing() {
    runtime().block_on(async {
        let fs = SimFs::new(1);
        let quorum = MetadataQuorum::open(options(&fs)).await.expect("opens");
        register(&quorum).await.expect("is registered");
        create(&quorum, 1).await.expect("is created");
        for round in 0..3 {
            fs.inject(Fault::new(SimOperation::Write, Failure::NoSpace).in_path("log.redb"));
            let late = 10 + round;
            for number in [late, 20 + round, 30 + round] {
                let error = create(&quorum, number).await.expect_err("there is no space");
                assert!(matches!(error, QuorumError::WaitsForSpace { .. }), "{error}");
            }
            delete(&quorum, 1).await.expect_err("there is no space for that either");
            quorum.check_running().expect("runs");
            fs.heal();
            let mut versions = quorum.watch();
            let late = format!("topic-{late}");
            while quorum.image().topic(&late).is_none() {
                versions.changed().await.expect("it comes, and without a restart");
            }
            create(&quorum, 40 + round).await.expect("there is space again");
            // What was refused while another commit waited was not committed.
            create(&quorum, 20 + round).await.expect("does not exist yet");
        }
        quorum.snapshot().await.expect("is written");
        quorum.shutdown().await.expect("stops");
        let quorum = MetadataQuorum::open(options(&fs)).await.expect("opens");
        assert_eq!(quorum.image().topic_count(), 1 + 3 * 3);
    });
}

#[test]
fn a_snapshot_for_which_there_is_no_space_waits_and_commits_go_on() {
    runtime().block_on(async {
        let fs = SimFs::new(1);
        let quorum = MetadataQuorum::open(options(&fs)).await.expect("opens");
        register(&quorum).await.expect("is registered");
        fs.inject(Fault::new(SimOperation::Write, Failure::NoSpace).in_path("snapshot.json"));
        for number in 0..20 {
            create(&quorum, number).await.expect("is created");
        }
        quorum.check_running().expect("runs");
        fs.heal();
        quorum.snapshot().await.expect("is written");
    });
}

#[test]
fn a_quorum_on_a_full_disk_can_be_stopped_and_tells_the_truth_afterwards() {
    for is_dropped in [false, true] {
        let fs = SimFs::new(1);
        runtime().block_on(async {
            let quorum = MetadataQuorum::open(options(&fs)).await.expect("opens");
            register(&quorum).await.expect("is registered");
            create(&quorum, 1).await.expect("is created");
            fs.inject(Fault::new(SimOperation::Write, Failure::NoSpace).in_path("log.redb"));
            create(&quorum, 2).await.expect_err("there is no space");
            if !is_dropped {
                // The change that waits is given up, which is no clean end.
                _ = quorum.shutdown().await;
            }
        });
        let fs = fs.crash();
        runtime().block_on(async {
            let quorum = MetadataQuorum::open(options(&fs)).await.expect("opens");
            assert!(quorum.image().topic("topic-1").is_some());
        });
    }
}

#[test]
fn a_quorum_is_not_opened_on_a_full_disk() {
    runtime().block_on(async {
        let fs = SimFs::new(1);
        fs.inject(Fault::new(SimOperation::Write, Failure::NoSpace).in_path("log.redb"));
        MetadataQuorum::open(options(&fs)).await.expect_err("there is no space");
    });
}
