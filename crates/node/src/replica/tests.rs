//! A replica and its roles, over a simulated disk.

use std::pin::pin;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, Waker};
use std::thread;

use logway_log::fs::SimFs;
use logway_log::{LogDir, LogDirOptions, LogError, LogMetrics, NewLog, ReadRequest};
use logway_model::{BrokerId, ClusterId, PartitionId, TimestampMs, TopicId, TopicName, Uuid};
use logway_record::{BatchBuilder, Batches, Compression};

use super::*;
use crate::metrics::TrafficMetrics;

const OWN: BrokerId = BrokerId(1);

fn lead(replica: &Replica, epoch: i32, isr: &[BrokerId]) {
    let replicas = isr.to_vec();
    let membership =
        Membership { isr: replicas.clone(), replicas, has_eligible: false, partition_epoch: epoch };
    let epoch = LeaderEpoch(epoch);
    replica.lead(Lead { own: OWN, epoch, membership: &membership, in_sync_min: 1 });
}

fn config(flush_messages: u64) -> Arc<LogConfig> {
    Arc::new(LogConfig { flush_messages, ..LogConfig::default() })
}

pub(crate) fn durable() -> Arc<LogConfig> {
    config(1)
}

pub(crate) fn not_durable() -> Arc<LogConfig> {
    config(u64::MAX)
}

pub(crate) fn partition(fs: &SimFs, config: Arc<LogConfig>) -> (LogDir, Arc<Replica>) {
    let options = LogDirOptions {
        fs: Arc::new(fs.clone()),
        ..LogDirOptions::new("data", BrokerId(1), ClusterId(Uuid([1; 16])))
    };
    let dir = LogDir::open(options, LogMetrics::new()).expect("opens");
    let name = TopicName::new("t").expect("a legal name");
    let place = TopicPartition::new(name, PartitionId(0));
    let log = dir.create_log(place, TopicId(Uuid([2; 16])), config).expect("is made");
    let place = LocatedLog { log, directory: dir.directory_id() };
    let partition = Replica::new(place, TrafficMetrics::default().of_topic("t"));
    lead(&partition, 0, &[OWN]);
    (dir, partition)
}

pub(crate) fn batch() -> Batch {
    let mut builder = BatchBuilder::new(Compression::None);
    builder.append(TimestampMs(1), None, Some(b"value"), &[]).expect("fits");
    let bytes = builder.finish().expect("fits");
    Batches::new(bytes).next().expect("there is one").expect("is whole")
}

#[test]
fn a_topic_that_becomes_durable_keeps_the_high_watermark_it_has_shown() {
    let fs = SimFs::new(1);
    let (_dir, partition) = partition(&fs, not_durable());
    fs.hold_syncs();
    partition.append(vec![batch()], AppendOrigin::Client).future.wait().expect("needs no sync");
    assert_eq!(partition.high_watermark().get(), Offset(1));
    partition.set_config(durable());
    assert_eq!(partition.high_watermark().get(), Offset(1));
    fs.release_syncs();
    partition.append(vec![batch()], AppendOrigin::Client).future.wait().expect("is written");
    assert_eq!(partition.high_watermark().get(), Offset(2));
}

#[test]
fn a_replica_that_does_not_lead_takes_no_append_and_knows_whom_it_follows() {
    let fs = SimFs::new(1);
    let (_dir, partition) = partition(&fs, durable());
    partition.append(vec![batch()], AppendOrigin::Client).future.wait().expect("it leads");
    partition.follow(LeaderEpoch(1), BrokerId(7));
    assert_eq!(partition.leader_followed(), Some(BrokerId(7)));
    let refused = partition.append(vec![batch()], AppendOrigin::Client).future.wait();
    assert!(matches!(refused, Err(LogError::Closed { .. })), "{refused:?}");
    let refused = partition.delete_records_before(Offset(1)).expect_err("it follows");
    assert_eq!(refused, ErrorCode::NotLeaderOrFollower);
    assert_eq!(partition.high_watermark().get(), Offset(1), "what was shown stays readable");

    lead(&partition, 1, &[OWN]);
    assert!(!partition.is_leading(), "an epoch has one leader");
    lead(&partition, 2, &[OWN]);
    let outcome = partition
        .append(vec![batch()], AppendOrigin::Client)
        .future
        .wait()
        .expect("it leads again");
    assert_eq!((outcome.base_offset, partition.leader_epoch()), (Offset(1), LeaderEpoch(2)));
    partition.follow(LeaderEpoch(1), BrokerId(7));
    assert!(partition.is_leading(), "that was long ago");
}

#[test]
fn an_append_that_was_held_back_while_the_leader_changed_is_refused() {
    let fs = SimFs::new(1);
    let (_dir, partition) = partition(&fs, durable());
    let hold = partition.close_gate().expect("is open");
    let held = partition.append(vec![batch()], AppendOrigin::Client).future;
    partition.follow(LeaderEpoch(1), BrokerId(7));
    lead(&partition, 2, &[OWN]);
    let new = partition.append(vec![batch()], AppendOrigin::Client).future;
    drop(hold);
    assert!(matches!(held.wait(), Err(LogError::EpochOver { .. })));
    assert_eq!(new.wait().expect("is of the epoch").base_offset, Offset(0));
}

#[test]
fn what_its_followers_do_not_have_is_not_committed() {
    let fs = SimFs::new(1);
    let (_dir, partition) = partition(&fs, durable());
    lead(&partition, 1, &[OWN, BrokerId(2)]);
    let StartedAppend { future, epoch, .. } = partition.append(vec![batch()], AppendOrigin::Client);
    let end = future.wait().expect("is flushed here").last_offset.next();
    let mut committed = pin!(partition.committed(end, epoch));
    let mut context = Context::from_waker(Waker::noop());
    assert!(committed.as_mut().poll(&mut context).is_pending());
    assert_eq!(partition.high_watermark().get(), Offset(0));

    // The next leader may have other records at these offsets, and commit those.
    partition.follow(LeaderEpoch(2), BrokerId(2));
    let ended = Err(EpochEnded { partition: partition.topic_partition().clone(), epoch });
    assert_eq!(committed.as_mut().poll(&mut context), Poll::Ready(ended.clone()));
    lead(&partition, 3, &[OWN]);
    assert_eq!(partition.high_watermark().get(), end, "that is the next epoch's");
    let late = pin!(partition.committed(end, epoch)).poll(&mut context);
    assert_eq!(late, Poll::Ready(ended));
}

#[test]
fn a_follower_may_have_what_the_leaders_log_has_not_told_of_yet() {
    let fs = SimFs::new(1);
    let (_dir, partition) = partition(&fs, durable());
    lead(&partition, 1, &[OWN, BrokerId(2)]);
    let listener = partition.log().take_tail_listener().expect("the replica listens");
    let appended = partition.append(vec![batch()], AppendOrigin::Client).future;
    let end = appended.wait().expect("is flushed here").last_offset.next();
    let fetch = FollowerFetch { broker: BrokerId(2), broker_epoch: 7, end };
    partition.on_fetch(LeaderEpoch(1), fetch);
    assert_eq!(partition.high_watermark().get(), end, "it says so once");

    listener.on_tail(end, end);
    partition.on_follower_start(LeaderEpoch(1), (BrokerId(2), 7), Offset(0));
    let readable: Vec<BrokerId> =
        partition.readable_followers(Offset(0)).into_iter().map(|it| it.broker).collect();
    assert_eq!(readable, [BrokerId(2)]);
}

#[test]
fn with_one_replica_what_is_flushed_is_committed() {
    let fs = SimFs::new(1);
    let (_dir, partition) = partition(&fs, durable());
    for _ in 0..100 {
        let StartedAppend { future, epoch, .. } =
            partition.append(vec![batch()], AppendOrigin::Client);
        let end = future.wait().expect("is flushed").last_offset.next();
        let committed = pin!(partition.committed(end, epoch));
        let at_once = committed.poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(at_once, Poll::Ready(Ok(())), "nobody is woken twice");
    }
}

/// The same records in another directory.
fn copy(fs: &SimFs, of: &Replica) -> (LogDir, LocatedLog) {
    let options = LogDirOptions {
        fs: Arc::new(fs.clone()),
        ..LogDirOptions::new("other", BrokerId(1), ClusterId(Uuid([1; 16])))
    };
    let dir = LogDir::open(options, LogMetrics::new()).expect("opens");
    let source = of.log();
    let new = NewLog {
        partition: source.topic_partition().clone(),
        topic_id: source.topic_id(),
        config: source.config(),
    };
    let log = dir.create_copy(&new, source.log_start_offset(), of.directory()).expect("is made");
    let request = ReadRequest {
        offset: Offset(0),
        max_bytes: u64::MAX,
        upper_bound: source.log_end_offset(),
        at_least_one_batch: true,
    };
    let bytes = source.read(request).expect("is read").read().expect("is read");
    let batches = Batches::new(bytes).map(|batch| batch.expect("is whole")).collect();
    log.append_copied(batches).wait().expect("is written");
    let directory = dir.directory_id();
    (dir, LocatedLog { log, directory })
}

#[test]
fn what_is_held_back_goes_to_the_log_that_takes_over_in_its_order() {
    let fs = SimFs::new(1);
    let (_dir, partition) = partition(&fs, durable());
    partition.append(vec![batch()], AppendOrigin::Client).future.wait().expect("is written");
    let (_other, place) = copy(&fs, &partition);

    // A hold that comes to nothing.
    let hold = partition.close_gate().expect("is open");
    let held = partition.append(vec![batch()], AppendOrigin::Client).future;
    let refused = partition.delete_records_before(Offset(1)).expect_err("is held");
    assert_eq!(refused, ErrorCode::NotLeaderOrFollower);
    drop(hold);
    assert_eq!(held.wait().expect("is written").base_offset, Offset(1));
    place.log.append_copied(vec![at_offset(1)]).wait().expect("is written");

    let (before, hold) = (partition.log(), partition.close_gate().expect("is open"));
    let held = [0, 1, 2].map(|_| partition.append(vec![batch()], AppendOrigin::Client).future);
    hold.go_on_with(place.clone());
    let late = partition.append(vec![batch()], AppendOrigin::Client).future;
    let offsets = held.map(|held| held.wait().expect("is written").base_offset);
    assert_eq!(offsets, [Offset(2), Offset(3), Offset(4)]);
    assert_eq!(late.wait().expect("is written").base_offset, Offset(5));
    assert_eq!((before.log_end_offset(), place.log.log_end_offset()), (Offset(2), Offset(6)));
    assert_eq!(partition.high_watermark().get(), Offset(6));
    assert_eq!(partition.directory(), place.directory);
}

#[test]
fn while_nobody_knows_which_log_is_the_partitions_nothing_is_written() {
    let fs = SimFs::new(1);
    let (_dir, partition) = partition(&fs, durable());
    let mut hold = partition.close_gate().expect("is open");
    let held = partition.append(vec![batch()], AppendOrigin::Client).future;
    hold.begin_decision();
    hold.refuse();
    let late = partition.append(vec![batch()], AppendOrigin::Client).future;
    for refused in [held, late] {
        assert!(matches!(refused.wait(), Err(LogError::Closed { .. })));
    }
    hold.stay();
    let written =
        partition.append(vec![batch()], AppendOrigin::Client).future.wait().expect("goes on");
    assert_eq!(written.base_offset, Offset(0));

    // A move that ends without an answer, since the broker stops.
    let mut hold = partition.close_gate().expect("is open");
    hold.begin_decision();
    drop(hold);
    let refused = partition.append(vec![batch()], AppendOrigin::Client).future.wait();
    assert!(matches!(refused, Err(LogError::Closed { .. })));
    assert!(partition.close_gate().is_none());
    assert_eq!(partition.log().log_end_offset(), Offset(1));
}

fn at_offset(offset: i64) -> Batch {
    let mut builder =
        BatchBuilder::new(Compression::None).with_assignment(Offset(offset), LeaderEpoch(0));
    builder.append(TimestampMs(1), None, Some(b"value"), &[]).expect("fits");
    let bytes = builder.finish().expect("fits");
    Batches::new(bytes).next().expect("there is one").expect("is whole")
}

/// Two threads raise it as often as they can. Whether they meet in a bad moment is up to chance,
/// so there are many moments.
#[test]
fn a_change_of_settings_and_a_growing_log_never_take_the_high_watermark_back() {
    const TAILS: i64 = 300_000;
    let (_dir, partition) = partition(&SimFs::new(1), not_durable());
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::SeqCst) {
                partition.set_durable(true);
                partition.set_durable(false);
            }
        });
        let mut seen = Offset(0);
        for end in 1..=TAILS {
            partition.on_tail(LocalTail { log_end: Offset(end), flushed: Offset(end / 2) });
            let now = partition.high_watermark().get();
            if now < seen {
                is_done.store(true, Ordering::SeqCst);
                panic!("it went back from {seen} to {now}");
            }
            seen = now;
        }
        is_done.store(true, Ordering::SeqCst);
    });
    partition.set_durable(false);
    assert_eq!(partition.high_watermark().get(), Offset(TAILS));
}
