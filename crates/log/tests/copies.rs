//! Logs that are filled with the batches of another log, and what their directories say of it.

use std::sync::Arc;

use logway_log::checkpoint::{MoveState, ReplicaMove};
use logway_log::fs::SimFs;
use logway_log::fs::sim::{Failure, Fault, SimOperation};
use logway_log::{
    AppendBatches, Log, LogConfig, LogDir, LogDirOptions, LogError, LogMetrics, NewLog,
    ReadRequest, TimestampType,
};
use logway_model::{
    BrokerId, ClusterId, DirectoryId, LeaderEpoch, Offset, PartitionId, TimestampMs, TopicId,
    TopicName, TopicPartition, Uuid,
};
use logway_record::{Batch, BatchBuilder, Batches, Compression};

const FROM: DirectoryId = DirectoryId(Uuid([9; 16]));

fn open(fs: &SimFs) -> LogDir {
    let options = LogDirOptions {
        fs: Arc::new(fs.clone()),
        ..LogDirOptions::new("data", BrokerId(1), ClusterId(Uuid([1; 16])))
    };
    LogDir::open(options, LogMetrics::new()).expect("opens")
}

fn partition() -> TopicPartition {
    TopicPartition::new(TopicName::new("t").expect("a legal name"), PartitionId(0))
}

fn new_log(config: LogConfig) -> NewLog {
    NewLog { partition: partition(), topic_id: TopicId(Uuid([2; 16])), config: Arc::new(config) }
}

fn batch(offset: i64, epoch: i32, timestamp: i64) -> Batch {
    let mut builder =
        BatchBuilder::new(Compression::None).with_assignment(Offset(offset), LeaderEpoch(epoch));
    for _ in 0..3 {
        builder.append(TimestampMs(timestamp), None, Some(b"value"), &[]).expect("fits");
    }
    let bytes = builder.finish().expect("fits");
    Batches::new(bytes).next().expect("there is one").expect("is whole")
}

fn read(log: &Log) -> Vec<Batch> {
    let (mut offset, mut batches) = (log.log_start_offset(), Vec::new());
    while offset < log.log_end_offset() {
        let upper_bound = log.log_end_offset();
        let request =
            ReadRequest { offset, max_bytes: 1 << 20, upper_bound, at_least_one_batch: true };
        let slice = log.read(request).expect("is read");
        offset = slice.next_offset;
        let bytes = slice.read().expect("is read");
        batches.extend(Batches::new(bytes).map(|batch| batch.expect("is whole")));
    }
    batches
}

#[test]
fn batches_stay_as_they_were() {
    let fs = SimFs::new(1);
    let dir = open(&fs);
    // Segments of two batches, and a timestamp type that gives appended batches the present time.
    let config = LogConfig {
        segment_bytes: 2 * u32::try_from(batch(0, 0, 0).size_bytes()).expect("is small"),
        timestamp_type: TimestampType::LogAppendTime,
        ..LogConfig::default()
    };
    let log = dir.create_copy(&new_log(config), Offset(100), FROM).expect("is made");
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(100), Offset(100)));
    let originals = [(100, 0), (103, 0), (106, 2), (109, 2), (112, 5), (115, 5)];
    let originals = originals.map(|(offset, epoch)| batch(offset, epoch, 7));
    for two in originals.chunks(2) {
        log.append_copied(two.to_vec()).wait().expect("is written");
    }
    assert_eq!(log.log_end_offset(), Offset(118));
    assert_eq!(read(&log), originals);
    assert_eq!(log.epoch_at(Offset(110)), LeaderEpoch(2));
    assert_eq!(log.latest_epoch(), LeaderEpoch(5));
    assert_eq!(log.segment_count(), 3);

    let refused = log.append_copied(vec![batch(115, 5, 7)]).wait();
    assert!(matches!(refused, Err(LogError::OffsetNotNext { .. })), "{refused:?}");
    log.flush().wait().expect("is flushed");

    let dir = open(&fs.crash());
    let log = dir.log(&partition()).expect("is there");
    assert_eq!(read(&log), originals);
    assert_eq!(log.log_start_offset(), Offset(100));
}

#[test]
fn gaps_that_compaction_has_left_survive_a_power_cut() {
    let fs = SimFs::new(1);
    let dir = open(&fs);
    let log = dir.create_copy(&new_log(LogConfig::default()), Offset(100), FROM).expect("is made");
    log.append_copied(vec![batch(100, 1, 7), batch(110, 1, 7)]).wait().expect("is written");
    log.append_copied(vec![batch(200, 2, 7)]).wait().expect("is written");
    assert_eq!(log.log_end_offset(), Offset(203));
    log.flush().wait().expect("is flushed");
    let dir = open(&fs.crash());
    let log = dir.log(&partition()).expect("is there");
    assert!(dir.recovery_report().findings.is_empty(), "{:?}", dir.recovery_report());
    let with_records: Vec<Batch> =
        read(&log).into_iter().filter(|batch| batch.header().record_count > 0).collect();
    assert_eq!(with_records, [batch(100, 1, 7), batch(110, 1, 7), batch(200, 2, 7)]);
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(100), Offset(203)));
    // No segment reaches so far, so that it is none that compaction has left.
    let refused = log.append_copied(vec![batch(1 << 60, 2, 7)]).wait();
    assert!(matches!(refused, Err(LogError::OffsetNotNext { .. })), "{refused:?}");
}

#[test]
fn what_is_copied_at_once_may_reach_further_than_a_segment() {
    let fs = SimFs::new(1);
    let dir = open(&fs);
    let log = dir.create_copy(&new_log(LogConfig::default()), Offset(100), FROM).expect("is made");
    let gap = 1_500_000_000;
    let originals = [0, 1, 2, 3, 4].map(|number| batch(100 + number * gap, 1, 7));
    while let Some(missing) =
        originals.iter().position(|batch| batch.base_offset() >= log.log_end_offset())
    {
        log.append_copied(originals[missing..].to_vec()).wait().expect("is written");
    }
    assert!(log.segment_count() > 1);
    log.flush().wait().expect("is flushed");
    let dir = open(&fs.crash());
    assert!(dir.recovery_report().findings.is_empty(), "{:?}", dir.recovery_report());
    let log = dir.log(&partition()).expect("is there");
    let with_records: Vec<Batch> =
        read(&log).into_iter().filter(|batch| batch.header().record_count > 0).collect();
    assert_eq!(with_records, originals);
}

#[test]
fn a_directory_says_that_it_holds_a_copy_until_it_is_told_otherwise() {
    let mut fs = SimFs::new(1);
    let copying = ReplicaMove { state: MoveState::Copying, from: FROM };
    let moved = ReplicaMove { state: MoveState::Moved, from: FROM };
    let dir = open(&fs);
    let new = new_log(LogConfig::default());
    let log = dir.create_copy(&new, Offset(3), FROM).expect("is made");
    assert_eq!(log.replica_move(), Some(copying));
    let again = dir.create_copy(&new, Offset(3), FROM);
    assert!(matches!(again, Err(LogError::CopyInTheWay { .. })), "{again:?}");
    for (expected, next) in [(Some(copying), Some(moved)), (Some(moved), None), (None, None)] {
        fs = fs.crash();
        let dir = open(&fs);
        let log = dir.log(&partition()).expect("is there");
        assert_eq!(log.replica_move(), expected);
        dir.set_replica_move(&log, next).expect("is written");
        assert_eq!(log.replica_move(), next);
    }
}

/// The log that was moved is removed because of it.
#[test]
fn what_a_start_finds_noted_is_on_the_disk() {
    let moved = Some(ReplicaMove { state: MoveState::Moved, from: FROM });
    let mut found = 0;
    for (seed, change) in (0..20).flat_map(|seed| (1..8).map(move |change| (seed, change))) {
        let fs = SimFs::new(seed);
        let dir = open(&fs);
        let copy = dir.create_copy(&new_log(LogConfig::default()), Offset(0), FROM);
        let copy = copy.expect("is made");
        copy.append_copied(vec![batch(0, 1, 1)]).wait().expect("is written");
        // Writes a checkpoint, so that nothing has come since.
        copy.delete_records_before(Offset(1)).wait().expect("is in the log");
        fs.crash_at_change(change);
        let _ = dir.set_replica_move(&copy, moved);
        let fs = fs.kill();
        let note_in = |dir: &LogDir| dir.log(&partition()).expect("is there").replica_move();
        let noted = note_in(&open(&fs));
        found += u64::from(noted == moved);
        assert_eq!(note_in(&open(&fs.crash())), noted, "seed {seed}, change {change}");
    }
    assert!(found > 0, "no start has found that it is moved");
}

#[test]
fn nothing_is_noted_of_a_log_that_is_gone() {
    let fs = SimFs::new(1);
    let dir = open(&fs);
    let new = new_log(LogConfig::default());
    let log = dir.create_copy(&new, Offset(0), FROM).expect("is made");
    dir.delete_log(&partition()).expect("is deleted");
    let other = dir.create_logs(&[new]).remove(0).expect("is made");
    let noted = dir.set_replica_move(&log, None);
    assert!(matches!(noted, Err(LogError::Closed { .. })), "{noted:?}");
    assert_eq!(other.replica_move(), None);
}

#[test]
fn a_copy_whose_name_could_not_be_synced_is_made_anew() {
    // The syncs are of the copy's directory, twice, and of the one that it is in.
    for (seed, passes) in (0..20).flat_map(|seed| [0, 1, 2].map(|passes| (seed, passes))) {
        let fs = SimFs::new(seed);
        let dir = open(&fs);
        let fault = Fault::new(SimOperation::SyncDir, Failure::Io).in_path("data");
        fs.inject(fault.after(passes).times(1));
        let new = new_log(LogConfig::default());
        dir.create_copy(&new, Offset(0), FROM).expect_err("a directory could not be synced");
        let copy = dir.create_copy(&new, Offset(0), FROM).expect("the disk works again");
        copy.append_copied(vec![batch(0, 1, 1)]).wait().expect("is written");
        let fs = fs.crash();
        drop((copy, dir));
        let copy = open(&fs).log(&partition());
        let copy = copy.unwrap_or_else(|| panic!("seed {seed}: what was written is gone"));
        assert_eq!(copy.log_end_offset(), Offset(3), "seed {seed}");
        let is_copy = |file: ReplicaMove| file.state == MoveState::Copying;
        assert!(copy.replica_move().is_some_and(is_copy), "seed {seed}: {:?}", copy.replica_move());
    }
}

#[test]
fn a_failed_sync_of_the_directory_poisons_the_log_whatever_it_was_for() {
    for replica_move in [None, Some(ReplicaMove { state: MoveState::Moved, from: FROM })] {
        let fs = SimFs::new(1);
        let dir = open(&fs);
        let copy = dir.create_copy(&new_log(LogConfig::default()), Offset(0), FROM);
        let copy = copy.expect("is made");
        copy.append_copied(vec![batch(0, 1, 1)]).wait().expect("is written");
        fs.inject(Fault::new(SimOperation::SyncDir, Failure::Io).in_path("t-0").times(1));
        dir.set_replica_move(&copy, replica_move).expect_err("the directory cannot be synced");
        let batches = AppendBatches::new(vec![batch(0, 1, 1)], LeaderEpoch(1));
        let error = copy.append(batches).wait().expect_err("names of segments may be lost");
        assert!(matches!(error, LogError::Poisoned { .. }), "{error}");
    }
}
