//! Random work on a compacted log with power cuts at any change of the disk, beside a model that
//! remembers every record.

use std::collections::BTreeMap;
use std::sync::Arc;

use logway_log::{
    CleanerMetrics, CleanerOptions, CleanupPolicy, Finding, Log, LogCleaner, LogConfig, LogDir,
};
use logway_model::{Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs};
use logway_record::{Batch, BatchBuilder, Compression, Record};

use crate::oracle::seeds;
use crate::support::*;

/// A record that was acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    key: Vec<u8>,
    value: Option<Vec<u8>>,
    timestamp: TimestampMs,
}

/// All that was ever acknowledged, by offset.
#[derive(Default)]
struct Model {
    records: BTreeMap<Offset, Known>,
    start: Offset,
    end: Offset,
    /// The records that a read has seen gone: they must stay gone.
    gone: BTreeMap<Offset, ()>,
}

struct World {
    seed: u64,
    random: Random,
    disk: TestDisk,
    dir: Arc<LogDir>,
    log: Arc<Log>,
    cleaner: LogCleaner,
    metrics: CleanerMetrics,
    model: Model,
    now_ms: i64,
    next_sequence: BTreeMap<i64, i32>,
    min_lag_ms: i64,
    /// With `compact,delete`.
    retention_ms: Option<i64>,
    rounds: u64,
}

const DELETE_RETENTION_MS: i64 = 300;

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random::new(seed);
        let min_lag_ms = [0, 0, 200][random.below(3)];
        let retention_ms = [None, None, Some(600)][random.below(3)];
        let config = LogConfig {
            cleanup: match retention_ms {
                Some(_) => CleanupPolicy::CompactAndDelete,
                None => CleanupPolicy::Compact,
            },
            min_cleanable_dirty_ratio: [0.0, 0.5][random.below(2)],
            min_compaction_lag_ms: min_lag_ms as u64,
            delete_retention_ms: DELETE_RETENTION_MS as u64,
            segment_bytes: 300 + random.below(2000) as u32,
            index_interval_bytes: [1, 200, 4096][random.below(3)],
            retention_ms: retention_ms.map(|ms| ms as u64),
            ..LogConfig::default()
        };
        let disk = TestDisk::new(seed).with_config(config);
        let (dir, log, cleaner, metrics) = open(&disk, &mut random);
        World {
            seed,
            random,
            disk,
            dir,
            log,
            cleaner,
            metrics,
            model: Model::default(),
            now_ms: NOW_MS,
            next_sequence: BTreeMap::new(),
            min_lag_ms,
            retention_ms,
            rounds: 0,
        }
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..55 => {
                let batch = self.some_batch();
                let future = self.log.append(append_of(batch.clone()));
                let outcome = future.wait().expect("the disk works");
                assert_eq!(outcome.base_offset, self.model.end, "seed {}", self.seed);
                self.note(&batch);
            }
            55..75 => self.clean(),
            75..80 => self.delete_records(),
            80..84 => {
                let elapsed_ms = self.random.below(2 * DELETE_RETENTION_MS as usize) as i64;
                self.advance(elapsed_ms);
            }
            84..88 => self.reopen_clean(),
            _ => self.crash(),
        }
    }

    fn advance(&mut self, elapsed_ms: i64) {
        self.now_ms += elapsed_ms;
        self.disk.clock.advance(elapsed_ms);
    }

    /// Records of few keys, now and then by an idempotent producer, compressed or not.
    fn some_batch(&mut self) -> Batch {
        self.advance(1);
        let codec = [Compression::None, Compression::Lz4, Compression::Zstd][self.random.below(3)];
        let mut builder = BatchBuilder::new(codec);
        let records = 1 + self.random.below(4);
        if self.random.below(3) == 0 {
            let id = self.random.below(3) as i64;
            let next = self.next_sequence.entry(id).or_default();
            builder = builder.with_producer(ProducerId(id), ProducerEpoch(0), Sequence(*next));
            *next += records as i32;
        }
        for _ in 0..records {
            let key = format!("key-{}", self.random.below(12));
            let value = vec![b'v'; self.random.below(60)];
            let value = (self.random.below(4) > 0).then_some(&value[..]);
            builder
                .append(TimestampMs(self.now_ms), Some(key.as_bytes()), value, &[])
                .expect("the record fits");
        }
        Batch::parse(builder.finish().expect("it is encoded")).expect("it is good")
    }

    fn note(&mut self, batch: &Batch) {
        let records = batch.records(logway_record::DecodeLimit::DEFAULT).expect("we made it");
        for record in records {
            let record: Record = record.expect("we made it");
            let key = record.key.expect("it has one").to_vec();
            let value = record.value.map(|value| value.to_vec());
            let known = Known { key, value, timestamp: record.timestamp };
            self.model.records.insert(self.model.end, known);
            self.model.end = self.model.end.next();
        }
    }

    fn clean(&mut self) {
        for _ in 0..3 {
            self.dir.enforce_retention().wait().expect("the writer lives");
        }
        let before = self.metrics.cleaned_bytes.get();
        self.cleaner.clean_due();
        self.rounds += u64::from(self.metrics.cleaned_bytes.get() > before);
        assert_eq!(self.metrics.failed_rounds.get(), 0, "seed {}", self.seed);
        self.check();
    }

    fn delete_records(&mut self) {
        self.check_start();
        let records = (self.model.end - self.model.start) as usize;
        let before = self.model.start + self.random.below(records / 3 + 1) as i64;
        let start = self.log.delete_records_before(before).wait().expect("it is in the log");
        assert_eq!(start, before, "seed {}", self.seed);
        self.model.start = before;
        self.check();
    }

    fn reopen_clean(&mut self) {
        self.dir.close().expect("the disk works");
        self.reopen();
        assert!(self.dir.recovery_report().was_clean, "seed {}", self.seed);
        self.check();
    }

    fn reopen(&mut self) {
        (self.dir, self.log, self.cleaner, self.metrics) = open(&self.disk, &mut self.random);
        let report = self.dir.recovery_report();
        let is_cut = |finding: &Finding| {
            matches!(finding, Finding::TailTruncated { .. } | Finding::SegmentRemoved { .. })
        };
        assert!(report.findings.iter().all(is_cut), "seed {}: {report:?}", self.seed);
        assert!(report.failed.is_empty(), "seed {}: {report:?}", self.seed);
    }

    /// Cuts the power while the log is appended to and cleaned.
    fn crash(&mut self) {
        for _ in 0..3 {
            self.dir.enforce_retention().wait().expect("the writer lives");
        }
        self.disk.fs.crash_at_change(1 + self.random.below(60) as u64);
        let batch = self.some_batch();
        let future = self.log.append(append_of(batch.clone()));
        self.cleaner.clean_due();
        let was_acknowledged = future.wait().is_ok();
        if was_acknowledged {
            self.note(&batch);
        }
        self.disk.fs = self.disk.fs.crash();
        while self.random.below(3) == 0 {
            // The power goes again while the directory is being opened.
            self.disk.fs.crash_at_change(1 + self.random.below(25) as u64);
            drop(self.disk.try_open());
            self.disk.fs = self.disk.fs.crash();
        }
        self.reopen();
        if self.log.log_end_offset() > self.model.end {
            assert!(!was_acknowledged, "seed {}", self.seed);
            self.note(&batch);
        } else if !was_acknowledged && batch.header().producer_id != ProducerId::NONE {
            // It sends the same again, some time.
            let next = self.next_sequence.entry(batch.header().producer_id.0).or_default();
            *next -= batch.header().record_count;
        }
        self.check();
    }

    /// Compares the log with the model.
    fn check(&mut self) {
        let seed = self.seed;
        let end = self.log.log_end_offset();
        assert_eq!(end, self.model.end, "seed {seed}");
        self.check_start();
        let records = read_records(&self.log, self.model.start);
        let newest = newest(&self.model.records);
        let mut next = self.model.start;
        let mut missing = Vec::new();
        for record in &records {
            assert!(record.offset >= next, "seed {seed}: the order of the log");
            missing.extend((next.0..record.offset.0).map(Offset));
            next = record.offset.next();
            let known = &self.model.records[&record.offset];
            let found = Known {
                key: record.key.as_deref().expect("it has one").to_vec(),
                value: record.value.as_deref().map(<[u8]>::to_vec),
                timestamp: record.timestamp,
            };
            assert_eq!(&found, known, "seed {seed}: at {}", record.offset);
            assert!(
                !self.model.gone.contains_key(&record.offset),
                "seed {seed}: {} was gone and is back",
                record.offset
            );
        }
        assert_eq!(next, end, "seed {seed}: the record before the end is always there");
        for offset in missing {
            let known = &self.model.records[&offset];
            let age_ms = self.now_ms - known.timestamp.0;
            let is_newest = newest[&known.key[..]] == offset;
            if is_newest {
                assert_eq!(known.value, None, "seed {seed}: {offset} is the last value of its key");
                assert!(
                    age_ms >= DELETE_RETENTION_MS,
                    "seed {seed}: tombstone {offset}, {age_ms} ms"
                );
            }
            assert!(age_ms >= self.min_lag_ms, "seed {seed}: {offset} is too young");
            self.model.gone.insert(offset, ());
        }
        // From every offset, the next record is found.
        let from =
            self.model.start + self.random.below((end - self.model.start) as usize + 1) as i64;
        let found = read_records(&self.log, from).first().map(|record| record.offset);
        let expected = records.iter().map(|record| record.offset).find(|offset| *offset >= from);
        assert_eq!(found, expected, "seed {seed}: from {from}");
    }

    /// What retention has dropped was old enough, and stays away.
    fn check_start(&mut self) {
        let (seed, start) = (self.seed, self.log.log_start_offset());
        assert!(start >= self.model.start, "seed {seed}: {start}");
        let newest = newest(&self.model.records);
        for (offset, known) in self.model.records.range(self.model.start..start) {
            let age_ms = self.now_ms - known.timestamp.0;
            let is_old = self.retention_ms.is_some_and(|retention_ms| age_ms >= retention_ms);
            // Compaction may have been first.
            let is_needed = newest[&known.key[..]] == *offset && known.value.is_some();
            assert!(is_old || !is_needed, "seed {seed}: {offset} was dropped after {age_ms} ms");
        }
        self.model.start = start;
    }

    /// No producer has to begin anew, whatever went.
    fn check_producers(&self) {
        let producers = self.log.producers().wait().expect("the writer lives");
        for (id, state) in producers {
            let next = self.next_sequence[&id.0];
            assert_eq!(state.next_sequence(), Sequence(next), "seed {}: producer {id}", self.seed);
        }
    }
}

/// The newest record of each key.
fn newest(records: &BTreeMap<Offset, Known>) -> BTreeMap<&[u8], Offset> {
    records.iter().map(|(offset, known)| (&known.key[..], *offset)).collect()
}

fn open(
    disk: &TestDisk,
    random: &mut Random,
) -> (Arc<LogDir>, Arc<Log>, LogCleaner, CleanerMetrics) {
    let dir = Arc::new(disk.open());
    let log = disk.log(&dir);
    log.set_config(Arc::new(disk.config.clone()));
    let keys_bytes_max = [0, 1 << 20][random.below(2)];
    let options = CleanerOptions { keys_bytes_max, ..CleanerOptions::default() };
    let metrics = CleanerMetrics::new();
    let cleaner = LogCleaner::new(options, metrics.clone());
    cleaner.watch(&dir);
    (dir, log, cleaner, metrics)
}

#[test]
fn a_compacted_log_is_as_its_model_whatever_crashes_when() {
    let mut rounds = 0;
    for seed in seeds(80) {
        let mut world = World::new(seed);
        for _ in 0..80 {
            world.step();
        }
        world.clean();
        world.check_producers();
        rounds += world.rounds;
    }
    assert!(rounds > 100, "only {rounds} rounds have cleaned anything");
}
