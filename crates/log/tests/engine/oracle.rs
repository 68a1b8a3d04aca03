//! Random work on a log, beside a model of it that is a list in memory.

use std::sync::Arc;

use logway_log::{AppendFuture, Finding, Log, LogConfig, LogDir, ReadRequest};
use logway_model::{Offset, TimestampMs};
use logway_record::{BATCH_HEADER_BYTES, Batch, DecodeLimit};

use crate::support::*;

/// What the log should be: all batches that were ever acknowledged, by offset.
#[derive(Default)]
struct Model {
    start: Offset,
    end: Offset,
    batches: Vec<ModelBatch>,
}

struct ModelBatch {
    base: Offset,
    last: Offset,
    sent: Batch,
}

impl Model {
    fn push(&mut self, sent: Batch) {
        let base = self.end;
        let last = base + i64::from(sent.header().last_offset_delta);
        self.batches.push(ModelBatch { base, last, sent });
        self.end = last.next();
    }

    /// Loses what is at or behind `end`.
    fn truncate(&mut self, end: Offset) {
        self.batches.retain(|batch| batch.last < end);
        self.end = end;
    }

    /// The batches that a read must return, exactly.
    fn read(&self, request: &ReadRequest) -> Vec<&ModelBatch> {
        let mut bytes_left = request.max_bytes;
        let mut found: Vec<&ModelBatch> = Vec::new();
        let from = self.batches.iter().filter(|batch| batch.last >= request.offset);
        for batch in from.take_while(|batch| batch.last < request.upper_bound) {
            let size_bytes = batch.sent.size_bytes() as u64;
            let is_free = found.is_empty() && request.at_least_one_batch;
            if size_bytes > bytes_left && !is_free {
                break;
            }
            bytes_left = bytes_left.saturating_sub(size_bytes);
            found.push(batch);
        }
        found
    }

    fn timestamps(&self) -> impl Iterator<Item = (Offset, TimestampMs)> {
        let records = self.batches.iter().flat_map(|batch| {
            let records = batch.sent.records(DecodeLimit::DEFAULT).expect("we made it");
            let base = batch.base;
            records.map(move |record| {
                let record = record.expect("we made it");
                (base + record.offset.0, record.timestamp)
            })
        });
        records.filter(|(offset, _)| *offset >= self.start)
    }
}

/// A log and its model, and what makes them work.
struct World {
    seed: u64,
    random: Random,
    disk: TestDisk,
    dir: LogDir,
    log: Arc<Log>,
    model: Model,
    now_ms: i64,
    is_durable: bool,
}

const RETENTION_MS: i64 = 5000;

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random::new(seed);
        let is_durable = random.below(3) > 0;
        let config = LogConfig {
            flush_messages: if is_durable { 1 } else { 10 + random.below(40) as u64 },
            segment_bytes: 1500 + random.below(8000) as u32,
            index_interval_bytes: [1, 200, 4096][random.below(3)],
            segment_ms: [500, 1 << 40][random.below(2)],
            retention_ms: Some(RETENTION_MS as u64),
            ..LogConfig::default()
        };
        let disk = TestDisk::new(seed).with_config(config);
        let dir = disk.open();
        let log = disk.log(&dir);
        let model = Model::default();
        World { seed, random, disk, dir, log, model, now_ms: NOW_MS, is_durable }
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..45 => self.append(),
            45..70 => self.read(),
            70..78 => self.look_up(),
            78..83 => self.delete_records(),
            83..88 => self.retain(),
            88..91 => self.reopen_clean(),
            91..94 => self.reopen_dropped(),
            _ => self.crash(),
        }
        self.check_offsets();
    }

    fn some_batch(&mut self) -> Batch {
        let records = 1 + self.random.below(5);
        let value_bytes = match self.random.below(10) {
            0 => 4000 + self.random.below(2000),
            _ => self.random.below(400),
        };
        let timestamps: Vec<i64> =
            (0..records).map(|_| self.now_ms - self.random.below(50) as i64).collect();
        batch_at(&timestamps, value_bytes)
    }

    /// Appends some batches at once and waits for all.
    fn append(&mut self) {
        self.now_ms += 20;
        self.disk.clock.advance(20);
        for (sent, future) in self.start_appends() {
            let outcome = future.wait().expect("the disk works");
            assert_eq!(outcome.base_offset, self.model.end, "seed {}", self.seed);
            self.model.push(sent);
            assert_eq!(outcome.last_offset.next(), self.model.end, "seed {}", self.seed);
        }
    }

    fn start_appends(&mut self) -> Vec<(Batch, AppendFuture)> {
        let count = 1 + self.random.below(4);
        let batches: Vec<Batch> = (0..count).map(|_| self.some_batch()).collect();
        let is_inline = self.random.below(2) == 0;
        let start = |batch: Batch| match is_inline {
            true => (batch.clone(), append_inline(&self.log, batch)),
            false => (batch.clone(), self.log.append(append_of(batch))),
        };
        batches.into_iter().map(start).collect()
    }

    fn some_offset(&mut self) -> Offset {
        let records = (self.model.end - self.model.start) as usize;
        self.model.start + self.random.below(records + 1) as i64
    }

    fn read(&mut self) {
        let request = ReadRequest {
            offset: self.some_offset(),
            max_bytes: [1 << 40, 20_000, 3000, 100][self.random.below(4)],
            upper_bound: match self.random.below(3) {
                0 => self.some_offset(),
                1 => self.model.end,
                _ => Offset(i64::MAX),
            },
            at_least_one_batch: self.random.below(2) == 0,
        };
        self.check_read(&request);
    }

    fn check_read(&self, request: &ReadRequest) {
        let context = format!("seed {}, {request:?}", self.seed);
        let expected = self.model.read(request);
        let slice = self.log.read(*request).expect("the offset is in the log");
        let next_offset = expected.last().map_or(request.offset, |batch| batch.last.next());
        assert_eq!(slice.next_offset, next_offset, "{context}");
        let bytes = slice.read().expect("what was found can be read");
        let found: Vec<Batch> = logway_record::Batches::new(bytes)
            .map(|batch| batch.unwrap_or_else(|error| panic!("{context}: {error}")))
            .collect();
        let bases = |found: &[Batch]| -> Vec<i64> {
            found.iter().map(|batch| batch.base_offset().0).collect()
        };
        let expected_bases: Vec<i64> = expected.iter().map(|batch| batch.base.0).collect();
        assert_eq!(bases(&found), expected_bases, "{context}");
        for (found, expected) in found.iter().zip(expected) {
            assert_eq!(found.base_offset(), expected.base, "{context}");
            assert_eq!(found.header().leader_epoch, EPOCH, "{context}");
            let fixed = |batch: &Batch| batch.bytes().slice(BATCH_HEADER_BYTES - 44..);
            assert_eq!(fixed(found), fixed(&expected.sent), "{context}");
        }
    }

    fn look_up(&mut self) {
        let target = TimestampMs(self.now_ms - self.random.below(3000) as i64);
        let bound = self.some_offset();
        let visible = || self.model.timestamps().filter(|(offset, _)| *offset < bound);
        let expected = visible().find(|(_, timestamp)| *timestamp >= target);
        let found = self
            .log
            .offset_for_timestamp(target, bound, DecodeLimit::DEFAULT)
            .expect("the log is whole");
        let found = found.found.map(|found| (found.offset, found.timestamp));
        assert_eq!(found, expected, "seed {}, {target} before {bound}", self.seed);

        let largest = visible().map(|(_, timestamp)| timestamp).max();
        let expected = visible().find(|(_, timestamp)| Some(*timestamp) == largest);
        let found =
            self.log.max_timestamp_offset(bound, DecodeLimit::DEFAULT).expect("the log is whole");
        let found = found.found.map(|found| (found.offset, found.timestamp));
        assert_eq!(found, expected, "seed {}, largest before {bound}", self.seed);
    }

    fn delete_records(&mut self) {
        let records = (self.model.end - self.model.start) as usize;
        let before = self.model.start + self.random.below(records / 3 + 1) as i64;
        let start = self.log.delete_records_before(before).wait().expect("it is in the log");
        assert_eq!(start, before, "seed {}", self.seed);
        self.model.start = before;
    }

    fn retain(&mut self) {
        let elapsed_ms = self.random.below(2 * RETENTION_MS as usize) as i64;
        self.now_ms += elapsed_ms;
        self.disk.clock.advance(elapsed_ms);
        self.dir.enforce_retention().wait().expect("the writer lives");
        let start = self.log.log_start_offset();
        assert!(start >= self.model.start, "seed {}", self.seed);
        let oldest_kept = TimestampMs(self.now_ms - RETENTION_MS);
        let wrongly_deleted = self
            .model
            .timestamps()
            .find(|(offset, timestamp)| *offset < start && *timestamp >= oldest_kept);
        assert_eq!(wrongly_deleted, None, "seed {}", self.seed);
        let is_all_old = self.model.timestamps().all(|(_, timestamp)| timestamp < oldest_kept);
        if is_all_old && self.is_durable {
            assert_eq!(start, self.model.end, "seed {}", self.seed);
        }
        self.model.start = start;
    }

    fn reopen_clean(&mut self) {
        self.dir.close().expect("the disk works");
        self.reopen();
        assert!(self.dir.recovery_report().was_clean, "seed {}", self.seed);
    }

    /// As when the process is killed: what was written is in the page cache.
    fn reopen_dropped(&mut self) {
        let other = TestDisk::new(0).open();
        drop(std::mem::replace(&mut self.dir, other));
        self.reopen();
    }

    fn reopen(&mut self) {
        self.dir = self.disk.open();
        let report = self.dir.recovery_report();
        assert!(report.findings.is_empty(), "seed {}: {report:?}", self.seed);
        self.log = self.disk.log(&self.dir);
    }

    /// Cuts the power while appends are under way. What was acknowledged by a durable log, and
    /// what was flushed of another, must come back; of the rest, a beginning may.
    fn crash(&mut self) {
        self.disk.fs.crash_at_change(1 + self.random.below(12) as u64);
        let mut in_doubt = Vec::new();
        for (sent, future) in self.start_appends() {
            match future.wait() {
                Ok(outcome) => {
                    assert!(in_doubt.is_empty(), "seed {}: out of order", self.seed);
                    assert_eq!(outcome.base_offset, self.model.end, "seed {}", self.seed);
                    self.model.push(sent);
                }
                Err(_) => in_doubt.push(sent),
            }
        }
        let flushed = self.log.flushed_offset();
        let safe_end = if self.is_durable { self.model.end } else { flushed };
        self.disk.fs = self.disk.fs.crash();
        while self.random.below(3) == 0 {
            // The power goes again while the directory is being opened.
            self.disk.fs.crash_at_change(1 + self.random.below(25) as u64);
            drop(self.disk.try_open());
            self.disk.fs = self.disk.fs.crash();
        }
        self.dir = self.disk.open();
        self.log = self.disk.log(&self.dir);
        self.check_report();
        for sent in in_doubt {
            if self.log.log_end_offset() > self.model.end {
                self.model.push(sent);
            }
        }
        let end = self.log.log_end_offset();
        let (seed, report) = (self.seed, self.dir.recovery_report());
        assert!(end >= safe_end, "seed {seed}: {end} is before {safe_end}, {report:?}");
        self.model.truncate(end);
        self.check_read(&everything_from(self.model.start));
    }

    /// A crash may cut off the end of a log, and nothing else is ever out of order.
    fn check_report(&self) {
        let report = self.dir.recovery_report();
        let is_cut = |finding: &Finding| {
            matches!(finding, Finding::TailTruncated { .. } | Finding::SegmentRemoved { .. })
        };
        assert!(report.findings.iter().all(is_cut), "seed {}: {report:?}", self.seed);
        assert!(report.failed.is_empty(), "seed {}: {report:?}", self.seed);
    }

    fn check_offsets(&self) {
        assert_eq!(self.log.log_start_offset(), self.model.start, "seed {}", self.seed);
        assert_eq!(self.log.log_end_offset(), self.model.end, "seed {}", self.seed);
        if self.is_durable {
            assert_eq!(self.log.flushed_offset(), self.model.end, "seed {}", self.seed);
        }
    }
}

/// How many worlds; more of them with `LOGWAY_SIM_SEEDS`, another range with
/// `LOGWAY_SIM_FIRST_SEED`.
pub(crate) fn seeds(default_count: u64) -> std::ops::Range<u64> {
    let number = |name, default| match std::env::var(name) {
        Ok(text) => text.parse().expect("a number of seeds"),
        Err(_) => default,
    };
    let first = number("LOGWAY_SIM_FIRST_SEED", 0);
    first..first + number("LOGWAY_SIM_SEEDS", default_count)
}

#[test]
fn the_log_is_as_its_model() {
    for seed in seeds(60) {
        let mut world = World::new(seed);
        for _ in 0..80 {
            world.step();
        }
        let everything = everything_from(world.model.start);
        world.check_read(&everything);
    }
}
