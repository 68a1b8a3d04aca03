//! What transactions were tried, how far their producers came with them, and what readers were told.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use logway_coordinator::transactions::Producer;
use logway_model::{Offset, ProducerEpoch, ProducerId};
use logway_record::Batch;

use crate::batch::content;
use crate::cluster::oracle::Place;

/// Remembers all transactions. Clones are the same ledger.
#[derive(Clone, Default)]
pub(in crate::cluster) struct Ledger(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    transactions: BTreeMap<u64, Transaction>,
    /// The transaction of each batch that somebody has sent, by what no log changes of it.
    batches: HashMap<Bytes, u64>,
    /// Those that were first sent when the sender's successor had begun.
    fenced: HashSet<Bytes>,
    /// The epoch that the newest process of a producer was given at its start.
    newest: HashMap<ProducerId, ProducerEpoch>,
    reads: Vec<CommittedRead>,
    /// The highest offset that anybody was told of a group.
    told: HashMap<usize, u64>,
}

/// How far a transaction is, as far as its producer knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nobody has asked to commit it, and nobody will: only its producer could.
    NotAsked,
    /// Whether it is committed is not known.
    Asked,
    Committed,
}

/// One transaction.
#[derive(Debug, Clone)]
pub(super) struct Transaction {
    /// The number of its transactional id.
    pub(super) owner: usize,
    pub(super) fate: Fate,
    /// The batches that were sent. All are acknowledged before the commit is asked for.
    pub(super) batches: Vec<(Place, Bytes)>,
    /// The group commits the number of the transaction as its offset.
    pub(super) commits_offset: bool,
}

/// What a `read_committed` reader has got at once.
#[derive(Debug, Clone)]
pub(super) struct CommittedRead {
    pub(super) place: Place,
    /// The first offset that was asked for, and the first that was not given.
    pub(super) from: Offset,
    pub(super) next: Offset,
    /// The high watermark of the node that was asked, behind the read.
    pub(super) high_watermark: Offset,
    /// The first offsets of the batches that the reader has not passed over.
    pub(super) returned: Vec<Offset>,
}

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // What it guards is right after each step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A process has become the producer of an id: those before it are fenced.
    pub(super) fn fence(&self, by: Producer) {
        let mut inner = self.lock();
        let newest = inner.newest.entry(by.id).or_insert(by.epoch);
        *newest = by.epoch.max(*newest);
    }

    /// Whether a later process is known to have begun.
    pub(super) fn is_fenced(&self, producer: Producer) -> bool {
        self.lock().newest.get(&producer.id).is_some_and(|newest| producer.epoch < *newest)
    }

    pub(super) fn begin(&self, number: u64, owner: usize) {
        let (batches, commits_offset) = (Vec::new(), false);
        let transaction = Transaction { owner, fate: Fate::NotAsked, batches, commits_offset };
        self.lock().transactions.insert(number, transaction);
    }

    fn change(&self, number: u64, change: impl FnOnce(&mut Transaction)) {
        let mut inner = self.lock();
        change(inner.transactions.get_mut(&number).expect("it was begun"));
    }

    /// Somebody is about to send a batch for the first time; whether his successor had begun before.
    pub(super) fn sends(&self, number: u64, place: Place, batch: &Batch, is_fenced: bool) {
        let content = Bytes::copy_from_slice(content(batch));
        self.change(number, |it| it.batches.push((place, content.clone())));
        let mut inner = self.lock();
        inner.batches.insert(content.clone(), number);
        if is_fenced {
            inner.fenced.insert(content);
        }
    }

    pub(super) fn commits_offset(&self, number: u64) {
        self.change(number, |it| it.commits_offset = true);
    }

    pub(super) fn settle(&self, number: u64, fate: Fate) {
        self.change(number, |it| it.fate = fate);
    }

    /// The transaction of a batch, and how far it is.
    pub(super) fn transaction_of(&self, batch: &Batch) -> Option<(u64, Fate)> {
        let inner = self.lock();
        let number = *inner.batches.get(content(batch))?;
        Some((number, inner.transactions.get(&number)?.fate))
    }

    /// Whether a batch was first sent by a producer that was fenced.
    pub(super) fn was_sent_fenced(&self, batch: &Batch) -> bool {
        self.lock().fenced.contains(content(batch))
    }

    pub(super) fn transaction(&self, number: u64) -> Option<Transaction> {
        self.lock().transactions.get(&number).cloned()
    }

    pub(super) fn transactions(&self) -> BTreeMap<u64, Transaction> {
        self.lock().transactions.clone()
    }

    /// A `read_committed` reader has got something.
    pub(super) fn has_read(&self, read: CommittedRead) {
        self.lock().reads.push(read);
    }

    pub(super) fn reads(&self) -> Vec<CommittedRead> {
        self.lock().reads.clone()
    }

    /// Somebody was told what a group has committed.
    pub(super) fn tell_offset(&self, owner: usize, offset: u64) {
        let mut inner = self.lock();
        let told = inner.told.entry(owner).or_default();
        *told = offset.max(*told);
    }

    pub(super) fn told_offset(&self, owner: usize) -> Option<u64> {
        self.lock().told.get(&owner).copied()
    }
}
