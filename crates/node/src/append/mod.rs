//! The one way in: what an append must obey, what is counted, and what its answer waits for.
//!
//! | file | idea |
//! |---|---|
//! | [`appender`] | one source of appends, and what it has not written yet |
//! | [`intake`] | whether a shard takes records |
//! | [`markers`] | what ends transactions |
//! | [`rounds`] | small appends are written by the thread that has received them |
//! | [`unpacking`] | who unpacks compressed records, and when |
//! | [`recompression`] | batches that are compressed anew |

mod appender;
mod intake;
pub mod markers;
mod recompression;
mod rounds;
pub mod unpacking;

use std::io;
use std::slice;
use std::sync::Arc;

use logway_log::producer_state::Refusal;
use logway_log::{AppendOrigin, AppendOutcome, LogConfig, LogError, VerificationGuard};
use logway_model::{ErrorCode, Offset, TimestampMs, TopicPartition};
use logway_record::{
    AppendRules, Batch, BatchHeader, BatchSummary, Compression, DecodeLimit, TimestampType,
    validate_for_append,
};

use tokio::time::{Instant, timeout_at};

use crate::Node;
use crate::cluster::Mutation;
use crate::failure::Failure;
use crate::memory::Memory;
use crate::metrics::RecompressionMetrics;
use crate::replica::{EpochEnded, Replica, StartedAppend};
use crate::tasks::wall_clock;
use crate::topics::is_internal;
pub use appender::Appender;
pub use intake::NotTaken;
use intake::check_intake;
use recompression::Recompression;
use rounds::InlineRounds;
use unpacking::{UnpackingPlaces, is_cut_short};

/// What the answer to an append waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acks {
    /// Nobody waits for an answer (`acks=0`).
    None,
    /// The records are flushed on the leader, or written where the topic's settings say so (`acks=1`).
    Leader,
    /// The records are committed: they are below the high watermark of the epoch in which they were
    /// appended (`acks=all`). That needs `min.insync.replicas` replicas in sync.
    All,
}

/// What appends share.
pub(crate) struct Appends {
    /// Where what producers send is unpacked.
    unpacking: UnpackingPlaces,
    /// Where it is compressed anew. Its memory is of its own, since who waits for it may hold memory for an
    /// answer: two such requests could wait for each other.
    recompression: Recompression,
    rounds: InlineRounds,
}

impl Appends {
    /// For the runtime that this is called in.
    pub(crate) fn new(inline: bool, memory: &Memory) -> io::Result<Appends> {
        Ok(Appends {
            unpacking: UnpackingPlaces::new(),
            recompression: Recompression::new(memory.building.limit_bytes(), &memory.attention),
            rounds: InlineRounds::new(inline)?,
        })
    }

    /// Judges a batch by the rules of its topic, and gives it as the topic stores it: one whose records
    /// are unpacked for that piece by piece, at a place for it.
    async fn admit_packed(
        &self,
        metrics: &RecompressionMetrics,
        batch: Batch,
        rules: &AppendRules,
    ) -> Result<(Batch, BatchSummary), Failure> {
        if let Some(target) = rules.recompression(batch.header()) {
            let admitted = self.recompression.recompress(&batch, rules, target).await?;
            metrics.recompressed(target.codec(), batch.size_bytes(), admitted.0.size_bytes());
            return Ok(admitted);
        }
        let validate =
            |decode_limit| validate_for_append(&batch, &AppendRules { decode_limit, ..*rules });
        let summary = self.unpacking.run(validate, is_cut_short).await??;
        Ok((batch, summary))
    }
}

impl Node {
    /// Begins to append a client's batch to a partition that this node leads; the result is waited for
    /// with [`Appending::finish`]. The batches of one appender are appended in the order of these calls.
    ///
    /// Waits for nothing if the batch is not compressed and stays so ([`is_plain`]).
    ///
    /// Errors: `INVALID_TOPIC_EXCEPTION` for a topic of the coordinators, [`NotTaken`] for a shard, `NOT_ENOUGH_REPLICAS`,
    /// and what [`validate_for_append`] finds. A batch that is part of a transaction is refused: see
    /// [`Node::append_verified`].
    pub async fn append(
        &self,
        replica: &Arc<Replica>,
        batch: Batch,
        acks: Acks,
        appender: &Appender,
    ) -> Result<Appending, Failure> {
        check_target(replica, &batch)?;
        refuse_transactional(&batch)?;
        self.append_checked(replica, batch, acks, appender, AppendOrigin::Client).await
    }

    /// As [`Node::append`]; but the batch is appended only if the log ends at `end`, and has all before it committed or not. It is
    /// `OFFSET_OUT_OF_RANGE` otherwise, and nothing is appended.
    pub(crate) async fn append_at(
        &self,
        replica: &Arc<Replica>,
        end: Offset,
        batch: Batch,
        appender: &Appender,
    ) -> Result<Appending, Failure> {
        check_target(replica, &batch)?;
        refuse_transactional(&batch)?;
        let origin = AppendOrigin::ClientAt(end);
        self.append_checked(replica, batch, Acks::All, appender, origin).await
    }

    /// As [`Node::append`], of a batch that may be part of a transaction.
    ///
    /// | guard | the batch may |
    /// |---|---|
    /// | one of [`Log::begin_verification`](logway_log::Log::begin_verification), after which the coordinator was asked | begin its producer's transaction here |
    /// | none | go on with one that is open here ([`Log::has_open_transaction`](logway_log::Log::has_open_transaction)) |
    ///
    /// Errors, here or of [`Appending::finish`], beside those of [`Node::append`]: `INVALID_TXN_STATE` where the batch may
    /// not do what it wants, or is part of no transaction while its producer has one open; `POLICY_VIOLATION` where too
    /// many are open.
    pub async fn append_verified(
        &self,
        replica: &Arc<Replica>,
        batch: Batch,
        acks: Acks,
        appender: &Appender,
        guard: Option<VerificationGuard>,
    ) -> Result<Appending, Failure> {
        check_target(replica, &batch)?;
        let origin = guard.map_or(AppendOrigin::Client, AppendOrigin::Verified);
        self.append_checked(replica, batch, acks, appender, origin).await
    }

    async fn append_checked(
        &self,
        replica: &Arc<Replica>,
        batch: Batch,
        acks: Acks,
        appender: &Appender,
        origin: AppendOrigin,
    ) -> Result<Appending, Failure> {
        check_in_sync(replica, acks).inspect_err(|refused| {
            // Its producer may have sent others already, and more replicas may be in sync when they come.
            let reason = refused.message.as_str();
            replica.log().note_refused(slice::from_ref(&batch), Refusal::TooFewInSync, reason);
        })?;
        let acks = if self.breaks(Mutation::AcknowledgesAlone) { Acks::Leader } else { acks };
        let size_bytes = batch.size_bytes();
        let config = replica.log().config();
        let rules = append_rules(&config, wall_clock());
        let (batch, summary) = match takes_long(&batch, &rules) {
            // Records that are not compressed, and stay so, are looked at where they are, at some nanoseconds for each.
            false => {
                let summary = validate_for_append(&batch, &rules)?;
                (batch, summary)
            }
            true => {
                // What the appender holds must not wait for it.
                appender.flush();
                // Boxed: what it needs would make each append's future some times as large.
                Box::pin(self.appends.admit_packed(&self.metrics.recompressed, batch, &rules))
                    .await?
            }
        };
        let batch = with_true_max_timestamp(batch, &config, &summary);
        let records = u64::try_from(summary.record_count).unwrap_or(0);
        let started = self.appends.rounds.append(appender, replica, vec![batch], origin);
        Ok(Appending { started, replica: Arc::clone(replica), acks, records, size_bytes })
    }

    /// The memory that batches hold which are compressed anew.
    pub fn recompression_used_bytes(&self) -> usize {
        self.appends.recompression.used_bytes()
    }

    /// Takes note that an appender's client has asked for something: who appends with syncs has to give
    /// others their turn from now on.
    pub fn note_request(&self, appender: &Appender) {
        self.appends.rounds.note_request(appender);
    }
}

/// Begins to append batches that this node has made itself, all or none, to be committed.
///
/// They are appended as they are: the coordinators' records may be larger than clients' may. Fails with
/// `NOT_ENOUGH_REPLICAS`.
pub(crate) fn append_own(
    replica: &Arc<Replica>,
    batches: Vec<Batch>,
    origin: AppendOrigin,
) -> Result<Appending, Failure> {
    let acks = Acks::All;
    check_in_sync(replica, acks)?;
    let count = |batch: &Batch| u64::try_from(batch.header().record_count).unwrap_or(0);
    let records = batches.iter().map(count).sum();
    let size_bytes = batches.iter().map(Batch::size_bytes).sum();
    let started = replica.append(batches, origin);
    Ok(Appending { started, replica: Arc::clone(replica), acks, records, size_bytes })
}

/// Begins to append a batch without records, which stands for the offsets from `end` on, if the log ends there; else it fails with
/// `OFFSET_OUT_OF_RANGE`. It is refused as a client's batch would be where clients append nothing.
pub(crate) fn append_placeholder(
    replica: &Arc<Replica>,
    end: Offset,
    placeholder: Batch,
) -> Result<Appending, Failure> {
    check_target(replica, &placeholder)?;
    append_own(replica, vec![placeholder], AppendOrigin::ClientAt(end))
}

/// An append on its way to the disks.
#[must_use = "somebody waits for the answer"]
pub struct Appending {
    started: StartedAppend,
    replica: Arc<Replica>,
    acks: Acks,
    records: u64,
    size_bytes: usize,
}

/// Why an append that had begun was not acknowledged.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AppendError {
    /// The log has not taken it, or does not know whether it is on the disk.
    #[error(transparent)]
    Log(#[from] LogError),
    /// It came when its shard was just closed, and is not in the log.
    #[error(transparent)]
    NotTaken(#[from] NotTaken),
    /// It is in the log here, and the next leader may have it or not.
    #[error(transparent)]
    EpochEnded(#[from] EpochEnded),
    /// It is in the log here, and too few others have said in time that they have it.
    #[error(
        "{partition}: the records are not on all in-sync replicas yet; {in_sync} are in sync, and {wanted} must be \
         (min.insync.replicas)"
    )]
    NotInTime {
        /// The partition.
        partition: TopicPartition,
        /// How many replicas are in sync.
        in_sync: u32,
        /// How many have to be.
        wanted: u32,
    },
}

impl From<AppendError> for Failure {
    fn from(error: AppendError) -> Failure {
        match error {
            AppendError::Log(error) => error.into(),
            AppendError::NotTaken(not_taken) => not_taken.into(),
            AppendError::EpochEnded(error) => error.into(),
            AppendError::NotInTime { in_sync, wanted, .. } => {
                let code = match in_sync < wanted {
                    true => ErrorCode::NotEnoughReplicasAfterAppend,
                    false => ErrorCode::RequestTimedOut,
                };
                Failure::new(code, error.to_string())
            }
        }
    }
}

impl Appending {
    /// Where the records are. Ends when the append is as safe as its [`Acks`] demand.
    pub async fn finish(self) -> Result<AppendOutcome, AppendError> {
        self.finish_by(None).await
    }

    /// The same; but it waits for other replicas no longer than until `deadline`, if there is one. Then the records are in
    /// the log, and who tries again may find them there twice, unless it is an idempotent producer.
    pub async fn finish_by(self, deadline: Option<Instant>) -> Result<AppendOutcome, AppendError> {
        let StartedAppend { future, epoch, not_taken } = self.started;
        if let Some(not_taken) = not_taken {
            return Err(not_taken.into());
        }
        let outcome = future.await?;
        if self.acks == Acks::All {
            let committed = self.replica.committed(outcome.last_offset.next(), epoch);
            match deadline {
                None => committed.await?,
                Some(deadline) => match timeout_at(deadline, committed).await {
                    Ok(committed) => committed?,
                    Err(_elapsed) => return Err(self.replica.not_in_time()),
                },
            }
        }
        if !outcome.is_duplicate {
            self.replica.traffic().produced(self.records, self.size_bytes);
        }
        Ok(outcome)
    }
}

impl Replica {
    fn not_in_time(&self) -> AppendError {
        let partition = self.topic_partition().clone();
        AppendError::NotInTime { partition, in_sync: self.in_sync(), wanted: self.in_sync_min() }
    }
}

/// Whether the records of a batch are not compressed, or there is no batch at all.
pub fn is_plain(batch: &[u8]) -> bool {
    let is_plain = |header: BatchHeader| header.attributes.compression() == Ok(Compression::None);
    BatchHeader::parse(batch).map_or(true, is_plain)
}

/// What a batch must obey to be appended, at this moment.
fn append_rules(config: &LogConfig, now: TimestampMs) -> AppendRules {
    let ms = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    AppendRules {
        max_batch_bytes: config.max_message_bytes as usize,
        timestamp_type: config.timestamp_type,
        timestamp_before_max_ms: ms(config.timestamp_before_max_ms),
        timestamp_after_max_ms: ms(config.timestamp_after_max_ms),
        keys_required: config.is_compacted(),
        decode_limit: DecodeLimit::BATCH_MAX,
        compression: config.compression,
        now,
    }
}

/// Whether a batch is unpacked or compressed before it is appended.
fn takes_long(batch: &Batch, rules: &AppendRules) -> bool {
    let header = batch.header();
    header.attributes.codec() != Compression::None.id() || rules.recompression(header).is_some()
}

/// Whether the topic and the partition take batches of clients at all.
fn check_target(replica: &Replica, batch: &Batch) -> Result<(), Failure> {
    check_not_internal(replica)?;
    check_intake(replica).inspect_err(|not_taken| {
        if matches!(not_taken, NotTaken::Yet(_)) {
            let reason = not_taken.to_string();
            replica.log().note_refused(slice::from_ref(batch), Refusal::ShardNotOpen, reason);
        }
    })?;
    Ok(())
}

/// The state of the coordinators is written by them alone.
fn check_not_internal(replica: &Replica) -> Result<(), Failure> {
    let topic = &replica.topic_partition().topic;
    if !is_internal(topic.as_str()) {
        return Ok(());
    }
    let message = format!("topic '{topic}' is internal and cannot be written to");
    Err(Failure::new(ErrorCode::InvalidTopicException, message))
}

/// As Kafka refuses what is not part of a transaction that it knows of, before it looks further. See
/// [`Node::append_verified`].
fn refuse_transactional(batch: &Batch) -> Result<(), Failure> {
    if !batch.header().attributes.is_transactional() {
        return Ok(());
    }
    let message = "a batch of a transaction comes from no transactional producer";
    Err(Failure::new(ErrorCode::TransactionalIdAuthorizationFailed, message))
}

/// Whether enough replicas are in sync. More than the partition has are never asked for, as in Kafka
/// (KAFKA-15583): a topic that came from a larger cluster with its settings could not be written to.
fn check_in_sync(replica: &Replica, acks: Acks) -> Result<(), Failure> {
    if acks != Acks::All {
        return Ok(());
    }
    let (in_sync, wanted) = (replica.in_sync(), replica.in_sync_min());
    if in_sync >= wanted {
        return Ok(());
    }
    let partition = replica.topic_partition();
    let message = format!(
        "partition {} of topic '{}' has {in_sync} replicas in sync and needs {wanted} \
         (min.insync.replicas)",
        partition.partition, partition.topic,
    );
    Err(Failure::new(ErrorCode::NotEnoughReplicas, message))
}

/// A producer may be wrong about the largest timestamp. With log append time it is overwritten.
fn with_true_max_timestamp(batch: Batch, config: &LogConfig, summary: &BatchSummary) -> Batch {
    let is_overwritten = config.timestamp_type == TimestampType::LogAppendTime;
    match is_overwritten || batch.header().max_timestamp == summary.max_timestamp {
        true => batch,
        false => batch.with_max_timestamp(summary.max_timestamp),
    }
}
