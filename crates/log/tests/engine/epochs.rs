//! Appends of a leader whose epoch is over.

use std::sync::Arc;

use logway_log::{AppendBatches, AppendFuture, Log, LogError};
use logway_model::{LeaderEpoch, Offset};

use crate::support::*;

fn append_in(log: &Log, epoch: i32) -> AppendFuture {
    log.append(AppendBatches::new(vec![batch(1, 10)], LeaderEpoch(epoch)))
}

fn assert_too_late(append: AppendFuture, current_epoch: i32) {
    match append.wait() {
        Err(LogError::EpochOver { current, .. }) => assert_eq!(current, LeaderEpoch(current_epoch)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_comes_behind_the_next_epoch_is_refused_and_leaves_no_trace() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    append_in(&log, 5).wait().expect("is of the epoch");
    assert_eq!(log.begin_epoch(LeaderEpoch(6)).wait().expect("begins"), Offset(1));
    assert_too_late(append_in(&log, 5), 6);
    append_in(&log, 6).wait().expect("is of the epoch");
    assert_eq!(log.begin_epoch(LeaderEpoch(4)).wait().expect("changes nothing"), Offset(2));
    assert_too_late(append_in(&log, 5), 6);
    append_in(&log, 7).wait().expect("begins the next epoch by itself");
    assert_too_late(append_in(&log, 6), 7);
    let epochs: Vec<i32> =
        read_batches(&log, Offset(0)).iter().map(|batch| batch.header().leader_epoch.0).collect();
    assert_eq!(epochs, [5, 6, 7]);
}

/// All of it waits in the queue of a writer that is in a sync, as in a round of many connections.
#[test]
fn an_append_that_waited_while_the_leader_changed_is_before_the_new_epoch_or_refused() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    disk.fs.hold_syncs();
    let first = append_in(&log, 5);
    let written = LogEndAt::listen(&log, Offset(1));
    written.wait();
    let early = append_in(&log, 5);
    let began = log.begin_epoch(LeaderEpoch(6));
    let new = append_in(&log, 6);
    let late = append_in(&log, 5);
    disk.fs.release_syncs();
    first.wait().expect("was written before the change");
    assert_too_late(early, 6);
    let began = began.wait().expect("begins");
    let new = new.wait().expect("is of the new epoch").base_offset;
    assert!(began >= Offset(1), "it is told of what came before");
    assert_too_late(late, 6);
    assert_eq!((new, log.log_end_offset()), (Offset(1), Offset(2)));
}

#[test]
fn a_round_of_the_caller_is_judged_as_well() {
    let disk = TestDisk::new(1).with_config(not_durable());
    let dir = disk.open();
    let log: Arc<Log> = disk.log(&dir);
    log.begin_epoch(LeaderEpoch(EPOCH.0 + 1)).wait().expect("begins");
    assert_too_late(append_inline(&log, batch(1, 10)), EPOCH.0 + 1);
    assert_eq!(log.log_end_offset(), Offset(0));
}
