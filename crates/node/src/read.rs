//! The one way out: records of many partitions at once, as file ranges, waited for where there are too
//! few.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use logway_log::checkpoint::{Divergence, EpochEnd};
use logway_log::{AbortedTransaction, CommittedSlice, Log, LogError, ReadRequest, ReadSlice};
use logway_model::{BrokerId, ErrorCode, LeaderEpoch, Offset};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::Node;
use crate::cluster::Mutation;
use crate::failure::Failure;
use crate::replica::Replica;
use crate::rising_offset::{RisingOffset, WaitKey};
use crate::tasks::{off_thread, wall_clock};

/// What is wanted of one partition.
#[derive(Debug, Clone, Copy)]
pub struct ReadWish {
    /// The first offset that is wanted.
    pub offset: Offset,
    /// At most so many bytes of this partition. The first batch of a read may be larger.
    pub max_bytes: u64,
    /// The leader epoch that the reader believes in (KIP-320).
    pub leader_epoch: LeaderEpoch,
    /// The epoch of the last record that the reader has, or [`LeaderEpoch::NONE`] (KIP-595).
    pub last_read_epoch: LeaderEpoch,
}

/// Which records a reader may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// Everything below the high watermark.
    Uncommitted,
    /// What no open transaction can take back.
    Committed,
}

impl Isolation {
    /// The exclusive end of what such a reader may see.
    pub fn bound(self, replica: &Replica) -> &RisingOffset {
        match self {
            Isolation::Uncommitted => replica.high_watermark(),
            Isolation::Committed => replica.last_stable_offset(),
        }
    }
}

/// What bounds a read as a whole.
#[derive(Debug, Clone, Copy)]
pub struct ReadBounds {
    /// There is enough when there is so much.
    pub min_bytes: u64,
    /// At most so many bytes; the first batch may be larger.
    pub max_bytes: u64,
}

/// How long a read may wait for enough.
pub struct Patience<H> {
    /// Until then.
    pub deadline: Instant,
    /// Or until this ends.
    pub hurry: H,
}

/// What was found in one partition.
pub struct Found {
    /// The partition.
    pub replica: Arc<Replica>,
    /// The records, which may be none.
    pub slice: ReadSlice,
    /// For a committed read, the aborted transactions that have batches among the records: the reader passes over these.
    pub aborted: Vec<AbortedTransaction>,
}

/// Why nothing was read from a partition.
#[derive(Debug)]
pub enum Unread {
    /// It is not here, or not for this reader.
    Absent(ErrorCode),
    /// It is here and cannot be read.
    Refused(ErrorCode),
    /// The offset is outside of the log.
    OutOfRange(Arc<Replica>),
    /// The reader is to read from this broker instead, which is nearer to it (KIP-392).
    Nearer(Arc<Replica>, BrokerId),
    /// The reader's last record is of an epoch that ended earlier in this log, here (KIP-595).
    Diverging(Arc<Replica>, EpochEnd),
}

impl Unread {
    /// Whether it is told with the answer that is due anyway. A topic that does not exist, or may not be read, ends
    /// no wait: readers that go on asking for it would do so as fast as the network allows.
    fn can_wait(&self) -> bool {
        use ErrorCode::{TopicAuthorizationFailed, UnknownTopicId, UnknownTopicOrPartition};
        matches!(
            self,
            Unread::Absent(UnknownTopicId | UnknownTopicOrPartition | TopicAuthorizationFailed)
        )
    }
}

/// What is known of a partition when it is read, in the order of the wishes.
pub type ReadOutcome = Result<Found, Unread>;

impl Node {
    /// Reads what is wanted: until there is enough, something that the reader should hear at once, nothing to
    /// wait for, or no patience left. It waits on the partitions themselves: what raises a high watermark
    /// wakes it.
    ///
    /// `find` leads from a wish to its partition. It is asked anew after each wait, since topics come and go;
    /// one that goes during the wait is told of at once, which happens once.
    pub async fn read<W: AsRef<ReadWish>>(
        &self,
        wishes: &[W],
        find: impl Fn(&W) -> Result<Arc<Replica>, Unread>,
        isolation: Isolation,
        bounds: ReadBounds,
        patience: Patience<impl Future<Output = ()>>,
    ) -> Vec<ReadOutcome> {
        let reading = Reading { node: self, wishes, find, isolation, bounds };
        let reads = reading.read_or_wait(patience).await;
        for (wish, outcome) in wishes.iter().zip(&reads.outcomes) {
            if let Ok(Found { replica, slice, .. }) = outcome
                && !slice.is_empty()
            {
                let records = slice.next_offset - wish.as_ref().offset;
                let records = u64::try_from(records).unwrap_or(0);
                replica.traffic().fetched(records, slice.size_bytes());
            }
        }
        reads.outcomes
    }

    /// Reports records that cannot be read. Those that are damaged are reported once for each batch, however
    /// often readers try again.
    fn report_damage(&self, replica: &Replica, offset: Offset, error: &LogError) {
        let partition = replica.topic_partition();
        match error {
            LogError::Corrupt { position, .. } if !replica.note_damage(*position) => {}
            LogError::Corrupt { .. } => {
                self.metrics.damaged_batches.inc();
                let advice = "'logway log verify --while-running' checks all its files";
                tracing::error!(%partition, %offset, %error, advice, "stored records are damaged");
            }
            _ => tracing::error!(%partition, %offset, %error, "a read failed"),
        }
    }
}

/// One read on its way.
struct Reading<'a, W, F> {
    node: &'a Node,
    wishes: &'a [W],
    find: F,
    isolation: Isolation,
    bounds: ReadBounds,
}

/// What one look at all partitions gave.
#[derive(Default)]
struct Reads {
    outcomes: Vec<ReadOutcome>,
    read_bytes: u64,
    /// How many partitions there are to wait for.
    found_partitions: usize,
    /// Something that the reader should hear at once: an error of reading, or that its log diverges.
    is_urgent: bool,
}

impl<W, F> Reading<'_, W, F>
where
    W: AsRef<ReadWish>,
    F: Fn(&W) -> Result<Arc<Replica>, Unread>,
{
    async fn read_or_wait(&self, patience: Patience<impl Future<Output = ()>>) -> Reads {
        let reads = self.read_all().await;
        let found_at_first = reads.found_partitions;
        if self.is_due(&reads, found_at_first) || found_at_first == 0 {
            return reads;
        }
        let Patience { deadline, hurry } = patience;
        let mut hurry = pin!(hurry);
        let waiter = Arc::new(Notify::new());
        loop {
            let _subscription = self.subscribe(&waiter);
            let reads = self.read_all().await;
            if self.is_due(&reads, found_at_first) {
                return reads;
            }
            tokio::select! {
                () = waiter.notified() => {}
                () = sleep_until(deadline) => return reads,
                () = &mut hurry => return reads,
            }
        }
    }

    fn is_due(&self, reads: &Reads, found_at_first: usize) -> bool {
        reads.is_urgent
            || reads.read_bytes >= self.bounds.min_bytes
            || reads.found_partitions < found_at_first
    }

    fn subscribe(&self, waiter: &Arc<Notify>) -> Subscription {
        let subscribed = self.wishes.iter().filter_map(|wish| {
            let replica = (self.find)(wish).ok()?;
            let bound = self.isolation.bound(&replica);
            // Below the bound there may be something that was not enough: any rise is news then.
            let beyond = bound.get().max(wish.as_ref().offset);
            let key = bound.subscribe(beyond, waiter);
            Some((replica, key))
        });
        Subscription(self.isolation, subscribed.collect())
    }

    async fn read_all(&self) -> Reads {
        let outcomes = Vec::with_capacity(self.wishes.len());
        let mut reads = Reads { outcomes, ..Reads::default() };
        for wish in self.wishes {
            // A read of very many partitions takes turns with others.
            tokio::task::coop::consume_budget().await;
            let outcome = self.read_one(wish, reads.read_bytes).await;
            match &outcome {
                Ok(found) => {
                    reads.read_bytes += found.slice.size_bytes();
                    reads.found_partitions += 1;
                }
                Err(unread) => reads.is_urgent |= !unread.can_wait(),
            }
            reads.outcomes.push(outcome);
        }
        reads
    }

    async fn read_one(&self, wish: &W, read_bytes: u64) -> ReadOutcome {
        let replica = (self.find)(wish)?;
        let wish = wish.as_ref();
        replica.check_leader_epoch(wish.leader_epoch).map_err(Unread::Refused)?;
        if let Some(unread) = divergence(&replica, wish) {
            return Err(unread);
        }
        let upper_bound = match self.node.breaks(Mutation::ReadsUnstable) {
            true => replica.high_watermark().get(),
            false => self.isolation.bound(&replica).get(),
        };
        let left_bytes = self.bounds.max_bytes.saturating_sub(read_bytes);
        let request = ReadRequest {
            offset: wish.offset,
            max_bytes: wish.max_bytes.min(left_bytes),
            upper_bound,
            at_least_one_batch: read_bytes == 0,
        };
        match read_slice(&replica, request, self.isolation).await {
            Ok(CommittedSlice { slice, .. }) if self.node.breaks(Mutation::ForgetsAborted) => {
                Ok(Found { replica, slice, aborted: Vec::new() })
            }
            Ok(CommittedSlice { slice, aborted }) => Ok(Found { replica, slice, aborted }),
            Err(LogError::OffsetOutOfRange { .. }) => Err(Unread::OutOfRange(replica)),
            Err(error) => {
                self.node.report_damage(&replica, request.offset, &error);
                Err(Unread::Refused(match error {
                    // What clients do not take for something that passes: they would try again for ever,
                    // without a word.
                    LogError::Corrupt { .. } => ErrorCode::CorruptMessage,
                    error => Failure::from(error).code,
                }))
            }
        }
    }
}

/// Subscribed to every partition of a read, until dropped.
struct Subscription(Isolation, Vec<(Arc<Replica>, WaitKey)>);

impl Drop for Subscription {
    fn drop(&mut self) {
        let Subscription(isolation, keys) = self;
        for (replica, key) in keys {
            isolation.bound(replica).unsubscribe(*key);
        }
    }
}

/// Tells a reader whose last record is of an epoch that ended earlier in our log where that was
/// (KIP-595).
fn divergence(replica: &Arc<Replica>, wish: &ReadWish) -> Option<Unread> {
    if wish.last_read_epoch == LeaderEpoch::NONE {
        return None;
    }
    match replica.log().divergence(wish.last_read_epoch, wish.offset) {
        Divergence::None => None,
        Divergence::At(end) => Some(Unread::Diverging(Arc::clone(replica), end)),
        Divergence::UnknownEpoch => Some(Unread::Refused(ErrorCode::OffsetOutOfRange)),
    }
}

/// Finds records to send. At the end of a log that takes no I/O and is done at once; the index of older
/// segments may have to come from the disk, and is looked at elsewhere.
async fn read_slice(
    replica: &Replica,
    request: ReadRequest,
    isolation: Isolation,
) -> Result<CommittedSlice, LogError> {
    let log = replica.log();
    match read_log(&log, request, isolation).await {
        // The replica has just moved to another log directory, and its log was removed here.
        Err(LogError::Closed { .. }) if !Arc::ptr_eq(&log, &replica.log()) => {
            read_log(&replica.log(), request, isolation).await
        }
        result => result,
    }
}

/// What the disk may have damaged since it was written is checked first: not every reader looks.
async fn read_log(
    log: &Arc<Log>,
    request: ReadRequest,
    isolation: Isolation,
) -> Result<CommittedSlice, LogError> {
    let read = move |log: &Log| match isolation {
        Isolation::Committed => log.read_committed(request),
        Isolation::Uncommitted => {
            let slice = log.read(request)?;
            Ok(CommittedSlice { slice, aborted: Vec::new() })
        }
    };
    let check = |found: CommittedSlice| match found.slice.is_trusted(wall_clock()) {
        true => Ok(found),
        false => Ok(CommittedSlice { slice: found.slice.checked()?, ..found }),
    };
    if log.is_hot(request.offset) {
        let found = read(log)?;
        return match found.slice.is_trusted(wall_clock()) {
            true => Ok(found),
            false => off_thread(move || check(found)).await,
        };
    }
    let log = Arc::clone(log);
    off_thread(move || read(&log).and_then(check)).await
}
