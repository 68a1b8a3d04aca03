//! The state machine.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use logway_model::{ErrorCode, ProducerId, TimestampMs, TopicPartition, TransactionVersion};
use tracing::{info, warn};

use super::outbox::{InFlight, Outbox};
use super::record::partitions_bytes;
use super::transaction::{Producer, Step, Transaction, TransactionState};
use super::{
    ListedTransaction, MarkerOrder, TransactionEffect, TransactionFilter, TransactionRecord,
    TransactionReply, TransactionRequest, TransactionSettings,
};
use crate::effect::CommitToken;
use crate::ids::TransactionalId;
use crate::memory::{GroupMemory, Growth, HeldMemory};
use crate::moment::{ElapsedMs, Moment};
use crate::record::failed_append;
use crate::request::{Request, RequestToken};
use crate::timers::Timers;

/// The transactional ids of one partition of `__transaction_state`.
///
/// Owned and driven by one task; see the [module's documentation](super). Every method that returns effects returns all
/// that came up since the one before; they have to be done in their order.
///
/// Invariants: every request is answered once; what the log holds changes only by replaying records, in the order of the
/// log; a reply that tells of a change leaves after the change is durable; markers are ordered after the end that they
/// tell of is durable.
#[derive(Debug)]
pub struct TransactionShard {
    phase: Phase,
    settings: TransactionSettings,
    memory: GroupMemory,
    ids: BTreeMap<TransactionalId, Entry>,
    timers: Timers<Timer>,
    outbox: Outbox,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The log is being read.
    Loading,
    Active,
}

/// What is known of one id.
#[derive(Debug)]
struct Entry {
    /// What the log holds; only [`TransactionShard::replay_record`] changes it.
    transaction: Option<Arc<Transaction>>,
    /// Whether a record about it is on its way. A client that comes meanwhile is told to come again.
    is_in_flight: bool,
    /// Whether its transaction took too long while a record was on its way.
    is_overdue: bool,
    held: HeldMemory,
}

/// What a deadline is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Timer {
    /// The transaction has to have ended.
    Timeout(TransactionalId),
    /// The markers are written, and that could not be written down.
    Complete(TransactionalId),
    /// Ids are looked through for those that nobody uses.
    Expiration,
}

/// What an id takes beside its name and partitions: with its places in maps and timers.
const ID_BYTES: usize = 640;

/// What each byte of the record of a transaction's partitions takes in memory at most.
const PARTITIONS_FACTOR: usize = 8;

/// What an id takes in an answer beside its name, with its encoded form.
const TOLD_ID_BYTES: usize = 192;

fn entry_bytes(id: &TransactionalId, partitions_bytes: usize) -> usize {
    ID_BYTES + 2 * id.as_str().len() + PARTITIONS_FACTOR * partitions_bytes
}

impl TransactionShard {
    /// A shard that has yet to be loaded. Its ids share `memory` with those of other shards.
    pub fn new(settings: TransactionSettings, memory: GroupMemory) -> TransactionShard {
        TransactionShard {
            phase: Phase::Loading,
            settings,
            memory,
            ids: BTreeMap::new(),
            timers: Timers::default(),
            outbox: Outbox::default(),
        }
    }

    /// Takes over a record of the log while the shard is loaded: all of them, in their order.
    ///
    /// # Panics
    ///
    /// If the shard is loaded already: from then on it replays what it appends by itself.
    pub fn replay(&mut self, record: &TransactionRecord) {
        assert!(self.phase == Phase::Loading, "the log is read before the shard is used");
        self.replay_record(record);
    }

    /// The log has been read to its end. Transactions that have ended get their markers, once more if need be.
    pub fn loaded(&mut self, now: Moment) -> Vec<TransactionEffect> {
        self.phase = Phase::Active;
        let ids: Vec<TransactionalId> = self.ids.keys().cloned().collect();
        for id in ids {
            self.go_on(now, &id);
        }
        self.set_expiration(now);
        self.outbox.take_effects()
    }

    /// Handles a request; the reply is among these effects or later ones.
    ///
    /// While the shard is being loaded, the answer is COORDINATOR_LOAD_IN_PROGRESS.
    pub fn request(
        &mut self,
        now: Moment,
        request: Request<TransactionRequest>,
    ) -> Vec<TransactionEffect> {
        let Request { token, body, .. } = request;
        if self.phase == Phase::Loading {
            self.outbox.reply(token, body.refused(ErrorCode::CoordinatorLoadInProgress));
        } else {
            self.handle(now, token, body);
        }
        self.outbox.take_effects()
    }

    /// What the answer to a request would take now, in bytes with its encoded form, if that can be much more than the
    /// request itself. Not less than it takes; 0 for others.
    pub fn answer_bytes(&self, body: &TransactionRequest) -> usize {
        let told = |id: &TransactionalId, entry: &Entry| {
            let partitions = entry.transaction.as_ref().map(|it| partitions_bytes(&it.partitions));
            TOLD_ID_BYTES + 2 * id.as_str().len() + PARTITIONS_FACTOR * partitions.unwrap_or(0)
        };
        match body {
            TransactionRequest::Describe(ids) => {
                let found = ids.iter().filter_map(|id| self.ids.get_key_value(id));
                found.map(|(id, entry)| told(id, entry)).sum()
            }
            TransactionRequest::List(_) => {
                self.ids.keys().map(|id| TOLD_ID_BYTES + 2 * id.as_str().len()).sum()
            }
            _ => 0,
        }
    }

    /// Tells that an append is durable, or that it failed, with the error of the log: as
    /// [`GroupShard::appended`](crate::GroupShard::appended).
    ///
    /// # Panics
    ///
    /// If the append is not one of this shard's, or was told of before.
    pub fn appended(
        &mut self,
        now: Moment,
        token: CommitToken,
        outcome: Result<(), ErrorCode>,
    ) -> Vec<TransactionEffect> {
        self.outbox.note_outcome(token, outcome);
        while let Some((append, outcome)) = self.outbox.pop_settled() {
            self.settle(now, append, outcome.map_err(failed_append));
        }
        self.outbox.take_effects()
    }

    /// All markers of an order are written, or their partitions are no more.
    ///
    /// An order of a transaction that is complete, or of an earlier one, is of no concern any more.
    pub fn markers_written(&mut self, now: Moment, order: &MarkerOrder) -> Vec<TransactionEffect> {
        let current = self.ids.get(&order.transactional_id);
        let current = current.and_then(|entry| entry.transaction.as_ref());
        if current == Some(&order.transaction) {
            self.complete(now, &order.transactional_id);
        }
        self.outbox.take_effects()
    }

    /// Does what was to be done until now: see [`TransactionShard::next_deadline`].
    pub fn tick(&mut self, now: Moment) -> Vec<TransactionEffect> {
        while let Some(timer) = self.timers.pop_due(now.elapsed) {
            match timer {
                Timer::Timeout(id) => self.time_out(now, &id),
                Timer::Complete(id) => self.complete(now, &id),
                Timer::Expiration => self.expire(now),
            }
        }
        self.outbox.take_effects()
    }

    /// When [`TransactionShard::tick`] is to be called next; it may change with every call.
    pub fn next_deadline(&self) -> Option<ElapsedMs> {
        self.timers.next()
    }

    /// Ends the shard: all that wait are told NOT_COORDINATOR. What becomes of appends and errands on their way is of no
    /// concern any more.
    pub fn unload(mut self) -> Vec<TransactionEffect> {
        for (token, reply) in self.outbox.abandon() {
            self.outbox.reply(token, reply.failed(ErrorCode::NotCoordinator));
        }
        self.outbox.take_effects()
    }

    /// Whether the shard answers requests.
    pub fn is_loaded(&self) -> bool {
        self.phase == Phase::Active
    }

    /// What is durable of an id.
    pub fn transaction(&self, id: &str) -> Option<&Arc<Transaction>> {
        self.ids.get(id)?.transaction.as_ref()
    }

    /// What is durable of all ids.
    pub fn transactions(&self) -> impl Iterator<Item = (&TransactionalId, &Arc<Transaction>)> {
        self.ids.iter().filter_map(|(id, entry)| entry.transaction.as_ref().map(|it| (id, it)))
    }

    fn handle(&mut self, now: Moment, token: RequestToken, body: TransactionRequest) {
        match body {
            TransactionRequest::InitProducerId {
                transactional_id,
                timeout_ms,
                expected,
                fresh_id,
            } => {
                let step =
                    self.init_producer(now, &transactional_id, timeout_ms, expected, fresh_id);
                self.take_init_step(token, &transactional_id, step);
            }
            TransactionRequest::AddPartitions {
                transactional_id,
                producer,
                partitions,
                version,
            } => {
                let step =
                    self.add_partitions(now, &transactional_id, producer, &partitions, version);
                self.take_step(token, &transactional_id, step, |outcome| {
                    TransactionReply::AddPartitions(outcome.map(drop))
                });
            }
            TransactionRequest::VerifyPartitions { transactional_id, producer, partitions } => {
                let verified = self.verify(&transactional_id, producer, &partitions);
                self.outbox.reply(token, TransactionReply::VerifyPartitions(verified));
            }
            TransactionRequest::EndTxn {
                transactional_id,
                producer,
                outcome,
                version,
                fresh_id,
            } => {
                let step = self.unhurried(&transactional_id).and_then(|transaction| {
                    transaction.end(producer, outcome, version, fresh_id, now.wall)
                });
                self.take_step(token, &transactional_id, step, TransactionReply::EndTxn);
            }
            TransactionRequest::Describe(ids) => {
                let describe =
                    |id| self.transaction(id).cloned().ok_or(ErrorCode::TransactionalIdNotFound);
                let described = ids.iter().map(|id| describe(id.as_str())).collect();
                self.outbox.reply(token, TransactionReply::Describe(described));
            }
            TransactionRequest::List(filter) => {
                let listed = self.list(now.wall, &filter);
                self.outbox.reply(token, TransactionReply::List(Ok(listed)));
            }
        }
    }

    /// An id's transaction, if no change of it is on its way.
    fn unhurried(&self, id: &TransactionalId) -> Result<&Arc<Transaction>, ErrorCode> {
        let entry = self.ids.get(id).ok_or(ErrorCode::InvalidProducerIdMapping)?;
        match &entry.transaction {
            _ if entry.is_in_flight => Err(ErrorCode::ConcurrentTransactions),
            None => Err(ErrorCode::InvalidProducerIdMapping),
            Some(transaction) => Ok(transaction),
        }
    }

    fn init_producer(
        &self,
        now: Moment,
        id: &TransactionalId,
        timeout_ms: i32,
        expected: Option<Producer>,
        fresh_id: Option<ProducerId>,
    ) -> Result<Step, ErrorCode> {
        self.settings.check_timeout(timeout_ms)?;
        let is_in_flight = self.ids.get(id).is_some_and(|entry| entry.is_in_flight);
        match self.transaction(id.as_str()) {
            _ if is_in_flight => Err(ErrorCode::ConcurrentTransactions),
            Some(transaction) => {
                transaction.init_producer(expected, timeout_ms, fresh_id, now.wall)
            }
            None => Ok(match fresh_id {
                Some(fresh) => {
                    Step::Next(Box::new(Transaction::first(fresh, timeout_ms, now.wall)))
                }
                None => Step::NeedsProducerId,
            }),
        }
    }

    fn take_init_step(
        &mut self,
        token: RequestToken,
        id: &TransactionalId,
        step: Result<Step, ErrorCode>,
    ) {
        let step = match step {
            // The fence: a client that asks again when the transaction is aborted becomes the next producer.
            Ok(Step::Next(next)) if next.state == TransactionState::PrepareAbort => {
                info!(transactional_id = %id, "a transaction is aborted, since its producer was replaced");
                let reply =
                    TransactionReply::InitProducerId(Err(ErrorCode::ConcurrentTransactions));
                self.append(id, *next, Some((token, reply)));
                return;
            }
            Ok(Step::Next(_)) if !self.has_room_for(id) => {
                Err(ErrorCode::CoordinatorLoadInProgress)
            }
            step => step,
        };
        self.take_step(token, id, step, TransactionReply::InitProducerId);
    }

    /// Does a step that a request leads to; the reply says who the producer is then.
    fn take_step(
        &mut self,
        token: RequestToken,
        id: &TransactionalId,
        step: Result<Step, ErrorCode>,
        reply: impl Fn(Result<Producer, ErrorCode>) -> TransactionReply,
    ) {
        match step {
            Ok(Step::Next(next)) => {
                let reply = reply(Ok(next.client_producer()));
                self.append(id, *next, Some((token, reply)));
            }
            Ok(Step::Already(producer)) => self.outbox.reply(token, reply(Ok(producer))),
            Ok(Step::NeedsProducerId) => {
                self.outbox.reply(token, TransactionReply::NeedsProducerId);
            }
            Err(code) => self.outbox.reply(token, reply(Err(code))),
        }
    }

    fn add_partitions(
        &mut self,
        now: Moment,
        id: &TransactionalId,
        producer: Producer,
        partitions: &[TopicPartition],
        version: TransactionVersion,
    ) -> Result<Step, ErrorCode> {
        let current = self.unhurried(id)?;
        let step = current.add_partitions(producer, partitions, version, now.wall)?;
        let Step::Next(next) = &step else { return Ok(step) };
        let bytes = partitions_bytes(&next.partitions);
        if next.partitions.len() > self.settings.partitions_max
            || bytes > self.settings.partitions_bytes_max
        {
            return Err(ErrorCode::TransactionAbortable);
        }
        let before = partitions_bytes(&current.partitions);
        let growth_bytes = PARTITIONS_FACTOR * bytes.saturating_sub(before);
        let entry = self.ids.get_mut(id).expect("it was there just now");
        match entry.held.try_grow(growth_bytes, Growth::OfGroup) {
            true => Ok(step),
            false => Err(ErrorCode::CoordinatorLoadInProgress),
        }
    }

    fn verify(
        &self,
        id: &TransactionalId,
        producer: Producer,
        partitions: &[TopicPartition],
    ) -> Vec<Result<(), ErrorCode>> {
        // A partition that is on its way into the log was not told to the client yet: so nothing else is.
        let transaction = self.transaction(id.as_str());
        let verify = |partition: &TopicPartition| {
            let transaction = transaction.ok_or(ErrorCode::InvalidProducerIdMapping)?;
            transaction.verify(producer, partition)
        };
        partitions.iter().map(verify).collect()
    }

    fn list(&self, now: TimestampMs, filter: &TransactionFilter) -> Vec<ListedTransaction> {
        let producer_ids: HashSet<ProducerId> = filter.producer_ids.iter().copied().collect();
        let passes = |transaction: &Transaction| {
            let age_ms = now.0.saturating_sub(transaction.started.0);
            (producer_ids.is_empty() || producer_ids.contains(&transaction.producer.id))
                && filter.states.as_ref().is_none_or(|it| it.contains(&transaction.state))
                && filter.longer_than_ms.is_none_or(|longer_than_ms| age_ms > longer_than_ms)
        };
        let listed = self.transactions().filter(|(_, transaction)| passes(transaction));
        let listed = listed.map(|(id, transaction)| ListedTransaction {
            transactional_id: id.clone(),
            producer_id: transaction.producer.id,
            state: transaction.state,
        });
        listed.collect()
    }

    /// Makes room for an id that is new.
    fn has_room_for(&mut self, id: &TransactionalId) -> bool {
        if self.ids.contains_key(id) {
            return true;
        }
        let Some(held) = self.memory.try_hold(entry_bytes(id, 0), Growth::New) else {
            return false;
        };
        let entry = Entry { transaction: None, is_in_flight: false, is_overdue: false, held };
        self.ids.insert(id.clone(), entry);
        true
    }

    /// Writes down what an id shall be.
    fn append(
        &mut self,
        id: &TransactionalId,
        next: Transaction,
        reply: Option<(RequestToken, TransactionReply)>,
    ) {
        let record =
            TransactionRecord { transactional_id: id.clone(), transaction: Some(Arc::new(next)) };
        self.append_records(vec![record], reply);
    }

    fn append_records(
        &mut self,
        records: Vec<TransactionRecord>,
        reply: Option<(RequestToken, TransactionReply)>,
    ) {
        for record in &records {
            if let Some(entry) = self.ids.get_mut(&record.transactional_id) {
                debug_assert!(!entry.is_in_flight, "one append of an id is on its way at a time");
                entry.is_in_flight = true;
            }
        }
        self.outbox.append(records, reply);
    }

    /// An append is done, as are all before it.
    fn settle(&mut self, now: Moment, append: InFlight, outcome: Result<(), ErrorCode>) {
        if let Err(code) = outcome {
            warn!(%code, records = append.records.len(), "an append about transactions has failed");
        }
        for record in &append.records {
            if let Some(entry) = self.ids.get_mut(&record.transactional_id) {
                entry.is_in_flight = false;
            }
            match outcome {
                Ok(()) => {
                    self.replay_record(record);
                    self.go_on(now, &record.transactional_id);
                }
                Err(_) => self.recover(now, &record.transactional_id),
            }
        }
        match (append.reply, outcome) {
            (Some((token, reply)), Ok(())) => self.outbox.reply(token, reply),
            (Some((token, reply)), Err(code)) => self.outbox.reply(token, reply.failed(code)),
            (None, _) => {}
        }
    }

    /// Takes over what a record in the log says.
    fn replay_record(&mut self, record: &TransactionRecord) {
        let id = &record.transactional_id;
        let Some(transaction) = &record.transaction else {
            self.ids.remove(id);
            return;
        };
        let entry = self.ids.entry(id.clone()).or_insert_with(|| Entry {
            transaction: None,
            is_in_flight: false,
            is_overdue: false,
            held: self.memory.hold(0),
        });
        entry.held.set(entry_bytes(id, partitions_bytes(&transaction.partitions)));
        entry.transaction = Some(Arc::clone(transaction));
    }

    /// Does what the state of an id asks for that has just been reached.
    fn go_on(&mut self, now: Moment, id: &TransactionalId) {
        let Some(entry) = self.ids.get_mut(id) else {
            self.timers.clear(Timer::Timeout(id.clone()));
            return;
        };
        let Some(transaction) = entry.transaction.clone() else { return };
        if transaction.state == TransactionState::Ongoing {
            if std::mem::take(&mut entry.is_overdue) {
                self.time_out(now, id);
            } else if !transaction.is_two_phase() {
                let left_ms = time_left_ms(&transaction, now.wall);
                self.timers.set(Timer::Timeout(id.clone()), now.elapsed.after_ms(left_ms));
            }
            return;
        }
        entry.is_overdue = false;
        self.timers.clear(Timer::Timeout(id.clone()));
        if transaction.state.prepared().is_some() {
            let order = MarkerOrder { transactional_id: id.clone(), transaction };
            match order.transaction.partitions.is_empty() {
                true => self.complete(now, id),
                false => self.outbox.write_markers(order),
            }
        }
    }

    /// A record about the id could not be written. What a client has asked for, it asks for again.
    fn recover(&mut self, now: Moment, id: &TransactionalId) {
        let Some(entry) = self.ids.get_mut(id) else { return };
        let Some(transaction) = &entry.transaction else {
            self.ids.remove(id);
            return;
        };
        let retry_at = now.elapsed.after_ms(self.settings.retry_ms);
        match transaction.state {
            TransactionState::Ongoing if std::mem::take(&mut entry.is_overdue) => {
                self.timers.set(Timer::Timeout(id.clone()), retry_at);
            }
            TransactionState::PrepareCommit | TransactionState::PrepareAbort => {
                self.timers.set(Timer::Complete(id.clone()), retry_at);
            }
            _ => {}
        }
    }

    /// A transaction took too long: its producer is fenced, and it is aborted.
    fn time_out(&mut self, now: Moment, id: &TransactionalId) {
        let Some(entry) = self.ids.get_mut(id) else { return };
        let Some(transaction) = entry.transaction.clone() else { return };
        if transaction.state != TransactionState::Ongoing {
            return;
        }
        // If it cannot be written down, it is tried again.
        entry.is_overdue = true;
        if !entry.is_in_flight {
            let timeout_ms = transaction.timeout_ms;
            info!(transactional_id = %id, timeout_ms, "a transaction takes too long and is aborted");
            self.append(id, transaction.fenced(now.wall), None);
        }
    }

    /// The markers of the transaction are written.
    fn complete(&mut self, now: Moment, id: &TransactionalId) {
        let Some(entry) = self.ids.get(id).filter(|entry| !entry.is_in_flight) else { return };
        let next = entry.transaction.as_ref().and_then(|it| it.complete(now.wall));
        if let Some(next) = next {
            self.append(id, next, None);
        }
    }

    fn set_expiration(&mut self, now: Moment) {
        let expiration_ms = u64::try_from(self.settings.id_expiration_ms).unwrap_or(1);
        let interval_ms = self.settings.id_expiration_check_interval_ms.min(expiration_ms).max(1);
        self.timers.set(Timer::Expiration, now.elapsed.after_ms(interval_ms));
    }

    /// Takes ids out of the log that nobody has used for long.
    fn expire(&mut self, now: Moment) {
        self.set_expiration(now);
        let expiration_ms = self.settings.id_expiration_ms;
        let is_idle = |entry: &Entry| {
            let is_idle = |it: &Arc<Transaction>| it.is_idle(now.wall, expiration_ms);
            !entry.is_in_flight && entry.transaction.as_ref().is_some_and(is_idle)
        };
        let idle = self.ids.iter().filter(|(_, entry)| is_idle(entry));
        let tombstone = |id: &TransactionalId| TransactionRecord {
            transactional_id: id.clone(),
            transaction: None,
        };
        let tombstones: Vec<_> = idle.map(|(id, _)| tombstone(id)).collect();
        if !tombstones.is_empty() {
            info!(ids = tombstones.len(), "transactional ids have expired");
        }
        for part in tombstones.chunks(self.settings.append_records_max.max(1)) {
            self.append_records(part.to_vec(), None);
        }
    }
}

/// How long a transaction may still take. Where clocks of two coordinators differ, no longer than from its beginning.
fn time_left_ms(transaction: &Transaction, now: TimestampMs) -> u64 {
    let timeout_ms = i64::from(transaction.timeout_ms).max(0);
    let age_ms = now.0.saturating_sub(transaction.started.0);
    u64::try_from(timeout_ms.saturating_sub(age_ms).clamp(0, timeout_ms)).unwrap_or(0)
}

impl Transaction {
    /// Whether another system decides how it ends, and when (KIP-939): it has no timeout.
    fn is_two_phase(&self) -> bool {
        self.timeout_ms == i32::MAX
    }
}
