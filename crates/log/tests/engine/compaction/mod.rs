//! Compaction of logs.

mod due;
mod faults;
mod model;
mod producers;
mod records;
mod segments;

use std::path::Path;
use std::sync::Arc;

use logway_log::fs::Fs;
use logway_log::inspect::verify;
use logway_log::{
    CleanerMetrics, CleanerOptions, CleanupPolicy, Log, LogCleaner, LogConfig, LogDir,
};
use logway_model::{Offset, TimestampMs};
use logway_record::{Batch, BatchBuilder, Compression, Record};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::support::*;

/// A log that is compacted whenever anything in it is dirty.
fn compacted() -> LogConfig {
    LogConfig {
        cleanup: CleanupPolicy::Compact,
        min_cleanable_dirty_ratio: 0.0,
        delete_retention_ms: 1000,
        segment_bytes: 1000,
        index_interval_bytes: 100,
        retention_ms: None,
        ..LogConfig::default()
    }
}

/// A disk, a log on it, and a cleaner that works when it is told to.
struct Bench {
    disk: TestDisk,
    dir: Arc<LogDir>,
    log: Arc<Log>,
    cleaner: LogCleaner,
    metrics: CleanerMetrics,
}

impl Bench {
    fn new(config: LogConfig) -> Bench {
        Bench::on(TestDisk::new(1).with_config(config), CleanerOptions::default())
    }

    fn on(disk: TestDisk, options: CleanerOptions) -> Bench {
        let dir = disk.open();
        Bench::of(disk, dir, options)
    }

    fn of(disk: TestDisk, dir: LogDir, options: CleanerOptions) -> Bench {
        let dir = Arc::new(dir);
        let log = disk.log(&dir);
        let metrics = CleanerMetrics::new();
        let cleaner = LogCleaner::new(options, metrics.clone());
        cleaner.watch(&dir);
        Bench { disk, dir, log, cleaner, metrics }
    }

    /// Appends one record.
    fn put(&self, key: &str, value: Option<&str>) -> Offset {
        self.put_all(&[(key, value)])
    }

    /// Appends a batch.
    fn put_all(&self, records: &[(&str, Option<&str>)]) -> Offset {
        let batch = keyed(BatchBuilder::new(Compression::None), records);
        append(&self.log, batch).expect("the disk works").base_offset
    }

    /// Begins a new segment, and waits until the full ones can be cleaned.
    fn roll(&self) {
        self.disk.clock.advance(1);
        let filler = "x".repeat(2000);
        let big = self.put("filler", Some(&filler));
        self.put("filler", Some(&filler));
        wait_sealed(&self.dir);
        assert!(self.log.log_end_offset() > big);
    }

    /// Three full segments with a value of the same key each.
    fn put_old_values(&self) {
        for value in ["1", "2", "3"] {
            self.put("a", Some(value));
            self.roll();
        }
        wait_sealed(&self.dir);
    }

    fn clean(&self) {
        wait_sealed(&self.dir);
        self.cleaner.clean_due();
    }

    /// What the metrics say of the log: how much of it is dirty.
    fn dirty_ratio(&self) -> f64 {
        let mut registry = Registry::default();
        self.metrics.register(&mut registry);
        let mut page = String::new();
        encode(&mut page, &registry).expect("a text takes it");
        let name = r#"logway_log_cleaner_dirty_ratio{topic="t",partition="0"} "#;
        let ratio = page.lines().find_map(|line| line.strip_prefix(name));
        ratio.expect("the log is shown").parse().expect("it is a number")
    }

    /// The bytes of the segments that nobody appends to any more.
    fn full_bytes(&self) -> u64 {
        let dir = Path::new("/data/t-0");
        let files = self.disk.fs.read_dir(dir).expect("it can be listed");
        let segments = files.iter().filter(|file| file.name.to_string_lossy().ends_with(".log"));
        let bytes: Vec<u64> =
            segments.map(|file| file_len(&self.disk, &dir.join(&file.name))).collect();
        bytes.split_last().expect("there is one that grows").1.iter().sum()
    }

    /// What there is but for fillers: offset, key, value.
    fn contents(&self) -> Vec<(i64, String, Option<String>)> {
        contents(&self.log)
    }

    /// The files are sound, and there are none but the segments'.
    fn check_files(&self) {
        let mut problems = Vec::new();
        verify(&self.disk.fs, Path::new("/data/t-0"), |problem| problems.push(problem))
            .expect("the files can be read");
        assert_eq!(problems, []);
        for name in names_in(&self.disk.fs, "/data/t-0") {
            assert!(!name.ends_with(".cleaned") && !name.ends_with(".swap"), "{name}");
        }
    }

    fn reopen(self) -> Bench {
        self.dir.close().expect("it closes");
        let Bench { disk, dir, log, cleaner, .. } = self;
        drop((cleaner, log, dir));
        let bench = Bench::on(disk, CleanerOptions::default());
        let report = bench.dir.recovery_report();
        assert!(report.findings.is_empty() && report.failed.is_empty(), "{report:?}");
        bench
    }
}

fn bench_with_old_values() -> Bench {
    let bench = Bench::new(compacted());
    bench.put_old_values();
    bench
}

/// Full segments are cleaned once they are sealed, which checkpoints behind the sealing show.
pub(crate) fn wait_sealed(dir: &LogDir) {
    // One sealing may be under way, and one more may wait for it: the third knows of both.
    for _ in 0..3 {
        dir.enforce_retention().wait().expect("the writer lives");
    }
}

pub(crate) fn keyed(mut builder: BatchBuilder, records: &[(&str, Option<&str>)]) -> Batch {
    for (key, value) in records {
        let (key, value) = (Some(key.as_bytes()), value.map(str::as_bytes));
        builder.append(TimestampMs(NOW_MS), key, value, &[]).expect("the record fits");
    }
    Batch::parse(builder.finish().expect("the batch is encoded")).expect("the batch is good")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("our records are text")
}

fn contents(log: &Log) -> Vec<(i64, String, Option<String>)> {
    let records = read_records(log, log.log_start_offset());
    let shown = |record: Record| {
        let key = record.key.as_deref().map(text).unwrap_or_default();
        (record.offset.0, key, record.value.as_deref().map(text))
    };
    records.into_iter().map(shown).filter(|(_, key, _)| key != "filler").collect()
}

fn shown(records: &[(i64, &str, Option<&str>)]) -> Vec<(i64, String, Option<String>)> {
    let owned = |&(offset, key, value): &(i64, &str, Option<&str>)| {
        (offset, key.to_owned(), value.map(str::to_owned))
    };
    records.iter().map(owned).collect()
}
