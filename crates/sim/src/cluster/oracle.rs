//! What was promised about the records of a cluster.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use logway_model::{LeaderEpoch, Offset};
use logway_record::Batch;

use super::report::ClusterReport;
use crate::batch::content;
use crate::violation::Violation;

/// One partition of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place {
    pub(super) topic: &'static str,
    pub(super) partition: i32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// Remembers what was acknowledged, and what readers have seen. Clones are the same oracle.
#[derive(Clone, Default)]
pub(super) struct Oracle(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    partitions: BTreeMap<Place, Partition>,
    violation: Option<Violation>,
    may_disks_fail: bool,
    report: ClusterReport,
}

/// What is known of one partition.
#[derive(Default)]
struct Partition {
    /// What is promised about it can be kept in this world.
    is_kept: bool,
    /// Each batch that somebody has sent, by all of it that no log changes.
    sent: HashMap<Bytes, Sent>,
    /// What was acknowledged or seen, by the offset of its first record.
    known: BTreeMap<Offset, Known>,
}

/// A batch that somebody has sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    pub(super) number: u64,
    /// It is sent until it is acknowledged, and then it is there once.
    pub(super) is_idempotent: bool,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    number: u64,
    last: Offset,
    /// Who is acknowledged is not told the epoch.
    epoch: Option<LeaderEpoch>,
    by: By,
}

/// How something is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Acknowledgement,
    Reader,
}

/// A batch as it is in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) base: Offset,
    pub(super) last: Offset,
    pub(super) epoch: LeaderEpoch,
    pub(super) content: Bytes,
}

impl Stored {
    pub(super) fn of(batch: &Batch) -> Stored {
        Stored {
            base: batch.base_offset(),
            last: batch.last_offset(),
            epoch: batch.header().leader_epoch,
            content: Bytes::copy_from_slice(content(batch)),
        }
    }
}

impl Oracle {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // What it guards is right after each step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, place: Place, is_kept: bool) {
        let partition = Partition { is_kept, ..Partition::default() };
        self.lock().partitions.insert(place, partition);
    }

    /// Whether the promises about a partition can be kept in this world.
    pub(super) fn is_kept(&self, place: Place) -> bool {
        self.lock().partitions.get(&place).is_some_and(|partition| partition.is_kept)
    }

    /// A promise is broken. The first one counts.
    pub(super) fn violated(&self, what: String) {
        tracing::error!(what, "a promise is broken");
        self.lock().violation.get_or_insert(Violation::new(what));
    }

    pub(super) fn check(&self) -> Result<(), Violation> {
        match &self.lock().violation {
            Some(violation) => Err(violation.clone()),
            None => Ok(()),
        }
    }

    /// From now on nodes may fail because their disks do, or not any more.
    pub(super) fn let_disks_fail(&self, may_fail: bool) {
        self.lock().may_disks_fail = may_fail;
    }

    /// A node has ended by itself. That is right only if its disk has failed.
    pub(super) fn node_failed(&self, number: usize, why: &str) {
        let may_fail = self.lock().may_disks_fail;
        if !may_fail {
            self.violated(format!("node {number}, whose disk works: {why}"));
        }
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut ClusterReport)) {
        count(&mut self.lock().report);
    }

    pub(super) fn report(&self) -> ClusterReport {
        self.lock().report
    }

    /// The exclusive end of what was acknowledged or read.
    pub(super) fn promised_end(&self, place: Place) -> Offset {
        let inner = self.lock();
        let known = inner.partitions.get(&place).and_then(|it| it.known.last_key_value());
        known.map_or(Offset::ZERO, |(_, known)| known.last.next())
    }

    /// Somebody is about to send a batch.
    pub(super) fn sent(&self, place: Place, batch: &Batch, sent: Sent) {
        let content = Bytes::copy_from_slice(content(batch));
        let mut inner = self.lock();
        let partition = inner.partitions.entry(place).or_default();
        let before = partition.sent.insert(content, sent);
        assert!(before.is_none(), "no two batches are equal");
    }

    /// A batch was acknowledged by all replicas in sync.
    pub(super) fn acknowledged(&self, place: Place, number: u64, base: Offset, last: Offset) {
        let known = Known { number, last, epoch: None, by: By::Acknowledgement };
        self.learn(place, base, known);
        self.count(|report| report.acknowledged += 1);
    }

    /// A reader has got a batch.
    pub(super) fn seen(&self, place: Place, stored: &Stored) {
        let number = self.number_of(place, stored);
        let Some(number) = number else {
            let (base, epoch) = (stored.base, stored.epoch.0);
            let what = format!("a reader got what nobody has sent at {base} of epoch {epoch}");
            return self.violated(format!("{place}: {what}"));
        };
        let (last, epoch) = (stored.last, Some(stored.epoch));
        self.learn(place, stored.base, Known { number, last, epoch, by: By::Reader });
        self.count(|report| report.seen += 1);
    }

    fn number_of(&self, place: Place, stored: &Stored) -> Option<u64> {
        let inner = self.lock();
        Some(inner.partitions.get(&place)?.sent.get(&stored.content)?.number)
    }

    /// What is known once is so for ever.
    fn learn(&self, place: Place, base: Offset, known: Known) {
        let mut broken = None;
        {
            let mut inner = self.lock();
            let partition = inner.partitions.entry(place).or_default();
            if !partition.is_kept {
                return;
            }
            let before = partition.known.get(&base).copied();
            let overlapped = partition.known.range(..=known.last).next_back();
            match before {
                Some(before) if !agree(before, known) => {
                    broken = Some(format!("at {base} was {before}, and now is {known}"));
                }
                Some(before) => {
                    let epoch = before.epoch.or(known.epoch);
                    partition.known.insert(base, Known { epoch, ..before });
                }
                None => {
                    if let Some((other, of)) = overlapped
                        && of.last >= base
                    {
                        broken = Some(format!("at {other} was {of}, and now at {base} is {known}"));
                    }
                    partition.known.insert(base, known);
                }
            }
        }
        if let Some(what) = broken {
            self.violated(format!("{place}: {what}"));
        }
    }

    /// Compares a log, at the end of the world, with all that was promised of it.
    pub(super) fn check_log(&self, place: Place, log: &[Stored]) -> Result<(), Violation> {
        let inner = self.lock();
        let Some(partition) = inner.partitions.get(&place) else { return Ok(()) };
        let broken = |what: String| Err(Violation::new(format!("{place}: {what}")));
        let mut next = Offset::ZERO;
        let mut found: BTreeMap<Offset, (u64, &Stored)> = BTreeMap::new();
        let mut offsets: HashMap<u64, Offset> = HashMap::new();
        for stored in log {
            if stored.base != next {
                return broken(format!("at the end {next} is followed by {}", stored.base));
            }
            next = stored.last.next();
            let Some(sent) = partition.sent.get(&stored.content) else {
                return broken(format!("at the end {} is what nobody has sent", stored.base));
            };
            found.insert(stored.base, (sent.number, stored));
            let before = offsets.insert(sent.number, stored.base);
            if let (Some(before), true) = (before, sent.is_idempotent && partition.is_kept) {
                let (number, base) = (sent.number, stored.base);
                return broken(format!("batch {number} is there twice, at {before} and {base}"));
            }
        }
        if !partition.is_kept {
            return Ok(());
        }
        for (base, known) in &partition.known {
            match found.get(base) {
                Some((number, stored))
                    if *number == known.number
                        && stored.last == known.last
                        && known.epoch.is_none_or(|epoch| epoch == stored.epoch) => {}
                Some((number, stored)) => {
                    let epoch = stored.epoch.0;
                    let now = format!("batch {number} of epoch {epoch}");
                    return broken(format!("at {base} was {known}, and at the end {now}"));
                }
                None => {
                    return broken(format!("at {base} was {known}, and the log ends at {next}"));
                }
            }
        }
        Ok(())
    }
}

fn agree(before: Known, now: Known) -> bool {
    let is_same_epoch = match (before.epoch, now.epoch) {
        (Some(before), Some(now)) => before == now,
        _ => true,
    };
    before.number == now.number && before.last == now.last && is_same_epoch
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "batch {} up to {}", self.number, self.last)?;
        if let Some(epoch) = self.epoch {
            write!(f, " of epoch {}", epoch.0)?;
        }
        f.write_str(match self.by {
            By::Acknowledgement => ", acknowledged",
            By::Reader => ", seen by a reader",
        })
    }
}
