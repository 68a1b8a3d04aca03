//! The leader of a partition asks the coordinator before it takes the first record of a transaction (KIP-890).
//!
//! Records that no coordinator knows of would begin a transaction that nobody ends: `read_committed` consumers would stop
//! there for good. So each transactional batch is held against the log: if the producer's transaction is open there, it is
//! part of that. Else the coordinator is asked, and a *guard* is taken before: if the transaction ends meanwhile, the guard
//! is void, and the log refuses the batch.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use logway_coordinator::transactions::Producer;
use logway_coordinator::{Marker, TxnOffsetCommit};
use logway_log::VerificationGuard;
use logway_model::{BrokerId, ErrorCode, LeaderEpoch, Sequence, TopicPartition};
use logway_peers::{Kind, Lane};
use tokio::time::{Instant, sleep};

use super::message::{Join, Joined, Request, decode_codes};
use crate::Node;
use crate::cluster::{Mutation, node_address};
use crate::failure::Failure;
use crate::groups::OFFSETS_TOPIC;
use crate::replica::Replica;

/// How long another node may take to say whether a partition is part of a transaction.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Where the transaction before is still ending, or another partition is just being added, the coordinator is asked again
/// for so long: Kafka's `add.partitions.to.txn.retry.backoff.max.ms`.
const RETRY_MAX: Duration = Duration::from_millis(100);

/// Between two tries.
const RETRY_PAUSE: Duration = Duration::from_millis(5);

/// What a client says of the transaction that its batches are part of.
#[derive(Debug, Clone, Copy)]
pub struct TransactionClaim<'a> {
    /// The id.
    pub transactional_id: &'a str,
    /// Whether partitions become part of it by being written to: the client raises its epoch with each transaction.
    pub adds_partitions: bool,
}

/// A batch that may be the first of its transaction in a partition.
#[derive(Debug, Clone)]
pub struct TransactionPart {
    /// The partition.
    pub replica: Arc<Replica>,
    /// Whose transaction.
    pub producer: Producer,
    /// The batch's first.
    pub sequence: Sequence,
}

impl Node {
    /// Says of each batch of a client whether it is part of the client's transaction, as far as the coordinator knows. What
    /// it gives is shown to the log: `None` where the transaction is open there already.
    ///
    /// Errors are those of the coordinator. They are [`ErrorCode::CoordinatorNotAvailable`] where it cannot be asked, and
    /// [`ErrorCode::ConcurrentTransactions`] where the client shall ask again.
    pub async fn join_transaction(
        self: &Arc<Self>,
        claim: TransactionClaim<'_>,
        parts: &[TransactionPart],
    ) -> Vec<Result<Option<VerificationGuard>, ErrorCode>> {
        let deadline = Instant::now() + RETRY_MAX;
        loop {
            let outcomes = self.join_once(claim, parts).await;
            let is_busy = outcomes.contains(&Err(ErrorCode::ConcurrentTransactions));
            if !is_busy || Instant::now() >= deadline {
                return outcomes;
            }
            sleep(RETRY_PAUSE).await;
        }
    }

    /// Has the partition of a group, which this node leads, take part in the transaction of a commit of offsets. The commit
    /// is complete then.
    ///
    /// Errors as of [`Node::join_transaction`], and [`ErrorCode::NotCoordinator`] where the group is another node's.
    pub async fn join_group(
        self: &Arc<Self>,
        claim: TransactionClaim<'_>,
        producer: Producer,
        commit: &mut TxnOffsetCommit,
    ) -> Result<(), ErrorCode> {
        let place = self.groups.place_of(&commit.request.group_id);
        let place = place.ok_or(ErrorCode::NotCoordinator)?;
        let replica = {
            let topics = self.topics();
            let topic = topics.by_name(OFFSETS_TOPIC).map_err(|_| ErrorCode::NotCoordinator)?;
            topic.partition(place).map_err(|_| ErrorCode::NotCoordinator)?.clone()
        };
        let part = TransactionPart { replica, producer, sequence: Sequence::NONE };
        let joined = self.join_transaction(claim, &[part]).await;
        let joined = joined.into_iter().next().unwrap_or(Err(ErrorCode::UnknownServerError));
        commit.guard = joined?.map(|guard| guard.0);
        Ok(())
    }

    /// Each try takes guards of its own: the markers that the coordinator waits for make those before void.
    async fn join_once(
        self: &Arc<Self>,
        claim: TransactionClaim<'_>,
        parts: &[TransactionPart],
    ) -> Vec<Result<Option<VerificationGuard>, ErrorCode>> {
        let begin = |part: &TransactionPart| part.begin(claim.adds_partitions);
        let mut outcomes: Vec<_> = parts.iter().map(begin).collect();
        let mut asked: HashMap<Producer, Vec<usize>> = HashMap::new();
        for (index, outcome) in outcomes.iter().enumerate() {
            if matches!(outcome, Ok(Some(_))) {
                asked.entry(parts[index].producer).or_default().push(index);
            }
        }
        for (producer, indexes) in asked {
            let partition = |&index: &usize| parts[index].replica.topic_partition().clone();
            let join = Join {
                transactional_id: claim.transactional_id.to_owned(),
                producer,
                adds: claim.adds_partitions,
                partitions: indexes.iter().map(partition).collect(),
            };
            let Joined { coordinator_epoch, outcomes: joined } = self.ask_coordinator(join).await;
            let coordinator_epoch = match self.breaks(Mutation::BelievesReplaced) {
                true => i32::MAX,
                false => coordinator_epoch,
            };
            for (index, joined) in indexes.into_iter().zip(joined) {
                let vouches_anyway = joined == Err(ErrorCode::ProducerFenced)
                    && self.breaks(Mutation::VouchesForFenced);
                match (&mut outcomes[index], joined) {
                    (outcome, Err(code)) if !vouches_anyway => *outcome = Err(code),
                    (Ok(Some(guard)), _) => {
                        let log = parts[index].replica.log();
                        log.vouch(producer.id, *guard, coordinator_epoch);
                    }
                    _ => {}
                }
            }
        }
        outcomes
    }

    async fn ask_coordinator(self: &Arc<Self>, join: Join) -> Joined {
        let count = join.partitions.len();
        let unavailable = || Joined {
            coordinator_epoch: LeaderEpoch::NONE.0,
            outcomes: vec![Err(ErrorCode::CoordinatorNotAvailable); count],
        };
        let Some((_, broker)) = self.transaction_coordinator(&join.transactional_id) else {
            return unavailable();
        };
        if broker == self.settings.node_id {
            return self.join_here(join).await;
        }
        let calling = self.call_about_transactions(broker, Request::Join(join), ANSWER_MAX);
        let answer = calling.await.and_then(|answer| {
            Joined::decode(&answer, count).ok_or_else(|| unreachable(ANSWER_LENGTH))
        });
        answer.unwrap_or_else(|failure| {
            tracing::warn!(%broker, reason = failure.message, "the coordinator of a transaction \
                does not answer");
            unavailable()
        })
    }

    /// Has another node write markers.
    pub(super) async fn send_markers(
        &self,
        broker: BrokerId,
        markers: Vec<(TopicPartition, Marker)>,
        time_max: Duration,
    ) -> Result<Vec<Result<(), ErrorCode>>, Failure> {
        let count = markers.len();
        let answer = self.call_about_transactions(broker, Request::Markers(markers), time_max);
        decode_codes(&answer.await?, count).ok_or_else(|| unreachable(ANSWER_LENGTH))
    }

    async fn call_about_transactions(
        &self,
        broker: BrokerId,
        request: Request,
        time_max: Duration,
    ) -> Result<Bytes, Failure> {
        let address = node_address(&self.image(), broker);
        let (Some(cluster), Some(address)) = (&self.cluster, address) else {
            return Err(unreachable(format!("broker {broker} has no address for nodes")));
        };
        let payload = request.encode();
        let calling =
            cluster.carrier.request(&address, Lane::Clients, Kind::Transactions, payload, time_max);
        calling.await.map_err(|error| unreachable(error.to_string()))
    }
}

const ANSWER_LENGTH: &str = "the answer is not as long as the question";

fn unreachable(message: impl Into<String>) -> Failure {
    Failure::new(ErrorCode::CoordinatorNotAvailable, message)
}

impl TransactionPart {
    /// A guard, if the coordinator has to be asked.
    fn begin(&self, raises_epoch: bool) -> Result<Option<VerificationGuard>, ErrorCode> {
        let (log, Producer { id, epoch }) = (self.replica.log(), self.producer);
        if log.has_open_transaction(id, epoch) {
            return Ok(None);
        }
        let guard = log.begin_verification(id, epoch, self.sequence, raises_epoch);
        // Too many producers ask at once; who asks again finds room when others have been told.
        guard.map(Some).ok_or(ErrorCode::CoordinatorNotAvailable)
    }
}

/// The code that a producer is told for one of the coordinator's (KIP-890, KIP-1050).
fn code_for_producer(
    code: ErrorCode,
    claim: TransactionClaim<'_>,
    knows_abortable: bool,
) -> ErrorCode {
    match code {
        ErrorCode::NotCoordinator
        | ErrorCode::CoordinatorNotAvailable
        | ErrorCode::CoordinatorLoadInProgress => ErrorCode::NotEnoughReplicas,
        ErrorCode::ConcurrentTransactions if !claim.adds_partitions => ErrorCode::NotEnoughReplicas,
        // Producers know what to do about this one.
        ErrorCode::ProducerFenced => ErrorCode::InvalidProducerEpoch,
        ErrorCode::TransactionAbortable if !knows_abortable => ErrorCode::InvalidTxnState,
        code => code,
    }
}

/// Why a batch is refused, for a producer.
pub fn refusal_for_producer(
    code: ErrorCode,
    partition: &TopicPartition,
    claim: TransactionClaim<'_>,
    knows_abortable: bool,
) -> Failure {
    let told = code_for_producer(code, claim, knows_abortable);
    let message = match code {
        ErrorCode::TransactionAbortable => {
            format!("partition {partition} is not part of the transaction: it was not added to it")
        }
        code => format!(
            "it is not known whether partition {partition} is part of the transaction: {}",
            code.name()
        ),
    };
    Failure::new(told, message)
}
