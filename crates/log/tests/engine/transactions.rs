//! What `read_committed` readers see of a log, beside a model that remembers everything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use logway_log::AppendOutcome;
use logway_log::{AppendBatches, AppendOrigin, Log, LogConfig, LogDir, LogError, ReadRequest};
use logway_model::{
    LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs, TransactionVersion,
};
use logway_record::{
    Batch, BatchBuilder, Batches, Compression, DecodeLimit, TransactionMarker, TransactionOutcome,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::*;

const PRODUCERS: usize = 4;

/// Markers with the epoch of the records.
const V0: TransactionVersion = TransactionVersion(0);
/// Markers with the next epoch.
const V2: TransactionVersion = TransactionVersion(2);

pub(crate) fn data(
    producer: i64,
    epoch: i16,
    sequence: i32,
    is_transactional: bool,
    value: &str,
) -> Batch {
    let builder = BatchBuilder::new(Compression::None);
    let attributes = builder.attributes().with_transactional(is_transactional);
    let mut builder = builder.with_attributes(attributes).with_producer(
        ProducerId(producer),
        ProducerEpoch(epoch),
        Sequence(sequence),
    );
    builder.append(TimestampMs(NOW_MS), Some(b"k"), Some(value.as_bytes()), &[]).expect("it fits");
    Batch::parse(builder.finish().expect("it has a record")).expect("it is a batch")
}

pub(crate) fn marker(producer: i64, epoch: i16, outcome: TransactionOutcome) -> Batch {
    let marker = TransactionMarker { outcome, coordinator_epoch: 1 };
    marker.batch(ProducerId(producer), ProducerEpoch(epoch), TimestampMs(NOW_MS))
}

fn outcome_of(is_commit: bool) -> TransactionOutcome {
    if is_commit { TransactionOutcome::Commit } else { TransactionOutcome::Abort }
}

/// What a consumer with `read_committed` makes of what it fetches, in pieces of so many bytes, up to the last stable
/// offset: as Kafka's own, it goes by the list of aborted transactions and by markers.
pub(crate) fn consume(log: &Log, from: Offset, stable: Offset, max_bytes: u64) -> Vec<String> {
    let mut seen = Vec::new();
    let mut offset = from;
    loop {
        let at_least_one_batch = true;
        let request = ReadRequest { offset, max_bytes, upper_bound: stable, at_least_one_batch };
        let found = log.read_committed(request).expect("it is read");
        if found.slice.is_empty() {
            return seen;
        }
        let mut to_come: BTreeMap<Offset, Vec<ProducerId>> = BTreeMap::new();
        for aborted in &found.aborted {
            to_come.entry(aborted.first).or_default().push(aborted.producer_id);
        }
        let mut passed_over = BTreeSet::new();
        for batch in Batches::new(found.slice.read().expect("it is read")) {
            let batch = batch.expect("it is whole");
            let behind = to_come.split_off(&batch.last_offset().next());
            passed_over.extend(std::mem::replace(&mut to_come, behind).into_values().flatten());
            let (attributes, producer) = (batch.header().attributes, batch.header().producer_id);
            if attributes.is_control() {
                let marker = TransactionMarker::of(&batch).expect("it is good");
                if marker.is_some_and(|it| it.outcome == TransactionOutcome::Abort) {
                    passed_over.remove(&producer);
                }
                continue;
            }
            if attributes.is_transactional() && passed_over.contains(&producer) {
                continue;
            }
            for record in batch.records(DecodeLimit::DEFAULT).expect("it decodes") {
                let record = record.expect("it is good");
                if record.offset >= offset {
                    let value = record.value.expect("it has one").to_vec();
                    seen.push(String::from_utf8(value).expect("it is text"));
                }
            }
        }
        offset = found.slice.next_offset;
    }
}

/// A batch of the model, of one record.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    Data { producer: Option<i64>, is_transactional: bool, value: String },
    Marker { producer: i64, is_commit: bool },
}

/// A transaction of the model.
#[derive(Debug, Clone, Copy)]
struct Transaction {
    producer: i64,
    first: i64,
    /// Where its marker is, and whether it commits.
    end: Option<(i64, bool)>,
}

/// Everything that was appended and not cut off; the place of an entry is its offset.
#[derive(Debug, Default)]
struct Model {
    entries: Vec<Entry>,
    log_start: i64,
    high_watermark: i64,
    /// Until the high watermark is here, nobody knows what is committed: the start before knew no high watermark.
    unknown_until: Option<i64>,
    is_high_watermark_said: bool,
    is_high_watermark_written: bool,
}

impl Model {
    fn end(&self) -> i64 {
        self.entries.len() as i64
    }

    fn transactions(&self) -> Vec<Transaction> {
        let mut all: Vec<Transaction> = Vec::new();
        for (offset, entry) in self.entries.iter().enumerate() {
            let offset = offset as i64;
            match entry {
                Entry::Data { producer: Some(producer), is_transactional: true, .. } => {
                    let is_open = |it: &Transaction| it.producer == *producer && it.end.is_none();
                    if !all.iter().any(is_open) {
                        let (producer, first) = (*producer, offset);
                        all.push(Transaction { producer, first, end: None });
                    }
                }
                Entry::Marker { producer, is_commit } => {
                    let is_open =
                        |it: &&mut Transaction| it.producer == *producer && it.end.is_none();
                    if let Some(open) = all.iter_mut().find(is_open) {
                        open.end = Some((offset, *is_commit));
                    }
                }
                Entry::Data { .. } => {}
            }
        }
        all
    }

    fn is_open(&self, producer: i64) -> bool {
        self.transactions().iter().any(|it| it.producer == producer && it.end.is_none())
    }

    /// The last stable offset; and the latest one that a log may have that has lost the beginnings of transactions before
    /// its start.
    fn stable(&self) -> (i64, i64) {
        let high_watermark = self.high_watermark;
        if self.unknown_until.is_some_and(|end| high_watermark < end) {
            return (self.log_start, high_watermark);
        }
        let is_unstable = |it: &&Transaction| it.end.is_none_or(|(end, _)| end >= high_watermark);
        let all = self.transactions();
        let first = all.iter().filter(is_unstable).map(|it| it.first).min();
        let left = |it: &Transaction| {
            let end = it.end.map_or(self.end(), |(end, _)| end);
            (it.first.max(self.log_start)..end).find(|offset| {
                let entry = &self.entries[*offset as usize];
                matches!(entry, Entry::Data { producer: Some(producer), .. } if *producer == it.producer)
            })
        };
        let latest = all.iter().filter(is_unstable).filter_map(left).min();
        let bounded = |offset: Option<i64>| {
            offset.unwrap_or(high_watermark).clamp(self.log_start, high_watermark)
        };
        (bounded(first), bounded(latest))
    }

    fn visible(&self, from: i64, stable: i64) -> Vec<String> {
        let all = self.transactions();
        let is_visible = |offset: i64, producer: Option<i64>, is_transactional: bool| {
            !is_transactional
                || all.iter().any(|it| {
                    let end = it.end.filter(|(_, is_commit)| *is_commit).map(|(end, _)| end);
                    Some(it.producer) == producer
                        && end.is_some_and(|end| (it.first..end).contains(&offset))
                })
        };
        let entries = self.entries.iter().enumerate().map(|(offset, entry)| (offset as i64, entry));
        let entries = entries.filter(|(offset, _)| (from..stable).contains(offset));
        let values = entries.filter_map(|(offset, entry)| match entry {
            Entry::Data { producer, is_transactional, value } => {
                is_visible(offset, *producer, *is_transactional).then(|| value.clone())
            }
            Entry::Marker { .. } => None,
        });
        values.collect()
    }
}

/// What a producer sends next, as its log knows it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Producer {
    epoch: i16,
    sequence: i32,
}

/// A log beside its model.
struct Bench {
    disk: Option<TestDisk>,
    dir: Option<LogDir>,
    log: Arc<Log>,
    model: Model,
    /// After each entry: a truncation takes producers back, too.
    producers: Vec<[Producer; PRODUCERS]>,
    epoch: i32,
    steps: usize,
}

impl Bench {
    fn new(seed: u64) -> Bench {
        let config =
            LogConfig { segment_bytes: 700, index_interval_bytes: 100, ..LogConfig::default() };
        let disk = TestDisk::new(seed).with_config(config);
        let dir = disk.open();
        let log = disk.log(&dir);
        let (model, producers) = (Model::default(), Vec::new());
        Bench { disk: Some(disk), dir: Some(dir), log, model, producers, epoch: 3, steps: 0 }
    }

    fn append(&self, batch: Batch, origin: AppendOrigin) -> Result<AppendOutcome, LogError> {
        let batches = AppendBatches::new(vec![batch], LeaderEpoch(self.epoch));
        self.log.append(AppendBatches { origin, ..batches }).wait()
    }

    fn known(&self) -> [Producer; PRODUCERS] {
        self.producers.last().copied().unwrap_or_default()
    }

    fn put(
        &mut self,
        batch: Batch,
        origin: AppendOrigin,
        entry: Entry,
        known: [Producer; PRODUCERS],
    ) {
        let outcome = self.append(batch, origin).expect("it is in order");
        assert_eq!(outcome.base_offset, Offset(self.model.end()));
        self.model.entries.push(entry);
        self.producers.push(known);
    }

    fn data(&mut self, number: usize, is_transactional: bool) {
        let mut known = self.known();
        let Producer { epoch, sequence } = known[number];
        self.steps += 1;
        let value = format!("{}-{number}", self.steps);
        let batch = data(number as i64, epoch, sequence, is_transactional, &value);
        let producer = Some(number as i64);
        if self.model.is_open(number as i64) && !is_transactional {
            let error = self.append(batch, AppendOrigin::Client).expect_err("one is open");
            assert!(matches!(error, LogError::TransactionOpen { .. }), "{error}");
            return;
        }
        known[number].sequence += 1;
        let entry = Entry::Data { producer, is_transactional, value };
        let origin = match is_transactional {
            true => AppendOrigin::Coordinator,
            false => AppendOrigin::Client,
        };
        self.put(batch, origin, entry, known);
    }

    fn plain(&mut self) {
        self.steps += 1;
        let value = format!("{}-plain", self.steps);
        let entry = Entry::Data { producer: None, is_transactional: false, value: value.clone() };
        let known = self.known();
        self.put(batch_of_values(&[&value]), AppendOrigin::Client, entry, known);
    }

    fn end(&mut self, number: usize, is_commit: bool, version: TransactionVersion) {
        let mut known = self.known();
        let producer = number as i64;
        if version == V2 {
            known[number] = Producer { epoch: known[number].epoch + 1, sequence: 0 };
        }
        let batch = marker(producer, known[number].epoch, outcome_of(is_commit));
        let entry = Entry::Marker { producer, is_commit };
        self.put(batch, AppendOrigin::Markers(version), entry, known);
    }

    fn reopen(&mut self, how: u8) {
        let dir = self.dir.take().expect("it is open");
        let disk = self.disk.take().expect("it is there");
        let disk = match how {
            0 => {
                dir.close().expect("it closes");
                self.model.is_high_watermark_written |= self.model.is_high_watermark_said;
                disk
            }
            1 => {
                drop(dir);
                disk.kill()
            }
            _ => {
                drop(dir);
                disk.crash()
            }
        };
        let dir = disk.open();
        self.log = disk.log(&dir);
        assert_eq!(self.log.log_end_offset(), Offset(self.model.end()), "all was durable");
        self.model.is_high_watermark_said = self.model.is_high_watermark_written;
        self.model.unknown_until = None;
        let has_markers = self.model.entries.iter().any(|it| matches!(it, Entry::Marker { .. }));
        if !self.model.is_high_watermark_written && has_markers {
            self.model.unknown_until = Some(self.model.end());
        }
        (self.dir, self.disk) = (Some(dir), Some(disk));
    }

    fn truncate(&mut self, share: u8) {
        let (floor, end) = (self.model.high_watermark.max(self.model.log_start), self.model.end());
        let cut = floor + (end - floor) * i64::from(share) / 255;
        self.epoch += 1;
        let dir = self.dir.as_ref().expect("it is open");
        let kept = dir.truncate_to(&self.log, Offset(cut), LeaderEpoch(self.epoch));
        assert_eq!(kept.expect("the disk works"), Offset(cut));
        self.model.entries.truncate(cut as usize);
        self.producers.truncate(cut as usize);
        self.model.unknown_until = self.model.unknown_until.map(|until| until.min(cut));
    }

    fn delete(&mut self, share: u8) {
        let Model { log_start, high_watermark, .. } = self.model;
        let before = log_start + (high_watermark - log_start) * i64::from(share) / 255;
        self.log.delete_records_before(Offset(before)).wait().expect("the disk works");
        self.model.log_start = before;
    }

    fn raise_high_watermark(&mut self, share: u8) {
        let (from, end) = (self.model.high_watermark, self.model.end());
        self.model.high_watermark = from + (end - from) * i64::from(share) / 255;
        self.log.set_high_watermark(Offset(self.model.high_watermark));
        self.model.is_high_watermark_said = true;
    }

    fn check(&self, from_share: u8, max_bytes: u64) {
        let stable = self.log.last_stable_offset(Offset(self.model.high_watermark));
        let (least, most) = self.model.stable();
        assert!((least..=most).contains(&stable.0), "{stable} is not {least} to {most}");
        if self.model.log_start == 0 && self.model.unknown_until.is_none() {
            assert_eq!(stable.0, least);
        }
        let log_start = self.model.log_start;
        let from = log_start + (stable.0 - log_start) * i64::from(from_share) / 255;
        let seen = consume(&self.log, Offset(from), stable, max_bytes);
        assert_eq!(seen, self.model.visible(from, stable.0), "from {from} to {stable}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    /// Whatever happens to a log, a `read_committed` reader sees what the model says: no record of an aborted transaction, none
    /// of one that may yet be aborted, and all others.
    #[test]
    fn a_committed_reader_sees_what_the_model_says(
        seed in any::<u64>(),
        steps in vec((0..100u8, 0..PRODUCERS, any::<bool>(), any::<u8>()), 1..120),
    ) {
        let mut bench = Bench::new(seed);
        for (kind, number, coin, share) in steps {
            match kind {
                0..40 => bench.data(number, true),
                40..50 => bench.data(number, false),
                50..56 => bench.plain(),
                56..74 => {
                    bench.end(number, coin, if share < 128 { V0 } else { V2 });
                }
                74..86 => bench.raise_high_watermark(share),
                86..92 => bench.reopen(share % 3),
                92..97 => bench.truncate(share),
                _ => bench.delete(share),
            }
            bench.check(share, if coin { 150 } else { u64::MAX });
        }
        bench.raise_high_watermark(255);
        bench.check(0, u64::MAX);
        bench.reopen(0);
        bench.check(0, u64::MAX);
    }
}

#[test]
fn a_marker_that_is_copied_ends_what_was_verified() {
    let bench = Bench::new(1);
    let (producer, epoch) = (ProducerId(7), ProducerEpoch(0));
    let guard = bench.log.begin_verification(producer, epoch, Sequence(0), false);
    let guard = guard.expect("there is room");
    bench.log.vouch(producer, guard, 9);
    let origin = AppendOrigin::Verified(guard);
    // Another broker led meanwhile, and ended the transaction.
    let copied = vec![marker(7, 0, TransactionOutcome::Abort)];
    bench.log.append_copied(copied).wait().expect("is written");
    let late = bench.append(data(7, 0, 0, true, "late"), origin);
    assert!(matches!(late, Err(LogError::UnverifiedTransaction { .. })), "{late:?}");
    assert!(!bench.log.has_open_transaction(producer, epoch));
}
