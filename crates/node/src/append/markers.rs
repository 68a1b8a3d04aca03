//! Transaction markers: what the transaction coordinator has written to the partitions of a transaction, at its end.

use std::sync::Arc;
use std::time::Duration;

use logway_coordinator::Marker;
use logway_log::AppendOrigin;
use logway_model::ErrorCode;
use logway_record::TransactionMarker;
use tokio::time::Instant;

use super::{Appending, append_own};
use crate::failure::Failure;
use crate::replica::Replica;
use crate::tasks::wall_clock;

/// How long a marker may take to be on all replicas in sync. The coordinator asks again.
const MARKER_MAX: Duration = Duration::from_secs(30);

/// A marker on its way. It is appended whether or not anybody waits for it.
#[must_use = "it may fail"]
pub struct StartedMarker {
    appending: Appending,
    deadline: Instant,
}

impl StartedMarker {
    /// The append, for who waits for it without an end.
    pub(crate) fn into_appending(self) -> Appending {
        self.appending
    }

    /// Ends when the marker is committed.
    pub async fn finish(self) -> Result<(), Failure> {
        self.appending.finish_by(Some(self.deadline)).await?;
        Ok(())
    }
}

/// Begins to append a marker to a partition that this node leads, also to one of an internal topic or a closed shard. To append it
/// again does no harm, as long as no later transaction of the producer has begun. Those of one partition are appended in the order
/// of these calls.
///
/// Errors, here or of [`StartedMarker::finish`]: `INVALID_REQUEST` for a negative producer id or epoch; `NOT_ENOUGH_REPLICAS`;
/// `INVALID_PRODUCER_EPOCH` for a marker that is out of date; `TRANSACTION_COORDINATOR_FENCED` where a later coordinator has
/// written one; `NOT_LEADER_OR_FOLLOWER` when the leader epoch ends before the marker is committed, which the next leader may have
/// or not.
pub fn begin_marker(replica: &Arc<Replica>, marker: Marker) -> Result<StartedMarker, Failure> {
    let Marker { producer, outcome, coordinator_epoch, version } = marker;
    if producer.id.0 < 0 || producer.epoch.0 < 0 {
        let message =
            format!("no producer has the id {} and the epoch {}", producer.id, producer.epoch);
        return Err(Failure::new(ErrorCode::InvalidRequest, message));
    }
    let batch = TransactionMarker { outcome, coordinator_epoch };
    let batch = batch.batch(producer.id, producer.epoch, wall_clock());
    let appending = append_own(replica, vec![batch], AppendOrigin::Markers(version))?;
    Ok(StartedMarker { appending, deadline: Instant::now() + MARKER_MAX })
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use logway_coordinator::transactions::Producer;
    use logway_log::ReadRequest;
    use logway_log::fs::SimFs;
    use logway_model::{
        BrokerId, LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs,
        TransactionVersion,
    };
    use logway_record::{Batch, BatchBuilder, Compression, TransactionOutcome};
    use logway_replication::{FollowerFetch, Membership};

    use super::*;
    use crate::replica::Lead;
    use crate::replica::tests::{batch, durable, partition};

    const OWN: BrokerId = BrokerId(1);
    const OTHER: BrokerId = BrokerId(2);

    fn data(sequence: i32) -> Batch {
        let builder = BatchBuilder::new(Compression::None);
        let attributes = builder.attributes().with_transactional(true);
        let mut builder = builder.with_attributes(attributes).with_producer(
            ProducerId(7),
            ProducerEpoch(0),
            Sequence(sequence),
        );
        builder.append(TimestampMs(1), None, Some(b"value"), &[]).expect("it fits");
        Batch::parse(builder.finish().expect("it has a record")).expect("it is whole")
    }

    fn abort(producer_epoch: i16, coordinator_epoch: i32) -> Marker {
        Marker {
            producer: Producer { id: ProducerId(7), epoch: ProducerEpoch(producer_epoch) },
            coordinator_epoch,
            outcome: TransactionOutcome::Abort,
            version: TransactionVersion::EPOCH_BUMP,
        }
    }

    fn append(replica: &Replica, batch: Batch) {
        let appended = replica.append(vec![batch], AppendOrigin::Coordinator).future.wait();
        appended.expect("it is appended");
    }

    async fn end(replica: &Arc<Replica>, marker: Marker) -> Result<(), ErrorCode> {
        let started = begin_marker(replica, marker).map_err(|failure| failure.code)?;
        started.finish().await.map_err(|failure| failure.code)
    }

    fn lead_two(replica: &Replica, epoch: i32) {
        let replicas = vec![OWN, OTHER];
        let membership = Membership {
            isr: replicas.clone(),
            replicas,
            has_eligible: false,
            partition_epoch: epoch,
        };
        let epoch = LeaderEpoch(epoch);
        replica.lead(Lead { own: OWN, epoch, membership: &membership, in_sync_min: 1 });
    }

    fn fetch(replica: &Replica, epoch: i32, end: i64) {
        let fetch = FollowerFetch { broker: OTHER, broker_epoch: 1, end: Offset(end) };
        replica.on_fetch(LeaderEpoch(epoch), fetch);
    }

    fn stable(replica: &Replica) -> i64 {
        replica.last_stable_offset().get().0
    }

    #[tokio::test]
    async fn a_marker_ends_what_holds_committed_readers_back() {
        let (_dir, replica) = partition(&SimFs::new(1), durable());
        append(&replica, batch());
        append(&replica, data(0));
        append(&replica, batch());
        assert_eq!((stable(&replica), replica.high_watermark().get()), (1, Offset(3)));
        let waiter = Arc::new(tokio::sync::Notify::new());
        replica.last_stable_offset().subscribe(Offset(1), &waiter);
        assert_eq!(end(&replica, abort(0, 5)).await, Err(ErrorCode::InvalidProducerEpoch));
        assert_eq!(end(&replica, abort(1, 5)).await, Ok(()));
        waiter.notified().await;
        assert_eq!((stable(&replica), replica.high_watermark().get()), (4, Offset(4)));
        assert_eq!(end(&replica, abort(1, 5)).await, Ok(()), "again");
        let fenced = Err(ErrorCode::TransactionCoordinatorFenced);
        assert_eq!(end(&replica, abort(2, 4)).await, fenced);
        assert_eq!(end(&replica, abort(-1, 9)).await, Err(ErrorCode::InvalidRequest));
        let request = ReadRequest {
            offset: Offset(0),
            max_bytes: u64::MAX,
            upper_bound: Offset(4),
            at_least_one_batch: true,
        };
        let aborted = replica.log().read_committed(request).expect("it is read").aborted;
        let aborted: Vec<_> = aborted.iter().map(|it| (it.first.0, it.last.0)).collect();
        assert_eq!(aborted, [(1, 3)]);
    }

    #[tokio::test]
    async fn a_transaction_is_unstable_until_its_marker_is_on_all_replicas() {
        let (_dir, replica) = partition(&SimFs::new(1), durable());
        lead_two(&replica, 1);
        append(&replica, data(0));
        append(&replica, batch());
        fetch(&replica, 1, 2);
        assert_eq!((stable(&replica), replica.high_watermark().get()), (0, Offset(2)));
        let started = begin_marker(&replica, abort(1, 5)).expect("it leads");
        let mut finishing = pin!(started.finish());
        let mut context = Context::from_waker(Waker::noop());
        replica.log().flush().wait().expect("the disk works");
        assert!(
            finishing.as_mut().poll(&mut context).is_pending(),
            "another leader may not have it"
        );
        assert_eq!(stable(&replica), 0);
        fetch(&replica, 1, 3);
        assert!(finishing.await.is_ok());
        assert_eq!(stable(&replica), 3);
    }

    #[tokio::test]
    async fn a_marker_that_is_not_committed_in_its_epoch_fails() {
        let (_dir, replica) = partition(&SimFs::new(1), durable());
        lead_two(&replica, 1);
        append(&replica, data(0));
        let mut finishing = pin!(end(&replica, abort(1, 5)));
        let mut context = Context::from_waker(Waker::noop());
        assert!(finishing.as_mut().poll(&mut context).is_pending());
        replica.log().flush().wait().expect("the disk works");
        assert!(finishing.as_mut().poll(&mut context).is_pending());
        replica.follow(LeaderEpoch(2), OTHER);
        assert_eq!(finishing.await, Err(ErrorCode::NotLeaderOrFollower));
        assert_eq!(end(&replica, abort(1, 5)).await, Err(ErrorCode::NotLeaderOrFollower));
    }

    #[tokio::test]
    async fn what_is_verified_may_begin_a_transaction_until_a_marker_comes() {
        let (_dir, replica) = partition(&SimFs::new(1), durable());
        let log = replica.log();
        let begin = || {
            let guard = log.begin_verification(ProducerId(7), ProducerEpoch(0), Sequence(0), true);
            guard.expect("there is room")
        };
        let vouch = |guard, coordinator_epoch| {
            log.vouch(ProducerId(7), guard, coordinator_epoch);
            AppendOrigin::Verified(guard)
        };
        let put = |origin: AppendOrigin| {
            let appended = replica.append(vec![data(0)], origin).future.wait();
            appended.map_err(|error| Failure::from(error).code)
        };
        let late = vouch(begin(), 5);
        let classic = Marker { version: TransactionVersion::CLASSIC, ..abort(0, 5) };
        assert_eq!(end(&replica, classic).await, Ok(()));
        let refused = ErrorCode::InvalidTxnState;
        assert_eq!(put(late).expect_err("the transaction was ended"), refused);
        assert_eq!(put(AppendOrigin::Client).expect_err("nobody vouches"), refused);
        assert!(!log.has_open_transaction(ProducerId(7), ProducerEpoch(0)));
        let asked_again = begin();
        let unasked = AppendOrigin::Verified(asked_again);
        assert_eq!(put(unasked).expect_err("nobody vouches yet"), refused);
        // It ended the transaction before the guard was there, and the one before it has not heard of that.
        let replaced = vouch(asked_again, 4);
        assert_eq!(put(replaced).expect_err("it was replaced"), ErrorCode::NotEnoughReplicas);
        let asked_again = vouch(asked_again, 5);
        // By the newer protocol a marker has the epoch of what comes next: this is the one before, once more.
        assert_eq!(end(&replica, abort(0, 5)).await, Ok(()));
        put(asked_again).expect("that was not ended");
        assert!(log.has_open_transaction(ProducerId(7), ProducerEpoch(0)));
    }
}
